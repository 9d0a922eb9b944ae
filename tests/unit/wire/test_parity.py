"""Encoded bytes compared with kafka-python and aiokafka, two independent implementations.

Where both know a message and a version, both must encode the same values to the same bytes, and decode the same values
from them. Unknown tagged fields are excluded: neither of the two writes them back.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from moldau.wire.message import Message, WireStruct
from moldau.wire.messages.api_versions import ApiVersionsResponse
from tests.unit.wire.schema import Case, Maker, all_messages, carries, leaves
from tools import notation

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # theirs, not ours
    import aiokafka.protocol
    import kafka.protocol
    from aiokafka.protocol.api import RequestStruct, Response
    from kafka.protocol.api_data import ApiData
    from kafka.protocol.api_message import ApiMessage

EXAMPLES = 4

# The number of messages, per version, that must be compared with each library: a test that silently compares nothing
# must not pass.
LEAST_WITH_KAFKA_PYTHON = 490
LEAST_WITH_AIOKAFKA = 170


def modules_of(package: Any) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.startswith(("kafka.protocol.old", "kafka.protocol.generate_stubs")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                yield importlib.import_module(found.name)


def examples(case: Case, version: int) -> Iterator[Message]:
    for seed in range(EXAMPLES):
        message = Maker(case, version, random.Random(f"{case} {version} {seed}")).message()
        if isinstance(message, ApiVersionsResponse):
            message.error_code = 0  # kafka-python takes a response with an error for one of version 0
        yield message


# --- kafka-python: one class per message, fields by name -------------------------------------------------------------


@cache
def kafka_python_classes() -> dict[str, Any]:
    return {
        name: value
        for module in modules_of(kafka.protocol)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, ApiMessage | ApiData) and hasattr(value, "_json")
    }


def known_to_kafka_python() -> list[tuple[Case, int]]:
    classes = kafka_python_classes()
    known = [case for case in all_messages() if case.name in classes]
    return [(case, version) for case in known for version in case.versions if version <= classes[case.name].max_version]


def their_name(theirs: Any, ours: str) -> str:
    """kafka-python has its own name for sets of allowed operations, which are bits of an integer on the wire."""
    return ours if ours in theirs._struct.fields else "authorized_operations"


def bits(value: int) -> set[int]:
    return {bit for bit in range(32) if value >> bit & 1}


def to_theirs(cls: Any, struct: notation.Struct, value: WireStruct, version: int) -> Any:
    fields = {}
    for one in struct.fields:
        field = getattr(value, one.name)
        if not carries(one, version) or (one.tag is not None and field is None):
            continue
        name = their_name(cls, one.name)
        if one.type == "uuid":
            field = uuid.UUID(bytes=field)
        elif name == "authorized_operations":
            field = bits(field)
        elif one.struct is not None and field is not None:
            inner = cls._struct.fields[name].data_class
            if one.array:
                field = [to_theirs(inner, one.struct, element, version) for element in field]
            else:
                field = to_theirs(inner, one.struct, field, version)
        fields[name] = field
    return cls(version=version, **fields)


def assert_same(struct: notation.Struct, ours: WireStruct, theirs: Any, version: int) -> None:
    for one in struct.fields:
        if not carries(one, version):
            continue
        name = their_name(theirs, one.name)
        our_field, their_field = getattr(ours, one.name), getattr(theirs, name)
        if one.struct is not None and our_field is not None:
            pairs = zip(our_field, their_field, strict=True) if one.array else [(our_field, their_field)]
            for our_element, their_element in pairs:
                assert_same(one.struct, our_element, their_element, version)
        elif one.type == "uuid":
            assert our_field == their_field.bytes, one.name
        elif name == "authorized_operations":
            assert bits(our_field) == (their_field or bits(-(1 << 31))), one.name
        else:
            assert our_field == their_field, one.name


def test_kafka_python_knows_enough_to_compare() -> None:
    assert len(known_to_kafka_python()) >= LEAST_WITH_KAFKA_PYTHON


@pytest.mark.parametrize("case", sorted({case for case, _ in known_to_kafka_python()}, key=str), ids=str)
def test_kafka_python_writes_the_same_bytes_and_reads_the_same_values(case: Case) -> None:
    cls = kafka_python_classes()[case.name]
    body_only = {} if issubclass(cls, ApiMessage) else {"header": False}
    for version in (version for known, version in known_to_kafka_python() if known is case):
        for message in examples(case, version):
            encoded = message.encode(version)
            theirs = to_theirs(cls, case.definition.top, message, version).encode(version, **body_only)
            assert encoded == theirs, f"version {version}"
            assert_same(case.definition.top, message, cls.decode(encoded, version=version, **body_only), version)
            assert case.cls.decode(theirs, version) == message


# --- aiokafka: one class per version, fields by position -------------------------------------------------------------


@cache
def aiokafka_classes() -> dict[tuple[int, int, bool], Any]:
    """Its classes by API, version, and whether they are requests."""
    found = {}
    for module in modules_of(aiokafka.protocol):
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, RequestStruct | Response)
                and hasattr(value, "API_VERSION")
            ):
                # One of its classes has the version of the class before it; the name has the right one.
                version = int(value.__name__.rpartition("_v")[2]) if "_v" in value.__name__ else value.API_VERSION
                found[value.API_KEY, version, issubclass(value, RequestStruct)] = value
    return found


# Differences from Apache Kafka, and so from Moldau: kafka-python and Kafka's own classes agree with our bytes.
AIOKAFKA_DEPARTS = {
    ("ListOffsetsRequest", 4): "takes current_leader_epoch for an int64",
    ("ListOffsetsRequest", 5): "takes current_leader_epoch for an int64",
    ("DescribeAclsRequest", 2): "does not know that this version is flexible",
    ("DescribeAclsResponse", 2): "does not know that this version is flexible",
}


def aiokafka_class(case: Case, version: int) -> Any:
    """aiokafka's class for a message; None if it has none, or differs from Kafka."""
    if (case.name, version) in AIOKAFKA_DEPARTS:
        return None
    return aiokafka_classes().get((case.definition.api_key, version, case.name.endswith("Request")))


def known_to_aiokafka() -> list[tuple[Case, int]]:
    return [(case, version) for case in all_messages() for version in case.versions if aiokafka_class(case, version)]


def their_leaves(value: Any) -> Iterator[object]:
    """Plain values in the order of the wire; tagged fields are dictionaries, and left out."""
    for field in value:
        if isinstance(field, list | tuple):
            yield from their_leaves(field)
        elif not isinstance(field, dict):
            yield field


def test_aiokafka_knows_enough_to_compare() -> None:
    assert len(known_to_aiokafka()) >= LEAST_WITH_AIOKAFKA


@pytest.mark.parametrize("case", sorted({case for case, _ in known_to_aiokafka()}, key=str), ids=str)
def test_aiokafka_reads_the_same_values_and_writes_the_same_bytes(case: Case) -> None:
    for version in (version for known, version in known_to_aiokafka() if known is case):
        for message in examples(case, version):
            encoded = message.encode(version)
            theirs = aiokafka_class(case, version).decode(encoded)
            ours = list(leaves(case.definition.top, message, version))
            assert list(their_leaves(theirs.get_item(name) for name in theirs.SCHEMA.names)) == ours
            assert theirs.encode() == encoded
