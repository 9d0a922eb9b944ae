"""Classes of a Protobuf schema. Their plain form is Protobuf's JSON mapping with the names of the .proto file.

That is the form of ProtobufSerializer for dicts, and of ProtobufDeserializer with `as_dict=True`. A Timestamp is a
`datetime` (microseconds), Duration and FieldMask are the texts of the JSON mapping, wrappers are optional values, and
Struct, Value and Any are what JSON has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from moldau.schemas.codegen.class_model import (
    ANY,
    NO_DEFAULT,
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
from moldau.schemas.protobuf.protobuf_schema import ProtobufSchema

SHORT: Final = PlainType("int")
LONG: Final = PlainType("int", read="int")
"""64 bits are a text in JSON."""
FLOAT: Final = PlainType("float", read="float", write="_float_plain")
BOOL: Final = PlainType("bool")
TEXT: Final = PlainType("str")
BYTES: Final = PlainType("bytes", read="base64.b64decode", write="_base64")

TYPES: Final = {
    **dict.fromkeys(("INT32", "UINT32", "SINT32", "FIXED32", "SFIXED32"), SHORT),
    **dict.fromkeys(("INT64", "UINT64", "SINT64", "FIXED64", "SFIXED64"), LONG),
    **dict.fromkeys(("FLOAT", "DOUBLE"), FLOAT),
    "BOOL": BOOL,
    "STRING": TEXT,
    "BYTES": BYTES,
}
ZERO: Final = {SHORT: (0, "0"), LONG: (0, "0"), FLOAT: (0.0, "0.0"), BOOL: (False, "False"), TEXT: ("", '""')}
"""The values of fields that are not set: plain, and as Python text."""
WELL_KNOWN: Final[dict[str, FieldType]] = {
    "google.protobuf.Timestamp": PlainType(
        "datetime.datetime", read="datetime.datetime.fromisoformat", write="datetime.datetime.isoformat"
    ),
    "google.protobuf.Duration": TEXT,
    "google.protobuf.FieldMask": TEXT,
    "google.protobuf.Struct": DictType(ANY),
    "google.protobuf.ListValue": ListType(ANY),
    "google.protobuf.Value": ANY,
    "google.protobuf.Any": DictType(ANY),
    "google.protobuf.Empty": DictType(ANY),
    "google.protobuf.DoubleValue": FLOAT,
    "google.protobuf.FloatValue": FLOAT,
    "google.protobuf.Int64Value": LONG,
    "google.protobuf.UInt64Value": LONG,
    "google.protobuf.Int32Value": SHORT,
    "google.protobuf.UInt32Value": SHORT,
    "google.protobuf.BoolValue": BOOL,
    "google.protobuf.StringValue": TEXT,
    "google.protobuf.BytesValue": BYTES,
}


class ProtobufClasses:
    """The model of one file."""

    def __init__(self) -> None:
        self.module = ModuleModel()
        self._names = NameSpace()
        self._records: dict[str, RecordClass] = {}
        self._enums: dict[str, EnumClass] = {}
        self._type_names: dict[int, str] = {}

    def build(self, schema: ProtobufSchema) -> ModuleModel:
        from google.protobuf.descriptor_pb2 import FieldDescriptorProto

        numbers = FieldDescriptorProto.Type.items()
        self._type_names = {number: name.removeprefix("TYPE_") for name, number in numbers}
        file = schema.file_descriptor
        for enum in file.enum_types_by_name.values():
            self._enum(enum)
        self._messages(file.message_types_by_name.values())
        names = frozenset(one.name for one in self.module.classes)
        for record in self._records.values():
            taken = NameSpace()
            for one in record.fields:
                one.name = taken.take(field_name(one.key, names))
        return self.module

    def _messages(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if not message.GetOptions().map_entry:
                self._record(message)
                for enum in message.enum_types:
                    self._enum(enum)
                self._messages(message.nested_types)

    def _record(self, message: Any) -> RecordClass:
        from google.protobuf.descriptor_pb2 import DescriptorProto

        if message.full_name in self._records:
            return self._records[message.full_name]
        model = RecordClass(self._names.take(_class_name(message)), message.full_name, is_exact=True)
        self._records[message.full_name] = model
        definition = DescriptorProto()
        message.CopyToProto(definition)
        labels = {one.name: one.label for one in definition.field}
        model.fields = [self._field(one, labels[one.name]) for one in message.fields]
        self.module.classes.append(model)
        return model

    def _enum(self, enum: Any) -> EnumClass:
        if enum.full_name not in self._enums:
            model = EnumClass(self._names.take(_class_name(enum)))
            taken = NameSpace(USED_IN_CLASSES)
            for one in enum.values:
                name = taken.take(member_name(one.name))
                model.members[name] = one.number
                if name != one.name:
                    model.renamed[one.name] = name
            self._enums[enum.full_name] = model
            self.module.classes.append(model)
        return self._enums[enum.full_name]

    def _field(self, field: Any, label: int) -> FieldModel:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            return FieldModel(field.name, field.name, DictType(self._type(value), _key_type(self._type(key))), {})
        type_ = self._type(field)
        if label == field.LABEL_REPEATED:
            return FieldModel(field.name, field.name, ListType(type_), [])
        if label == field.LABEL_REQUIRED:
            return FieldModel(field.name, field.name, type_)
        if field.has_presence:
            optional = type_ if type_ == ANY else OptionalType(type_)
            return FieldModel(field.name, field.name, optional, NO_DEFAULT, omit_none=True)
        if isinstance(type_, NamedEnumType):
            return FieldModel(field.name, field.name, type_, next(iter(type_.enum.members)))
        plain, text = ("", 'b""') if type_ == BYTES else ZERO[type_]  # type: ignore[index]
        return FieldModel(field.name, field.name, type_, plain, default_text=text)

    def _type(self, field: Any) -> FieldType:
        if field.message_type is not None:
            known = WELL_KNOWN.get(field.message_type.full_name)
            return ClassType(self._record(field.message_type)) if known is None else known
        if field.enum_type is not None:
            if field.enum_type.full_name == "google.protobuf.NullValue":
                return ANY
            return NamedEnumType(self._enum(field.enum_type))
        return TYPES[self._type_names[field.type]]


def _class_name(descriptor: Any) -> str:
    """The name with those of the messages around it, without the package."""
    package = descriptor.file.package
    name = descriptor.full_name
    return class_name(name.removeprefix(f"{package}.") if package else name)


def _key_type(type_: FieldType) -> PlainType:
    """The type of keys, which are texts in JSON."""
    if type_ == BOOL:
        return PlainType("bool", read="_text_bool", write="_bool_text")
    return PlainType("int", read="int", write="str") if type_ in (SHORT, LONG) else TEXT
