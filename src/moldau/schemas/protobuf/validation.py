"""Validation of linked Protobuf files: rules of messages, enums and names, as protoc has them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.enum_parser import MAX_INT32
from moldau.schemas.protobuf.features import has_json, is_open
from moldau.schemas.protobuf.field_validation import check_extension, check_field
from moldau.schemas.protobuf.message_parser import MAX_FIELD_NUMBER
from moldau.schemas.protobuf.names import enum_value_short_name, json_name
from moldau.schemas.protobuf.symbols import Symbol, SymbolKind, SymbolTable

FIRST_INTERNAL_NUMBER: Final = 19000
LAST_INTERNAL_NUMBER: Final = 19999


def validate(table: SymbolTable) -> None:
    """Raises InvalidSchema for the first rule that a definition of the file breaks."""
    for symbol in table.symbols:
        match symbol.kind:
            case SymbolKind.MESSAGE:
                _check_message(symbol)
            case SymbolKind.ENUM:
                _check_enum(symbol)
            case SymbolKind.FIELD:
                _check_number(symbol)
                check_field(table, symbol)
            case SymbolKind.EXTENSION:
                _check_number(symbol)
                check_extension(table, symbol)
                check_field(table, symbol)


def _check_number(symbol: Symbol) -> None:
    number = symbol.definition.number
    if number < 1:
        raise InvalidSchema(f'"{symbol.name}": field numbers begin with 1')
    if FIRST_INTERNAL_NUMBER <= number <= LAST_INTERNAL_NUMBER:
        raise InvalidSchema(
            f'"{symbol.name}": the field numbers {FIRST_INTERNAL_NUMBER} to {LAST_INTERNAL_NUMBER} are Protobuf\'s own'
        )
    # An extension may have more: the range of its message says so.
    if number > MAX_FIELD_NUMBER and symbol.kind is SymbolKind.FIELD:
        raise InvalidSchema(f'"{symbol.name}": {MAX_FIELD_NUMBER} is the largest field number')


# Messages -------------------------------------------------------------------------------------------------------------


def _check_message(symbol: Symbol) -> None:
    message = symbol.definition
    what = f'the message "{symbol.name}"'
    _check_ranges(what, symbol)
    _check_fields(what, message)
    _check_oneofs(what, message)
    _check_json_names(what, symbol)
    if message.options.message_set_wire_format and (message.field or message.oneof_decl):
        raise InvalidSchema(f"{what} is a message set; it has extensions only")


def _check_fields(what: str, message: Any) -> None:
    names: dict[int, str] = {}
    reserved = set(message.reserved_name)
    if len(reserved) != len(message.reserved_name):
        raise InvalidSchema(f"{what} reserves a name twice")
    taken = sorted((one.start, one.end) for one in [*message.reserved_range, *message.extension_range])
    for field in message.field:
        if field.number in names:
            raise InvalidSchema(f'{what}: "{field.name}" and "{names[field.number]}" have the number {field.number}')
        names[field.number] = field.name
        if field.name in reserved:
            raise InvalidSchema(f'{what}: the name of the field "{field.name}" is reserved')
        if _covers(taken, field.number):
            raise InvalidSchema(f'{what}: the number {field.number} of "{field.name}" is reserved, or for extensions')


def _covers(spans: list[tuple[int, int]], number: int) -> bool:
    """True if a number is in one of the spans, which are sorted and do not overlap; their end is after the last one."""
    at = bisect_right(spans, (number, MAX_INT32 + 1))
    return at > 0 and number < spans[at - 1][1]


def _check_ranges(what: str, symbol: Symbol) -> None:
    message = symbol.definition
    if message.extension_range and symbol.file.syntax == "proto3":
        raise InvalidSchema(f"{what}: proto3 has no extension ranges")
    highest = MAX_INT32 if message.options.message_set_wire_format else MAX_FIELD_NUMBER + 1
    for kind, ranges in (("extension", message.extension_range), ("reserved", message.reserved_range)):
        for one in ranges:
            if one.start < 1:
                raise InvalidSchema(f"{what}: the {kind} range from {one.start}: field numbers begin with 1")
            if one.end <= one.start:
                raise InvalidSchema(f"{what}: the {kind} range {one.start} to {one.end - 1} ends before it begins")
            if kind == "extension" and one.end > highest:
                raise InvalidSchema(f"{what}: the {kind} range to {one.end - 1}: {highest - 1} is the largest number")
    spans = [(one.start, one.end) for one in [*message.extension_range, *message.reserved_range]]
    _check_overlap(what, spans)


def _check_overlap(what: str, spans: Iterable[tuple[int, int]]) -> None:
    """`spans` have their end after the last number."""
    ordered = sorted(spans)
    for (start, end), (next_start, next_end) in pairwise(ordered):
        if next_start < end:
            raise InvalidSchema(f"{what}: the ranges {start} to {end - 1} and {next_start} to {next_end - 1} overlap")


def _check_oneofs(what: str, message: Any) -> None:
    used = {field.oneof_index for field in message.field if field.HasField("oneof_index")}
    for index, oneof in enumerate(message.oneof_decl):
        if index not in used:
            raise InvalidSchema(f'{what}: the oneof "{oneof.name}" has no field')
    if any(not 0 <= index < len(message.oneof_decl) for index in used):
        raise InvalidSchema(f"{what}: a field names a oneof that does not exist")


def _check_json_names(what: str, symbol: Symbol) -> None:
    message = symbol.definition
    if message.options.deprecated_legacy_json_field_conflicts:
        return
    strict = has_json(symbol)
    derived: dict[str, str] = {}
    used: dict[str, tuple[str, bool]] = {}
    for field in message.field:
        default = json_name(field.name)
        custom = field.json_name != default
        if custom and field.json_name.startswith("[") and field.json_name.endswith("]"):
            raise InvalidSchema(f'{what}: json_name of "{field.name}" is in brackets, as names of extensions are')
        if "\0" in field.json_name:
            raise InvalidSchema(f'{what}: json_name of "{field.name}" has a zero byte')
        other = derived.setdefault(default, field.name)
        if other != field.name and strict:
            raise InvalidSchema(f'{what}: "{other}" and "{field.name}" have the same name "{default}" in JSON')
        name, other_custom = used.setdefault(field.json_name, (field.name, custom))
        if name != field.name and (strict or (custom and other_custom)):
            raise InvalidSchema(f'{what}: "{name}" and "{field.name}" have the same name "{field.json_name}" in JSON')


# Enums ----------------------------------------------------------------------------------------------------------------


def _check_enum(symbol: Symbol) -> None:
    enum = symbol.definition
    what = f'the enum "{symbol.name}"'
    if not enum.value:
        raise InvalidSchema(f"{what} has no value")
    if is_open(symbol) and enum.value[0].number != 0:
        raise InvalidSchema(f"{what}: its first value must be 0, as of each open enum")
    _check_aliases(what, enum)
    _check_reserved_values(what, enum)
    _check_short_names(what, symbol)


def _check_aliases(what: str, enum: Any) -> None:
    names: dict[int, str] = {}
    aliases = False
    for value in enum.value:
        other = names.setdefault(value.number, value.name)
        if other == value.name:
            continue
        aliases = True
        if not enum.options.allow_alias:
            raise InvalidSchema(
                f'{what}: "{other}" and "{value.name}" have the number {value.number}; '
                "if they should, set the option allow_alias = true"
            )
    if enum.options.HasField("allow_alias") and not aliases:
        raise InvalidSchema(f"{what}: the option allow_alias has no effect; no two values share a number")


def _check_reserved_values(what: str, enum: Any) -> None:
    for one in enum.reserved_range:
        if one.end < one.start:
            raise InvalidSchema(f"{what}: the reserved range {one.start} to {one.end} ends before it begins")
    spans = sorted((one.start, one.end + 1) for one in enum.reserved_range)
    _check_overlap(what, spans)
    reserved = set(enum.reserved_name)
    if len(reserved) != len(enum.reserved_name):
        raise InvalidSchema(f"{what} reserves a name twice")
    for value in enum.value:
        if value.name in reserved:
            raise InvalidSchema(f'{what}: the name "{value.name}" is reserved')
        if _covers(spans, value.number):
            raise InvalidSchema(f'{what}: the number {value.number} of "{value.name}" is reserved')


def _check_short_names(what: str, symbol: Symbol) -> None:
    if not has_json(symbol) or symbol.definition.options.deprecated_legacy_json_field_conflicts:
        return
    short: dict[str, Any] = {}
    for value in symbol.definition.value:
        other = short.setdefault(enum_value_short_name(value.name, symbol.definition.name), value)
        if other.number != value.number:
            raise InvalidSchema(
                f'{what}: "{other.name}" and "{value.name}" are the same name '
                "without the name of the enum, in languages that leave it out"
            )
