"""Symbol table of a Protobuf file and its imports, and the rules by which a name finds a definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.descriptors import FileDescriptorProto


class SymbolKind(StrEnum):
    PACKAGE = "package"
    MESSAGE = "message"
    ENUM = "enum"
    ENUM_VALUE = "enum value"
    FIELD = "field"
    EXTENSION = "extension"
    ONEOF = "oneof"
    SERVICE = "service"
    METHOD = "method"


_TYPES = (SymbolKind.MESSAGE, SymbolKind.ENUM)
_SCOPES = (SymbolKind.PACKAGE, SymbolKind.MESSAGE, SymbolKind.ENUM, SymbolKind.SERVICE)


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    """The full name, without a dot in front."""
    kind: SymbolKind
    file: Any
    """The FileDescriptorProto that defines it."""
    definition: Any = None
    """The descriptor message; None for a package."""
    parent: Symbol | None = None
    """The message around it."""


def joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def file_symbols(file: Any) -> Iterator[Symbol]:
    """All definitions of a file, outer ones first."""
    for message in file.message_type:
        yield from _message_symbols(file, message, file.package, None)
    for enum in file.enum_type:
        yield from _enum_symbols(file, enum, file.package, None)
    for extension in file.extension:
        yield Symbol(joined(file.package, extension.name), SymbolKind.EXTENSION, file, extension)
    for service in file.service:
        symbol = Symbol(joined(file.package, service.name), SymbolKind.SERVICE, file, service)
        yield symbol
        for method in service.method:
            yield Symbol(joined(symbol.name, method.name), SymbolKind.METHOD, file, method, symbol)


def _message_symbols(file: Any, message: Any, scope: str, parent: Symbol | None) -> Iterator[Symbol]:
    symbol = Symbol(joined(scope, message.name), SymbolKind.MESSAGE, file, message, parent)
    yield symbol
    for nested in message.nested_type:
        yield from _message_symbols(file, nested, symbol.name, symbol)
    for enum in message.enum_type:
        yield from _enum_symbols(file, enum, symbol.name, symbol)
    for kind, definitions in (
        (SymbolKind.FIELD, message.field),
        (SymbolKind.ONEOF, message.oneof_decl),
        (SymbolKind.EXTENSION, message.extension),
    ):
        for definition in definitions:
            yield Symbol(joined(symbol.name, definition.name), kind, file, definition, symbol)


def _enum_symbols(file: Any, enum: Any, scope: str, parent: Symbol | None) -> Iterator[Symbol]:
    symbol = Symbol(joined(scope, enum.name), SymbolKind.ENUM, file, enum, parent)
    yield symbol
    for value in enum.value:
        # As in C++, the values of an enum are in the scope around it.
        yield Symbol(joined(scope, value.name), SymbolKind.ENUM_VALUE, file, value, symbol)


class SymbolTable:
    """The definitions of a file and of all files that it imports, also indirectly.

    A name finds only what is visible: the file itself, its imports, and what these import publicly.
    """

    def __init__(self, file: Any, imports: Mapping[str, FileDescriptorProto]) -> None:
        self.file = file
        self.symbols: list[Symbol] = list(file_symbols(file))
        """The definitions of the file itself."""
        self._by_name: dict[str, Symbol] = {}
        self._extensions: dict[tuple[str, int], list[Symbol]] | None = None
        self._visible = _visible_names(file, imports)
        for imported in imports.values():
            self._add(imported, file_symbols(imported))
        self._add(file, self.symbols)

    def _add(self, file: Any, symbols: Iterable[Symbol]) -> None:
        scope = ""
        for part in file.package.split(".") if file.package else []:
            scope = joined(scope, part)
            known = self._by_name.get(scope)
            if known is None or (known.kind is SymbolKind.PACKAGE and known.file.name not in self._visible):
                self._by_name[scope] = Symbol(scope, SymbolKind.PACKAGE, file)
            elif known.kind is not SymbolKind.PACKAGE:
                raise InvalidSchema(f'"{scope}" is a package, and a {known.kind} of {_named(known.file)}')
        for symbol in symbols:
            known = self._by_name.get(symbol.name)
            if known is not None:
                raise InvalidSchema(_twice(symbol, known))
            self._by_name[symbol.name] = symbol

    def extensions(self, extendee: str, number: int) -> Iterator[Symbol]:
        """All extensions of a message with one number; the name of the message has a dot in front."""
        if self._extensions is None:
            self._extensions = {}
            for symbol in self._by_name.values():
                if symbol.kind is SymbolKind.EXTENSION:
                    key = (symbol.definition.extendee, symbol.definition.number)
                    self._extensions.setdefault(key, []).append(symbol)
        return iter(self._extensions.get((extendee, number), []))

    def get(self, name: str) -> Symbol | None:
        """The definition with a full name, if it is visible."""
        symbol = self._by_name.get(name)
        return symbol if symbol is not None and symbol.file.name in self._visible else None

    def any(self, name: str) -> Symbol | None:
        """The definition with a full name, also one of a file that is imported indirectly."""
        return self._by_name.get(name)

    def resolve(self, name: str, scope: str, what: str, *, types_only: bool = True) -> Symbol:
        """What a name means in a scope. `what` says in an error what has this name, for example `the field "a.b"`."""
        if name.startswith("."):
            found = self.get(name[1:])
        else:
            found = self._search(name, scope, what, types_only)
        if found is None:
            raise InvalidSchema(f'{what}: "{name}" is not defined{self._hint(name, scope)}')
        return found

    def _search(self, name: str, scope: str, what: str, types_only: bool) -> Symbol | None:
        first, _, rest = name.partition(".")
        while True:
            found = self.get(joined(scope, first))
            if found is not None and rest:
                if found.kind in _SCOPES:
                    inner = self.get(f"{found.name}.{rest}")
                    if inner is None:
                        raise InvalidSchema(
                            f'{what}: "{name}" means "{found.name}.{rest}" here, which is not defined; '
                            f'a dot in front (".{name}") makes it a full name'
                        )
                    return inner
            elif found is not None and (not types_only or found.kind in _TYPES):
                return found
            if not scope:
                return None
            scope = scope.rpartition(".")[0]

    def _hint(self, name: str, scope: str) -> str:
        full = name.lstrip(".")
        while True:
            hidden = self._by_name.get(joined(scope, full))
            if hidden is not None and hidden.kind in _TYPES:
                return f'; it is in "{hidden.file.name}", which the file does not import'
            if not scope:
                return ""
            scope = scope.rpartition(".")[0]


def _visible_names(file: Any, imports: Mapping[str, FileDescriptorProto]) -> set[str]:
    visible = {file.name}
    waiting = [*file.dependency, *file.option_dependency]
    while waiting:
        name = waiting.pop()
        if name not in visible:
            visible.add(name)
            imported = imports[name]
            waiting += [imported.dependency[index] for index in imported.public_dependency]
    return visible


def _named(file: Any) -> str:
    return f'"{file.name}"' if file.name else "this file"


def _twice(symbol: Symbol, known: Symbol) -> str:
    where = "" if symbol.file is known.file else f" in {_named(known.file)}"
    note = ""
    if SymbolKind.ENUM_VALUE in (symbol.kind, known.kind):
        note = "; enum values are in the scope around their enum, so that no two enums of a scope share a value's name"
    return f'"{symbol.name}" is defined twice: as {symbol.kind}, and as {known.kind}{where}{note}'
