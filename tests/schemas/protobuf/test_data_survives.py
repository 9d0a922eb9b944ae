"""Real data as judge of compatibility: what the rules allow, a reader reads without losing a field that it has."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from moldau.schemas.protobuf.protobuf_schema import ProtobufSchema

SCALARS = [
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "float",
    "double",
    "string",
    "bytes",
]
TYPES = [*SCALARS, "E", "N", "map<string, int32>", "map<int32, N>"]
LABELS = ["", "", "repeated ", "optional "]


@dataclass(frozen=True)
class Declared:
    number: int
    type: str
    label: str
    oneof: str | None

    def text(self) -> str:
        plain = self.oneof is not None or self.type.startswith("map")
        return f"{'' if plain else self.label}{self.type} f{self.number} = {self.number};"


def random_fields(choose: random.Random) -> list[Declared]:
    numbers = sorted(choose.sample(range(1, 9), choose.randrange(1, 7)))
    return [random_field(choose, number) for number in numbers]


def random_field(choose: random.Random, number: int) -> Declared:
    kind = choose.choice(TYPES)
    oneof = None if kind.startswith("map") else choose.choice([None, None, "one", "two"])
    return Declared(number, kind, choose.choice(LABELS), oneof)


def changed(choose: random.Random, fields: list[Declared]) -> list[Declared]:
    result = list(fields)
    for _ in range(choose.randrange(1, 3)):
        at = choose.randrange(len(result)) if result else 0
        match choose.randrange(5):
            case 0 if result:
                del result[at]
            case 1 if len({one.number for one in result}) < 8:
                free = choose.choice([one for one in range(1, 9) if one not in {field.number for field in result}])
                result.append(random_field(choose, free))
            case 2 if result:
                result[at] = replace(result[at], label=choose.choice(LABELS))
            case 3 if result and not result[at].type.startswith("map"):
                result[at] = replace(result[at], oneof=choose.choice([None, "one", "two"]))
            case _ if result:
                result[at] = random_field(choose, result[at].number)
    return result


def schema(fields: list[Declared]) -> ProtobufSchema:
    text = "".join(field.text() for field in fields if field.oneof is None)
    for oneof in ("one", "two"):
        members = "".join(field.text() for field in fields if field.oneof == oneof)
        text += f"oneof {oneof} {{ {members} }}" if members else ""
    return ProtobufSchema(
        f'syntax = "proto3"; message M {{ {text} }} message N {{ int32 a = 1; }} enum E {{ ZERO = 0; ONE = 1; }}'
    )


def filled(choose: random.Random, message: Any) -> Any:
    """Give most fields a value that is not their default one, also after it is read as another type of its group."""
    for field in message.DESCRIPTOR.fields:
        if choose.random() < 0.8:
            value = {"a": 3} if field.message_type is not None else _scalar(field)
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                _fill_map(getattr(message, field.name), field.message_type)
            elif field.is_repeated:
                getattr(message, field.name).extend([_built(field, value), _built(field, value)])
            elif field.message_type is not None:
                getattr(message, field.name).a = 3
            else:
                setattr(message, field.name, value)
    return message


def _fill_map(values: Any, entry: Any) -> None:
    key = "k" if entry.fields_by_name["key"].type == entry.fields_by_name["key"].TYPE_STRING else 7
    if entry.fields_by_name["value"].message_type is not None:
        values[key].a = 3
    else:
        values[key] = 5


def _built(field: Any, value: Any) -> Any:
    return field.message_type._concrete_class(**value) if field.message_type is not None else value


def _scalar(field: Any) -> Any:
    if field.type == field.TYPE_BYTES:
        return b"text"
    return {field.CPPTYPE_STRING: "text", field.CPPTYPE_BOOL: True}.get(field.cpp_type, 1)


@pytest.mark.timeout(1800)
def test_what_the_rules_allow_loses_no_data(count: Callable[[int, int], int], seed: int) -> None:
    choose = random.Random(seed)
    allowed = 0
    for _ in range(count(200, 20_000)):
        fields = random_fields(choose)
        writer, reader = schema(fields), schema(changed(choose, fields))
        if reader.incompatibilities(writer):
            continue
        allowed += 1
        written = filled(choose, writer.message_class("M")())
        read = reader.message_class("M").FromString(written.SerializeToString())
        story = f"{writer.canonical()}\n{reader.canonical()}\n{written}\n{read}"
        known = read.DESCRIPTOR.fields_by_number
        assert not [one.field_number for one in UnknownFieldSet(read) if one.field_number in known], story
        arrived = {field.number for field, _ in read.ListFields()}
        sent = {field.number for field, _ in written.ListFields()}
        assert sent & set(known) <= arrived, story
    assert allowed
