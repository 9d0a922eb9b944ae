"""Parser of messages: fields, maps, oneofs, groups, extensions and reserved parts.

Types that are named stay as written; the linker resolves them. A map field adds its entry message, an optional field
of proto3 its synthetic oneof, as protoc does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from moldau.schemas.protobuf.descriptors import FieldDescriptorProto
from moldau.schemas.protobuf.enum_parser import (
    MAX_INT32,
    Syntax,
    parse_enum,
    parse_range_end,
    parse_reserved_names,
)
from moldau.schemas.protobuf.names import map_entry_name
from moldau.schemas.protobuf.option_parser import parse_bracketed_options, parse_field_options, parse_option_statement
from moldau.schemas.protobuf.token_stream import TokenStream

MAX_FIELD_NUMBER: Final = (1 << 29) - 1
EDITION_2024: Final = 1001

_F: Final = FieldDescriptorProto
SCALARS: Final[dict[str, int]] = {
    "double": _F.TYPE_DOUBLE,
    "float": _F.TYPE_FLOAT,
    "int64": _F.TYPE_INT64,
    "uint64": _F.TYPE_UINT64,
    "int32": _F.TYPE_INT32,
    "fixed64": _F.TYPE_FIXED64,
    "fixed32": _F.TYPE_FIXED32,
    "bool": _F.TYPE_BOOL,
    "string": _F.TYPE_STRING,
    "bytes": _F.TYPE_BYTES,
    "uint32": _F.TYPE_UINT32,
    "sfixed32": _F.TYPE_SFIXED32,
    "sfixed64": _F.TYPE_SFIXED64,
    "sint32": _F.TYPE_SINT32,
    "sint64": _F.TYPE_SINT64,
}
LABELS: Final[dict[str, int]] = {
    "optional": _F.LABEL_OPTIONAL,
    "required": _F.LABEL_REQUIRED,
    "repeated": _F.LABEL_REPEATED,
}
VISIBILITIES: Final = {"local": 1, "export": 2}


@dataclass(frozen=True)
class _Place:
    """Where a field is declared: what it is added to, and where the message of a group or map goes."""

    fields: Any
    messages: Any
    syntax: Syntax
    extendee: str | None = None
    oneof_index: int | None = None


def parse_message(stream: TokenStream, message: Any, syntax: Syntax) -> None:
    stream.expect("message")
    message.name = stream.identifier("the name of a message")
    _body(stream, message, syntax)


def parse_extend(stream: TokenStream, extensions: Any, messages: Any, syntax: Syntax) -> None:
    """`extend TYPE { fields }`"""
    stream.expect("extend")
    extendee = stream.type_name("the name of the extended message")
    place = _Place(extensions, messages, syntax, extendee=extendee)
    stream.expect("{")
    count = 0
    while not stream.accept("}"):
        _field(stream, place)
        count += 1
    if not count:
        raise stream.error(f'"extend {extendee}" has no field')


def parse_visibility(stream: TokenStream, syntax: Syntax) -> int:
    """`export` or `local` before a message or enum, from edition 2024 on; 0 if there is none."""
    if stream.token.text in VISIBILITIES and stream.following().text in ("message", "enum"):
        if syntax.edition < EDITION_2024:
            raise stream.error(f"{stream.token} needs edition 2024 or later")
        return VISIBILITIES[stream.take().text]
    return 0


def _body(stream: TokenStream, message: Any, syntax: Syntax) -> None:
    stream.enter()
    stream.expect("{")
    place = _Place(message.field, message.nested_type, syntax)
    while not stream.accept("}"):
        _statement(stream, message, place)
    stream.leave()
    _add_synthetic_oneofs(message)
    _set_range_ends(message)


def _statement(stream: TokenStream, message: Any, place: _Place) -> None:
    if stream.at_end():
        raise stream.error(f'the message "{message.name}" has no "}}" at its end')
    if stream.accept(";"):
        return
    syntax = place.syntax
    visibility = parse_visibility(stream, syntax)
    match stream.token.text:
        case "message":
            nested = message.nested_type.add()
            parse_message(stream, nested, syntax)
            _set_visibility(nested, visibility)
        case "enum":
            enum = message.enum_type.add()
            parse_enum(stream, enum, syntax)
            _set_visibility(enum, visibility)
        case "extensions":
            _extension_ranges(stream, message)
        case "reserved":
            _reserved(stream, message, syntax)
        case "extend":
            parse_extend(stream, message.extension, message.nested_type, syntax)
        case "option":
            parse_option_statement(stream, message.options)
        case "oneof":
            _oneof(stream, message, syntax)
        case _:
            _field(stream, place)


def _set_visibility(declared: Any, visibility: int) -> None:
    if visibility:
        declared.visibility = visibility


# Fields ---------------------------------------------------------------------------------------------------------------


def _field(stream: TokenStream, place: _Place) -> None:
    field = place.fields.add()
    if place.extendee is not None:
        field.extendee = place.extendee
    label = _label(stream, place, field)
    if stream.at("map") and stream.following().text == "<":
        if label is not None or place.oneof_index is not None or place.extendee is not None:
            raise stream.error("a map field has no label, and it cannot be an extension or in a oneof")
        _map_field(stream, place, field)
        return
    if label is None and place.syntax.name == "proto2" and place.oneof_index is None:
        raise stream.error(f'expected "required", "optional" or "repeated", found {stream.token}')
    if stream.at("group") and stream.following(2).text == "=":
        _group(stream, place, field)
        return
    _type(stream, field)
    field.name = stream.identifier("the name of a field")
    _number_and_options(stream, field)
    stream.expect(";")


def _label(stream: TokenStream, place: _Place, field: Any) -> int | None:
    label = LABELS.get(stream.token.text)
    field.label = _F.LABEL_OPTIONAL if label is None else label
    if place.oneof_index is not None:
        field.oneof_index = place.oneof_index
        if label is not None:
            raise stream.error("a field of a oneof has no label")
    if label is None:
        return None
    if place.syntax.editions and label != _F.LABEL_REPEATED:
        raise stream.error(f"{stream.token} is not a label in editions; the feature field_presence has its meaning")
    if place.syntax.name == "proto3" and label == _F.LABEL_REQUIRED:
        raise stream.error("proto3 has no required fields")
    if place.syntax.name == "proto3" and label == _F.LABEL_OPTIONAL:
        field.proto3_optional = True
    stream.take()
    return label


def _type(stream: TokenStream, field: Any) -> None:
    scalar = SCALARS.get(stream.token.text)
    if scalar is not None and stream.following().text != ".":
        field.type = scalar
        stream.take()
    else:
        field.type_name = stream.type_name("the type of a field")


def _number_and_options(stream: TokenStream, field: Any) -> None:
    stream.expect("=")
    field.number = stream.integer(f'the number of the field "{field.name}"', highest=MAX_INT32)
    parse_field_options(stream, field)


def _map_field(stream: TokenStream, place: _Place, field: Any) -> None:
    entry = place.messages.add()
    entry.options.map_entry = True
    key = entry.field.add(name="key", number=1, label=_F.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL)
    stream.expect("map")
    stream.expect("<")
    _type(stream, key)
    stream.expect(",")
    _type(stream, value)
    stream.expect(">")
    field.name = stream.identifier("the name of a field")
    field.label = _F.LABEL_REPEATED
    field.type_name = entry.name = map_entry_name(field.name)
    _number_and_options(stream, field)
    stream.expect(";")
    for option in field.options.uninterpreted_option:
        # Features of a map hold for its keys and values.
        if option.name[0].name_part == "features" and not option.name[0].is_extension:
            key.options.uninterpreted_option.add().CopyFrom(option)
            value.options.uninterpreted_option.add().CopyFrom(option)


def _group(stream: TokenStream, place: _Place, field: Any) -> None:
    if place.syntax.editions:
        raise stream.error("editions have no groups; the feature message_encoding has their meaning")
    if place.syntax.name == "proto3":
        raise stream.error("proto3 has no groups")
    stream.expect("group")
    group = place.messages.add()
    token = stream.token
    group.name = stream.identifier("the name of a group")
    if not group.name[0].isupper():
        raise stream.error(f'the name of the group "{group.name}" must begin with a capital letter', token)
    field.name = group.name.lower()
    field.type = _F.TYPE_GROUP
    field.type_name = group.name
    _number_and_options(stream, field)
    _body(stream, group, place.syntax)


def _oneof(stream: TokenStream, message: Any, syntax: Syntax) -> None:
    stream.expect("oneof")
    oneof = message.oneof_decl.add()
    oneof.name = stream.identifier("the name of a oneof")
    place = _Place(message.field, message.nested_type, syntax, oneof_index=len(message.oneof_decl) - 1)
    stream.expect("{")
    while not stream.accept("}"):
        if stream.at("option"):
            parse_option_statement(stream, oneof.options)
        else:
            _field(stream, place)


def _add_synthetic_oneofs(message: Any) -> None:
    names = {field.name for field in message.field} | {oneof.name for oneof in message.oneof_decl}
    for field in message.field:
        if field.proto3_optional:
            # Two underscores in front are reserved in C++.
            name = ("X" if field.name.startswith("_") else "_") + field.name
            while name in names:
                name = "X" + name
            names.add(name)
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=name)


# Ranges ---------------------------------------------------------------------------------------------------------------

_OPEN_END: Final = -1
"""The end of a range up to "max" until the options of the message are known."""


def _extension_ranges(stream: TokenStream, message: Any) -> None:
    stream.expect("extensions")
    first = len(message.extension_range)
    _ranges(stream, message.extension_range)
    ranges = list(message.extension_range)[first:]
    if stream.at("["):
        parse_bracketed_options(stream, ranges[0].options)
        for other in ranges[1:]:
            other.options.CopyFrom(ranges[0].options)
    stream.expect(";")


def _reserved(stream: TokenStream, message: Any, syntax: Syntax) -> None:
    stream.expect("reserved")
    if not parse_reserved_names(stream, message, syntax):
        _ranges(stream, message.reserved_range)
        stream.expect(";")


def _ranges(stream: TokenStream, ranges: Any) -> None:
    while True:
        start = stream.integer("the start of a range of field numbers", highest=MAX_INT32 - 1)
        last = parse_range_end(stream, start, lowest=0, maximum=_OPEN_END)
        ranges.add(start=start, end=_OPEN_END if last == _OPEN_END else min(last, MAX_INT32 - 1) + 1)
        if not stream.accept(","):
            return


def _set_range_ends(message: Any) -> None:
    """Ends of ranges up to "max". Only messages of the form of message sets have numbers up to the largest int32."""
    end = MAX_FIELD_NUMBER + 1
    for option in message.options.uninterpreted_option:
        if option.name[0].name_part == "message_set_wire_format" and option.identifier_value == "true":
            end = MAX_INT32
    for one in [*message.extension_range, *message.reserved_range]:
        if one.end == _OPEN_END:
            one.end = end
