"""Validation of fields and extensions: labels, defaults, maps, options and features, as protoc has them."""

from __future__ import annotations

from typing import Any, Final

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.descriptors import FieldDescriptorProto, descriptor_pb2
from moldau.schemas.protobuf.features import feature, is_open, own_features
from moldau.schemas.protobuf.names import json_name
from moldau.schemas.protobuf.symbols import Symbol, SymbolKind, SymbolTable

_F: Final = FieldDescriptorProto
_S: Final = descriptor_pb2.FeatureSet
_MESSAGES: Final = (_F.TYPE_MESSAGE, _F.TYPE_GROUP)
_NOT_PACKABLE: Final = (*_MESSAGES, _F.TYPE_STRING, _F.TYPE_BYTES)
_MAP_KEYS_REFUSED: Final = (*_MESSAGES, _F.TYPE_FLOAT, _F.TYPE_DOUBLE, _F.TYPE_BYTES, _F.TYPE_ENUM)
_JSTYPES: Final = (_F.TYPE_INT64, _F.TYPE_UINT64, _F.TYPE_SINT64, _F.TYPE_FIXED64, _F.TYPE_SFIXED64)
_OPTIONS: Final = frozenset(
    f".google.protobuf.{kind}Options"
    for kind in (
        "File", "Message", "Field", "Enum", "EnumValue", "Service", "Method", "Oneof", "ExtensionRange", "Stream",
    )
)  # fmt: skip


def check_field(table: SymbolTable, symbol: Symbol) -> None:
    """The rules that hold for fields of messages and for extensions."""
    field = symbol.definition
    what = f'the {symbol.kind} "{symbol.name}"'
    _check_default(what, symbol)
    _check_options(what, field)
    with_text = field.type == _F.TYPE_STRING
    if field.type == _F.TYPE_ENUM:
        _check_enum_use(table, what, symbol)
    if field.type == _F.TYPE_MESSAGE:
        target = _definition(table, field.type_name)
        if target.definition.options.map_entry:
            _check_map(table, what, symbol, target)
            with_text = any(one.type == _F.TYPE_STRING for one in target.definition.field)
    if symbol.file.syntax == "proto3":
        _check_proto3(what, field)
    elif symbol.file.syntax == "editions":
        _check_features(what, symbol, with_text)
    if field.HasField("oneof_index") and field.label != _F.LABEL_OPTIONAL:
        raise InvalidSchema(f"{what} is in a oneof; such a field is neither repeated nor required")


def check_extension(table: SymbolTable, symbol: Symbol) -> None:
    field = symbol.definition
    what = f'the extension "{symbol.name}"'
    extended = _definition(table, field.extendee)
    ranges = extended.definition.extension_range
    if not any(one.start <= field.number < one.end for one in ranges):
        raise InvalidSchema(f'{what}: "{extended.name}" declares no extension range with the number {field.number}')
    if field.label == _F.LABEL_REQUIRED:
        raise InvalidSchema(f"{what} is required, which an extension cannot be")
    if field.json_name != json_name(field.name):
        raise InvalidSchema(f"{what} has the option json_name, which an extension cannot have")
    if extended.definition.options.message_set_wire_format and (
        field.label != _F.LABEL_OPTIONAL or field.type != _F.TYPE_MESSAGE
    ):
        raise InvalidSchema(f"{what} extends a message set; such an extension is an optional message")
    if symbol.file.syntax == "proto3" and field.extendee not in _OPTIONS:
        raise InvalidSchema(f"{what}: in proto3, extensions only define options")
    for other in table.extensions(field.extendee, field.number):
        if other.name != symbol.name:
            raise InvalidSchema(f'{what}: "{other.name}" extends "{extended.name}" with the same number {field.number}')


def _definition(table: SymbolTable, name: str) -> Symbol:
    symbol = table.any(name.lstrip("."))
    if symbol is None:
        raise InvalidSchema(f'"{name}" is not defined')
    return symbol


def _check_default(what: str, symbol: Symbol) -> None:
    field = symbol.definition
    if not field.HasField("default_value"):
        return
    if field.label == _F.LABEL_REPEATED:
        raise InvalidSchema(f"{what} is repeated, and repeated fields have no default value")
    if symbol.file.syntax == "proto3":
        raise InvalidSchema(f"{what}: proto3 has no default values")
    if feature(symbol, "field_presence") == _S.IMPLICIT:
        raise InvalidSchema(f"{what} has no presence, and fields without presence have no default value")


