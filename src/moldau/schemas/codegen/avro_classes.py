"""Classes of an Avro schema.

Logical types are what fastavro reads and writes: `datetime`, `date`, `time`, `Decimal` and `UUID`. A union of null and
one other type is an optional one. A record in a union of several types is written as (name, record).
"""

from __future__ import annotations

from typing import Any, Final

from moldau.schemas.avro import types as avro
from moldau.schemas.avro.avro_schema import AvroSchema
from moldau.schemas.codegen.class_model import (
    NO_DEFAULT,
    ChoiceType,
    ClassType,
    DictType,
    EnumClass,
    FieldModel,
    FieldType,
    ListType,
    ModuleModel,
    NamedEnumType,
    OptionalType,
    PlainType,
    RecordClass,
)
from moldau.schemas.codegen.python_names import USED_IN_CLASSES, NameSpace, class_name, field_name, member_name

PRIMITIVES: Final = {
    "null": PlainType("None"),
    "boolean": PlainType("bool", test="bool"),
    "int": PlainType("int", test="int"),
    "long": PlainType("int", test="int"),
    "float": PlainType("float", test="float"),
    "double": PlainType("float", test="float"),
    "bytes": PlainType("bytes", test="bytes"),
    "string": PlainType("str", test="str"),
}
LOGICAL: Final = {
    "decimal": "decimal.Decimal",
    "uuid": "uuid.UUID",
    "date": "datetime.date",
    "time-millis": "datetime.time",
    "time-micros": "datetime.time",
    "timestamp-millis": "datetime.datetime",
    "timestamp-micros": "datetime.datetime",
    "local-timestamp-millis": "datetime.datetime",
    "local-timestamp-micros": "datetime.datetime",
}
"""Logical types that fastavro converts. It leaves all others as they are."""


class AvroClasses:
    """The model of one schema."""

    def __init__(self) -> None:
        self.module = ModuleModel()
        self._names = NameSpace()
        self._known: dict[str, FieldType] = {}
        self._records: list[tuple[avro.RecordType, RecordClass]] = []

    def build(self, schema: AvroSchema) -> ModuleModel:
        self.field_type(schema.root)
        # Fields come last: only now all names of classes are known, which no field may have.
        names = frozenset(one.name for one in self.module.classes)
        for source, record in self._records:
            taken = NameSpace()
            for model, one in zip(record.fields, source.fields, strict=True):
                model.name = taken.take(field_name(one.name, names))
        return self.module

    def field_type(self, type_: avro.AvroType) -> FieldType:
        if type_.logical is not None and (name := LOGICAL.get(type_.logical.name)):
            return PlainType(name, test=name)
        match type_:
            case avro.Primitive():
                return PRIMITIVES[type_.kind]
            case avro.FixedType():
                return PRIMITIVES["bytes"]
            case avro.ArrayType():
                return ListType(self.field_type(type_.items))
            case avro.MapType():
                return DictType(self.field_type(type_.values))
            case avro.UnionType():
                return self._union(type_)
            case avro.EnumType():
                return self._known.get(type_.name.full) or self._enum(type_)
            case avro.RecordType():
                return self._known.get(type_.name.full) or self._record(type_)

    def _union(self, union: avro.UnionType) -> FieldType:
        branches = [one for one in union.branches if one.kind != "null"]
        types = tuple(dict.fromkeys(self.field_type(one) for one in branches))
        if not types:
            return PRIMITIVES["null"]
        named = any(isinstance(one, avro.NamedType) for one in branches)
        is_optional = len(branches) < len(union.branches)
        if len(types) == 1 and is_optional:
            return OptionalType(types[0], named)
        found = types[0] if len(types) == 1 and not named else ChoiceType(types, tagged=named)
        return OptionalType(found) if is_optional else found

    def _enum(self, enum: avro.EnumType) -> FieldType:
        members = NameSpace(USED_IN_CLASSES)
        model = EnumClass(
            self._names.take(class_name(enum.name.name)),
            {members.take(member_name(symbol)): symbol for symbol in enum.symbols},
            enum.doc,
        )
        self.module.classes.append(model)
        self._known[enum.name.full] = found = NamedEnumType(model)
        return found

    def _record(self, record: avro.RecordType) -> FieldType:
        name = self._names.take(class_name(record.name.name))
        model = RecordClass(name, record.name.full, record.doc, is_exact=True)
        self._known[record.name.full] = found = ClassType(model)
        self._records.append((record, model))
        for one in record.fields:
            type_ = self.field_type(one.type)
            default = NO_DEFAULT if one.default is avro.NO_DEFAULT else _plain_default(one.type, one.default)
            model.fields.append(FieldModel(one.name, one.name, type_, default, doc=one.doc))
        self.module.classes.append(model)
        return found


def _plain_default(type_: avro.AvroType, default: Any) -> Any:
    """A default as fastavro would read it. Bytes are texts in JSON; logical types have no default here."""
    if type_.logical is not None and type_.logical.name in LOGICAL:
        return NO_DEFAULT
    match type_:
        case avro.UnionType():
            return _plain_default(type_.branches[0], default)
        case avro.FixedType() | avro.Primitive(kind="bytes"):
            return default.encode("latin-1") if isinstance(default, str) else NO_DEFAULT
        case avro.ArrayType() | avro.MapType() | avro.RecordType():
            return default if default in ([], {}) and not isinstance(type_, avro.RecordType) else NO_DEFAULT
        case _:
            return default
