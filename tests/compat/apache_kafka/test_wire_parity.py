"""Wire parity: every message in every version means the same to Apache Kafka's classes and to ours."""

from __future__ import annotations

import base64
import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.wire.message import WireStruct
from tests.compat.apache_kafka.jars import JVM_FLAGS, KafkaJars
from tests.unit.wire.schema import Case, Maker, all_messages, carries
from tools import notation

ECHO = Path(__file__).with_name("WireEcho.java")
ECHO_TIMEOUT_S = 100
EXAMPLES = 2  # the second one with tagged fields that neither side knows
LEAST_COMPARED = 560  # messages and versions: a test that silently compares nothing must not pass

# Kafka supports these APIs from a later version on. Moldau keeps the earlier ones for old clients.
FIRST_VERSION_OF_KAFKA = {"ProduceRequest": 3, "ProduceResponse": 3}


def java_class(case: Case) -> str:
    name = case.name
    if case.module.__name__.startswith("moldau.wire.stored."):
        package = "transaction" if name.startswith("Transaction") else "group"
        return f"org.apache.kafka.coordinator.{package}.generated.{name}"
    suffix = "Data" if case.definition.api_key is not None else ""
    return f"org.apache.kafka.common.message.{name}{suffix}"


def as_json(struct: notation.Struct, value: WireStruct, version: int) -> dict[str, Any]:
    """A message in Kafka's JSON form, except for the case of its names."""
    shown = {}
    for one in struct.fields:
        if not carries(one, version):
            continue
        field = getattr(value, one.name)
        if one.type == "records":
            shown[one.name] = None if field is None else ""  # Kafka shows no contents of records
        elif one.tag is not None and field == getattr(type(value)(), one.name):
            pass  # Kafka does not show a tagged field that is not sent
        elif one.array and field is not None:
            shown[one.name] = [shown_element(one, element, version) for element in field]
        else:
            shown[one.name] = shown_element(one, field, version)
    return shown


def shown_element(one: notation.Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if one.struct is not None:
        return as_json(one.struct, value, version)
    if one.type == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if one.type == "bytes" else value


def snake_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): snake_names(element) for name, element in value.items()}
    return [snake_names(element) for element in value] if isinstance(value, list) else value


def known_to_kafka() -> Iterator[tuple[Case, int]]:
    for case in all_messages():
        for version in case.versions:
            if version >= FIRST_VERSION_OF_KAFKA.get(case.name, 0):
                yield case, version


def echo(jars: KafkaJars, lines: list[str]) -> list[str]:
    command = ["java", *JVM_FLAGS, "-cp", f"{jars.directory}/*", str(ECHO)]
    given = "\n".join(lines) + "\n"
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=ECHO_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines) >= LEAST_COMPARED
    return answers


@pytest.mark.needs_java
def test_apache_kafka_reads_and_writes_the_same_bytes_for_every_message_in_every_version(jars: KafkaJars) -> None:
    sent = []
    for case, version in known_to_kafka():
        rng = random.Random(f"{case} {version}")
        sent += [(case, version, Maker(case, version, rng, unknown_tags=bool(i)).message()) for i in range(EXAMPLES)]
    answers = echo(jars, [f"{java_class(case)} {v} {message.encode(v).hex()}" for case, v, message in sent])
    for (case, version, message), answer in zip(sent, answers, strict=True):
        echoed, _, shown = answer.partition(" ")
        assert echoed == message.encode(version).hex(), f"{case} version {version}: {answer}"
        expected = as_json(case.definition.top, message, version)
        assert snake_names(json.loads(shown)) == expected, f"{case} version {version}"


@pytest.mark.needs_java
def test_a_message_with_default_values_is_the_same_for_apache_kafka(jars: KafkaJars) -> None:
    asked = list(known_to_kafka())
    answers = echo(jars, [f"{java_class(case)} {version} nothing" for case, version in asked])
    for (case, version), answer in zip(asked, answers, strict=True):
        assert answer.partition(" ")[0] == case.cls().encode(version).hex(), f"{case} version {version}: {answer}"
