"""Types of Avro: what a schema is made of after parsing.

A type is one of the classes below. Named types (record, enum, fixed) exist once per schema: a record that contains
itself refers to the same object, so a walk over types has to remember the names that it has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED: Final = ("record", "error", "enum", "fixed")
TYPE_NAMES: Final = (*PRIMITIVES, *NAMED, "array", "map", "union")


class NoDefault(Enum):
    """The type of `NO_DEFAULT`: None is a default value (null), its absence is not."""

    NO_DEFAULT = "no default"


NO_DEFAULT: Final = NoDefault.NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a named type, or an alias of one. `namespace` is empty for the null namespace."""

    name: str
    namespace: str = ""

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class LogicalType:
    """A logical type that fits the type that it annotates. One that does not fit is ignored, says the specification."""

    name: str
    precision: int | None = None
    """Of a decimal."""
    scale: int = 0


@dataclass(eq=False, slots=True, kw_only=True)
class AnyType:
    """What all types have."""

    props: Mapping[str, Any] = field(default_factory=dict)
    """The attributes that are not Avro's own, in the order of the text; `logicalType` and its attributes included."""
    logical: LogicalType | None = None


@dataclass(eq=False, slots=True)
class Primitive(AnyType):
    """null, boolean, int, long, float, double, bytes or string."""

    kind: Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


@dataclass(eq=False, slots=True)
class ArrayType(AnyType):
    """array"""

    items: AvroType
    kind: Literal["array"] = "array"


@dataclass(eq=False, slots=True)
class MapType(AnyType):
    """map; its keys are strings."""

    values: AvroType
    kind: Literal["map"] = "map"


@dataclass(eq=False, slots=True)
class UnionType(AnyType):
    """union"""

    branches: tuple[AvroType, ...]
    kind: Literal["union"] = "union"


@dataclass(eq=False, slots=True)
class NamedType(AnyType):
    """What named types have."""

    name: Name
    aliases: tuple[Name, ...] = ()
    doc: str | None = None


@dataclass(eq=False, slots=True)
class RecordField:
    """A field of a record."""

    name: str
    type: AvroType
    default: Any = NO_DEFAULT
    """The default value in its JSON form."""
    doc: str | None = None
    order: Literal["ascending", "descending", "ignore"] = "ascending"
    aliases: tuple[str, ...] = ()
    props: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class RecordType(NamedType):
    """record, or error in protocols. `fields` is filled after the record exists: its fields may refer to it."""

    fields: tuple[RecordField, ...] = ()
    kind: Literal["record"] = "record"
    is_error: bool = False


@dataclass(eq=False, slots=True)
class EnumType(NamedType):
    """enum; `default` is the symbol that a reader takes for a symbol that it does not know."""

    symbols: tuple[str, ...] = ()
    default: str | None = None
    kind: Literal["enum"] = "enum"


@dataclass(eq=False, slots=True)
class FixedType(NamedType):
    """fixed"""

    size: int = 0
    kind: Literal["fixed"] = "fixed"


AvroType = Primitive | ArrayType | MapType | UnionType | RecordType | EnumType | FixedType
