"""Linker of Protobuf files: resolves names, sets what the text leaves open, interprets options, validates.

The result is the FileDescriptorProto that protoc writes for the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.descriptors import FieldDescriptorProto, FileDescriptorProto
from moldau.schemas.protobuf.names import json_name
from moldau.schemas.protobuf.option_interpreter import interpret_options
from moldau.schemas.protobuf.symbols import Symbol, SymbolKind, SymbolTable
from moldau.schemas.protobuf.validation import validate

_F: Final = FieldDescriptorProto


def link(parsed: FileDescriptorProto, imports: Mapping[str, FileDescriptorProto]) -> FileDescriptorProto:
    """Link a parsed file. `imports` has every file that it imports, also indirectly, linked, by its path."""
    file = FileDescriptorProto()
    file.CopyFrom(parsed)
    _check_imports(file)
    if file.syntax == "proto2":
        # Descriptors leave the default out.
        file.ClearField("syntax")
    table = SymbolTable(file, imports)
    for symbol in table.symbols:
        if symbol.kind in (SymbolKind.FIELD, SymbolKind.EXTENSION):
            _link_field(table, symbol)
        elif symbol.kind is SymbolKind.METHOD:
            _link_method(table, symbol)
    interpret_options(table, imports)
    validate(table)
    return file


def _check_imports(file: Any) -> None:
    seen: set[str] = set()
    for name in [*file.dependency, *file.option_dependency]:
        if name in seen:
            raise InvalidSchema(f'"{name}" is imported twice')
        seen.add(name)


def _link_field(table: SymbolTable, symbol: Symbol) -> None:
    field = symbol.definition
    what = f'the {symbol.kind} "{symbol.name}"'
    scope = symbol.name.rpartition(".")[0]
    if field.HasField("extendee"):
        extended = table.resolve(field.extendee, scope, what, types_only=False)
        if extended.kind is not SymbolKind.MESSAGE:
            raise InvalidSchema(f'{what} extends "{extended.name}", which is not a message but an {extended.kind}')
        field.extendee = "." + extended.name
    if field.HasField("type_name"):
        _link_type(table, field, what, scope)
    if not field.HasField("json_name"):
        field.json_name = json_name(field.name)


def _link_type(table: SymbolTable, field: Any, what: str, scope: str) -> None:
    found = table.resolve(field.type_name, scope, what)
    if found.kind is SymbolKind.MESSAGE:
        if not field.HasField("type"):
            field.type = _F.TYPE_MESSAGE
        if field.HasField("default_value"):
            raise InvalidSchema(f"{what} is a message, and messages have no default value")
    elif found.kind is SymbolKind.ENUM:
        if field.type in (_F.TYPE_MESSAGE, _F.TYPE_GROUP) and field.HasField("type"):
            raise InvalidSchema(f'{what} should be a message; "{found.name}" is an enum')
        field.type = _F.TYPE_ENUM
        names = {value.name for value in found.definition.value}
        if field.HasField("default_value") and field.default_value not in names:
            raise InvalidSchema(f'{what}: its default "{field.default_value}" is no value of the enum "{found.name}"')
    else:
        raise InvalidSchema(f'{what}: "{found.name}" is a {found.kind}, not a type')
    field.type_name = "." + found.name


def _link_method(table: SymbolTable, symbol: Symbol) -> None:
    method = symbol.definition
    what = f'the method "{symbol.name}"'
    scope = symbol.name.rpartition(".")[0]
    for attribute in ("input_type", "output_type"):
        found = table.resolve(getattr(method, attribute), scope, what, types_only=False)
        if found.kind is not SymbolKind.MESSAGE:
            raise InvalidSchema(f'{what}: "{found.name}" is a {found.kind}; requests and answers are messages')
        setattr(method, attribute, "." + found.name)