def _check_options(what: str, field: Any) -> None:
    options = field.options
    repeated = field.label == _F.LABEL_REPEATED
    if options.packed and (not repeated or field.type in _NOT_PACKABLE):
        raise InvalidSchema(f"{what}: only repeated numbers, enums and booleans can be packed")
    if (options.lazy or options.unverified_lazy) and field.type != _F.TYPE_MESSAGE:
        raise InvalidSchema(f"{what}: only messages can be lazy")
    if options.HasField("jstype") and options.jstype != options.JS_NORMAL and field.type not in _JSTYPES:
        raise InvalidSchema(f"{what}: jstype is an option of 64-bit integers")


def _check_proto3(what: str, field: Any) -> None:
    if field.label == _F.LABEL_REQUIRED:
        raise InvalidSchema(f"{what}: proto3 has no required fields")
    if field.type == _F.TYPE_GROUP:
        raise InvalidSchema(f"{what}: proto3 has no groups")


def _check_enum_use(table: SymbolTable, what: str, symbol: Symbol) -> None:
    enum = _definition(table, symbol.definition.type_name)
    if is_open(enum):
        return
    if symbol.file.syntax == "proto3":
        raise InvalidSchema(f'{what} is of proto3, and cannot have the closed enum "{enum.name}" of proto2')
    implicit = feature(symbol, "field_presence") == _S.IMPLICIT and not symbol.definition.HasField("oneof_index")
    if implicit and symbol.definition.label == _F.LABEL_OPTIONAL and symbol.kind is SymbolKind.FIELD:
        raise InvalidSchema(f'{what} has no presence, and "{enum.name}" is closed; its enum must be open')


def _check_map(table: SymbolTable, what: str, symbol: Symbol, entry: Symbol) -> None:
    if symbol.parent is None or entry.parent is None or entry.parent.name != symbol.parent.name:
        raise InvalidSchema(f'{what}: "{entry.name}" is the entry of a map, and not a type for fields')
    if [(one.name, one.number) for one in entry.definition.field] != [("key", 1), ("value", 2)]:
        raise InvalidSchema(f'{what}: "{entry.name}" has the option map_entry, and not just key = 1 and value = 2')
    key, value = entry.definition.field
    if key.type in _MAP_KEYS_REFUSED:
        raise InvalidSchema(f"{what}: keys of a map are integers, booleans or strings")
    if value.type == _F.TYPE_ENUM and _definition(table, value.type_name).definition.value[0].number != 0:
        raise InvalidSchema(f"{what}: the enum of its values must have 0 as its first value")


def _check_features(what: str, symbol: Symbol, with_text: bool) -> None:
    field = symbol.definition
    own = own_features(field)
    if field.options.HasField("packed"):
        raise InvalidSchema(f"{what}: editions have the feature repeated_field_encoding instead of the option packed")
    repeated = field.label == _F.LABEL_REPEATED
    in_map = symbol.parent is not None and symbol.parent.definition.options.map_entry
    if own.HasField("field_presence") and not in_map:
        if repeated or field.HasField("oneof_index"):
            raise InvalidSchema(f"{what}: fields that are repeated or in a oneof have no feature field_presence")
        if field.type in _MESSAGES and own.field_presence == _S.IMPLICIT:
            raise InvalidSchema(f"{what}: messages have presence, and cannot be IMPLICIT")
        if symbol.kind is SymbolKind.EXTENSION:
            raise InvalidSchema(f"{what}: extensions have no feature field_presence")
    if own.HasField("repeated_field_encoding") and not in_map:
        if not repeated:
            raise InvalidSchema(f"{what} is not repeated, and has no feature repeated_field_encoding")
        if own.repeated_field_encoding == _S.PACKED and field.type in _NOT_PACKABLE:
            raise InvalidSchema(f"{what}: only repeated numbers, enums and booleans can be packed")
    if own.HasField("message_encoding") and field.type not in _MESSAGES and not in_map:
        raise InvalidSchema(f"{what}: only messages have the feature message_encoding")
    if own.HasField("utf8_validation") and not with_text and not in_map:
        raise InvalidSchema(f"{what}: only strings have the feature utf8_validation")
