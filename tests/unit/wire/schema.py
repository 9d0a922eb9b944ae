"""Schema of every message, read from the definitions, and arbitrary values for it.

The tests use the definitions, not the generated classes, so that they notice a field that the generator forgot.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from moldau.wire.message import Message, WireStruct
from tools import notation

ROOT = Path(__file__).resolve().parents[3]
INTEGERS = {"int8": (True, 8), "int16": (True, 16), "uint16": (False, 16), "int32": (True, 32), "int64": (True, 64)}
STRINGS = ("", "a", "topic-1", "größe", "日本", "x" * 130)  # the compact length of the last one takes two bytes
MOST_ELEMENTS = 3
FIRST_UNKNOWN_TAG = 100


@dataclass(frozen=True, eq=False)
class Case:
    """A message: its definition, and the class that was generated from it."""

    definition: notation.Message
    module: ModuleType
    name: str

    @property
    def cls(self) -> type[Message]:
        found: type[Message] = getattr(self.module, self.name)
        return found

    @property
    def versions(self) -> range:
        return range(self.definition.versions.first, self.definition.versions.last + 1)

    def is_flexible(self, version: int) -> bool:
        return self.definition.flexible_from is not None and version >= self.definition.flexible_from

    def __str__(self) -> str:
        return self.name


@cache
def definitions() -> tuple[notation.Definition, ...]:
    return tuple(notation.Parser(path).parse() for path in sorted((ROOT / "definitions").rglob("*.def")))


@cache
def all_messages() -> tuple[Case, ...]:
    cases = []
    for definition in definitions():
        package = "stored" if definition.path.parent.name == "stored" else "messages"
        module = import_module(f"moldau.wire.{package}.{definition.module}")
        cases += [Case(message, module, message.name) for message in definition.messages]
    return tuple(cases)


def carries(one: notation.Field, version: int) -> bool:
    return one.versions.first <= version <= one.versions.last


def may_be_null(one: notation.Field, version: int) -> bool:
    return one.nullable is not None and one.nullable.first <= version <= one.nullable.last


def integer_bounds(type_: str) -> tuple[int, int]:
    signed, bits = INTEGERS[type_]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


# --- values from a seed: cheap, for tests that need many -------------------------------------------------------------


@dataclass
class Maker:
    """Creates messages that use all fields of one version."""

    case: Case
    version: int
    rng: random.Random
    unknown_tags: bool = False
    nulls: bool = True

    def message(self) -> Message:
        made = self.struct(self.case.definition.top)
        assert isinstance(made, Message)
        return made

    def struct(self, struct: notation.Struct) -> WireStruct:
        cls = getattr(self.case.module, struct.name)
        values = {one.name: self.value(one) for one in struct.fields if carries(one, self.version)}
        if self.unknown_tags and self.case.is_flexible(self.version):
            values["unknown_tags"] = {FIRST_UNKNOWN_TAG + self.rng.randrange(100_000): self.rng.randbytes(3)}
        made: WireStruct = cls(**values)
        return made

    def value(self, one: notation.Field) -> Any:
        if self.nulls and may_be_null(one, self.version) and self.rng.random() < 0.25:
            return None
        if one.array:
            return [self.element(one) for _ in range(self.rng.randint(1, MOST_ELEMENTS))]
        return self.element(one)

    def element(self, one: notation.Field) -> Any:
        if one.struct is not None:
            made = self.struct(one.struct)
            # Others omit a tagged struct with default values; Moldau sends it. Both mean the same.
            while one.tag is not None and made == type(made)(unknown_tags=made.unknown_tags):
                made = self.struct(one.struct)
            return made
        if one.type in INTEGERS:
            low, high = integer_bounds(one.type)
            return self.rng.choice((low, high, -1 if low else 1, self.rng.randint(low, high)))
        if one.type == "bool":
            return self.rng.random() < 0.5
        if one.type == "float64":
            return self.rng.uniform(-1e9, 1e9)
        if one.type == "uuid":
            return self.rng.randbytes(16)
        if one.type == "string":
            return self.rng.choice(STRINGS)
        return self.rng.randbytes(self.rng.choice((0, 1, 5, 200)))


# --- values from hypothesis: any, in any version ---------------------------------------------------------------------


def any_message(case: Case) -> st.SearchStrategy[Message]:
    """Messages with any values in any fields, whichever versions have them."""
    return _struct_strategy(case, case.definition.top, {})


def _struct_strategy(case: Case, struct: notation.Struct, known: dict[str, Any]) -> st.SearchStrategy[Any]:
    if struct.name not in known:
        fields = {one.name: _field_strategy(case, one, known) for one in struct.fields}
        tags = st.dictionaries(st.integers(FIRST_UNKNOWN_TAG, (1 << 32) - 1), st.binary(max_size=8), max_size=2)
        known[struct.name] = st.builds(getattr(case.module, struct.name), **fields, unknown_tags=tags)
    return known[struct.name]


def _field_strategy(case: Case, one: notation.Field, known: dict[str, Any]) -> st.SearchStrategy[Any]:
    base: st.SearchStrategy[Any]
    if one.struct is not None:
        base = _struct_strategy(case, one.struct, known)
    elif one.type in INTEGERS:
        low, high = integer_bounds(one.type)
        base = st.integers(low, high)
    else:
        base = {
            "bool": st.booleans(),
            "float64": st.floats(allow_nan=False),
            "uuid": st.binary(min_size=16, max_size=16),
            "string": st.text(max_size=6) | st.sampled_from(STRINGS),
            "bytes": st.binary(max_size=8),
            "records": st.binary(max_size=8),
        }[one.type]
    if one.array:
        base = st.lists(base, max_size=2)
    return st.none() | base if one.optional else base


# --- fields that a version has ---------------------------------------------------------------------------------------


def as_carried(case: Case, struct: notation.Struct, value: WireStruct, version: int) -> WireStruct:
    """The message that must be decoded: fields that the version does not have get their defaults."""
    carried = {}
    for one in struct.fields:
        if not carries(one, version):
            continue
        field = getattr(value, one.name)
        if one.struct is not None and field is not None:
            if one.array:
                field = [as_carried(case, one.struct, element, version) for element in field]
            else:
                field = as_carried(case, one.struct, field, version)
        carried[one.name] = field
    if case.is_flexible(version):
        carried["unknown_tags"] = value.unknown_tags
    made: WireStruct = type(value)(**carried)
    return made


def forbidden_nulls(struct: notation.Struct, value: WireStruct, version: int) -> Iterator[str]:
    """The fields that are null although the version does not allow it."""
    for one in struct.fields:
        if not carries(one, version):
            continue
        field = getattr(value, one.name)
        if field is None:
            if one.tag is None and not may_be_null(one, version):
                yield one.name
        elif one.struct is not None:
            for element in field if one.array else [field]:
                yield from forbidden_nulls(one.struct, element, version)


def leaves(struct: notation.Struct, value: WireStruct, version: int) -> Iterator[object]:
    """The plain values of a message in the order in which this version writes them; null arrays and structs as None."""
    for one in struct.fields:
        if not carries(one, version) or one.tag is not None:
            continue
        field = getattr(value, one.name)
        if field is None:
            yield None
        elif one.struct is None:
            yield from field if one.array else [field]
        else:
            for element in field if one.array else [field]:
                yield from leaves(one.struct, element, version)
