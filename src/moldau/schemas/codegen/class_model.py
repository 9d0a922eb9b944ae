"""Model of generated classes: records with typed fields and enums, the same for all types of schemas.

A type knows its annotation, and two converters: `read` makes a value of the generated classes from the plain value that
a deserializer returns, `write` does the reverse for a serializer. A converter is the text of a Python callable; None
means that the value stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class PlainType:
    """A type of Python, or of this module."""

    annotation: str
    read: str | None = None
    write: str | None = None
    test: str | None = None
    """The class for `isinstance` of a plain value; None if there is none."""


@dataclass(frozen=True)
class ClassType:
    """A generated record."""

    record: RecordClass


@dataclass(frozen=True)
class NamedEnumType:
    """A generated enum."""

    enum: EnumClass


@dataclass(frozen=True)
class ListType:
    """list[...]"""

    item: FieldType


@dataclass(frozen=True)
class DictType:
    """dict[...]; `key` is a type with converters if the plain keys are texts and the real ones are not."""

    value: FieldType
    key: PlainType = PlainType("str")


@dataclass(frozen=True)
class OptionalType:
    """A type or None. A plain value that `may_be_named` can come as (name, value): fastavro does so for unions."""

    inner: FieldType
    may_be_named: bool = False


@dataclass(frozen=True)
class ChoiceType:
    """One of several types. `tagged` records are read and written as (name, record), for fastavro."""

    branches: tuple[FieldType, ...]
    tagged: bool = False


FieldType = PlainType | ClassType | NamedEnumType | ListType | DictType | OptionalType | ChoiceType

ANY: Final = PlainType("Any")
NO_DEFAULT: Final = object()


@dataclass
class FieldModel:
    """A field of a record."""

    key: str
    """The name in the plain value."""
    name: str
    """The name in Python."""
    type: FieldType
    default: Any = NO_DEFAULT
    """The default in its plain form."""
    omit_none: bool = False
    """None means that the key is absent."""
    doc: str | None = None
    default_text: str | None = None
    """The default as Python text, where it is not the plain one."""


@dataclass(eq=False)
class RecordClass:
    """A generated dataclass."""

    name: str
    full_name: str
    doc: str | None = None
    fields: list[FieldModel] = field(default_factory=list)
    additional: FieldType | None = None
    """The type of values under names that are not declared; None: such values are dropped."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Keys with only one possible value, which tell records of a choice apart."""
    is_exact: bool = False
    """A plain value has exactly the keys of the fields, as in Avro."""

    @property
    def required(self) -> list[str]:
        return [one.key for one in self.fields if self.is_exact or (one.default is NO_DEFAULT and not one.omit_none)]


@dataclass(eq=False)
class EnumClass:
    """A generated enum of texts, or, with numbers, of Protobuf's names for numbers."""

    name: str
    members: dict[str, str | int] = field(default_factory=dict)
    """Values by the name of the member."""
    doc: str | None = None
    renamed: dict[str, str] = field(default_factory=dict)
    """Names of members by the names in the schema, where Python does not allow these."""

    @property
    def is_numbered(self) -> bool:
        return any(isinstance(value, int) for value in self.members.values())


@dataclass
class ModuleModel:
    """All classes of a module, in the order in which they are written."""

    classes: list[RecordClass | EnumClass] = field(default_factory=list)
