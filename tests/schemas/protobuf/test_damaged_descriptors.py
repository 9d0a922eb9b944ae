"""Damaged descriptors: a registry that gets one refuses it with a reason, and never fails on it."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from moldau.schemas.errors import InvalidSchema, SchemaError
from moldau.schemas.protobuf.protobuf_schema import ProtobufSchema
from tests.schemas.protobuf.texts import ALL

NUMBERS = (0, 1, 2, 5, 19000, 1 << 29, -1, (1 << 31) - 1)
NAMES = ("", ".", "a.b", ".shop.orders.Order", "x y", "key", "string")


@pytest.mark.timeout(1800)
def test_a_damaged_descriptor_is_refused_or_means_what_its_text_means(
    count: Callable[[int, int], int], seed: int
) -> None:
    choose = random.Random(seed)
    originals = [ProtobufSchema(text) for text in ALL.values()]
    taken = 0
    for _ in range(count(80, 5000)):
        original = choose.choice(originals)
        data = base64.b64decode(original.serialized)
        damaged = _with_other_bytes(choose, data) if choose.random() < 0.5 else _with_other_fields(choose, data)
        try:
            schema = ProtobufSchema(base64.b64encode(damaged).decode())
        except InvalidSchema:
            continue
        taken += 1
        assert ProtobufSchema(schema.canonical()).normalized() == schema.normalized()
        schema.incompatibilities(original)
        original.incompatibilities(schema)
    assert taken


@pytest.mark.parametrize(
    "data", [b"\x0a\x03abc\x62\x05prots", b"\x0a\x01a\x12\x01\xff", b"\x0a\x03abc\x22\x02\x0a\x00"]
)
def test_an_unknown_syntax_a_broken_string_and_an_empty_name_are_refused(data: bytes) -> None:
    with pytest.raises(SchemaError):
        ProtobufSchema(base64.b64encode(data).decode())


def _with_other_bytes(choose: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(choose.choice((1, 2, 5))):
        changed[choose.randrange(len(changed))] = choose.randrange(256)
    return bytes(changed)


def _with_other_fields(choose: random.Random, data: bytes) -> bytes:
    file = descriptor_pb2.FileDescriptorProto.FromString(data)
    for _ in range(choose.choice((1, 2, 3))):
        message, field = choose.choice(list(_set_fields(file)))
        _change(choose, message, field)
    return file.SerializeToString()


def _set_fields(message: Any) -> Iterator[tuple[Any, Any]]:
    for field, value in message.ListFields():
        if field.is_extension:
            continue
        yield message, field
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from _set_fields(inner)


def _change(choose: random.Random, message: Any, field: Any) -> None:
    if choose.random() < 0.3:
        message.ClearField(field.name)
    elif field.is_repeated:
        values = getattr(message, field.name)
        if field.message_type is not None and choose.random() < 0.5:
            values.add().CopyFrom(choose.choice(values))
        else:
            del values[choose.randrange(len(values))]
    elif field.type == field.TYPE_INT32:
        setattr(message, field.name, choose.choice(NUMBERS))
    elif field.type == field.TYPE_STRING:
        setattr(message, field.name, choose.choice(NAMES))
