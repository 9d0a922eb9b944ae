"""Apache Avro as judge of schemas: the Java program beside this file, compiled once."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.compat.apache_kafka.jars import JVM_FLAGS, JarsUnavailableError, fetch_jars

HERE = Path(__file__).parent
JUDGE_TIMEOUT_S = 240

Judge = Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]]
"""Questions to Apache Avro, and its answers: see AvroOracle.java."""


@pytest.fixture(scope="session")
def apache_avro(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    try:
        jars = fetch_jars(HERE / "pom.xml")
    except JarsUnavailableError as reason:
        pytest.skip(f"Apache Avro's jars cannot be had: {reason}")
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed")
    classes = tmp_path_factory.mktemp("avro-oracle")
    compile_it = ["javac", "-cp", f"{jars.directory}/*", "-d", str(classes), str(HERE / "AvroOracle.java")]
    subprocess.run(compile_it, check=True, capture_output=True, timeout=JUDGE_TIMEOUT_S)

    def judge(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        flags = [*JVM_FLAGS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
        command = ["java", *flags, "-cp", f"{classes}:{jars.directory}/*", "AvroOracle"]
        lines = "".join(json.dumps(question) + "\n" for question in questions).encode()
        done = subprocess.run(command, input=lines, check=True, capture_output=True, timeout=JUDGE_TIMEOUT_S)
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        assert len(answers) == len(questions)
        return answers

    return judge
