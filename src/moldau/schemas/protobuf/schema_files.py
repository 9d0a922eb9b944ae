"""Files of a Protobuf schema: its text and its references, parsed, ordered by imports and linked."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.descriptors import DecodeError, FileDescriptorProto
from moldau.schemas.protobuf.file_parser import parse_file
from moldau.schemas.protobuf.linker import link
from moldau.schemas.protobuf.option_interpreter import build_pool, pool_classes
from moldau.schemas.protobuf.printer import print_file
from moldau.schemas.protobuf.well_known_files import well_known_file

MAX_FILES: Final = 1000
"""Files that one schema imports at most, also indirectly."""
ROOT_NAME: Final = "schema.proto"


@dataclass(frozen=True)
class SchemaFiles:
    parsed: Any
    """The file of the schema as written: the FileDescriptorProto before it is linked."""
    linked: Any
    imports: dict[str, Any]
    """The linked files that it imports, also indirectly, by path, each one after its own imports."""


def schema_files(text: str, resolved: Mapping[str, str]) -> SchemaFiles:
    name = ROOT_NAME
    while name in resolved:
        name = "_" + name
    source = _read(text, name)
    imports: dict[str, Any] = {}
    _link_imports(source.file, resolved, imports, (name,))
    parsed = source.parsed(imports)
    return SchemaFiles(parsed, link(parsed, imports), imports)


def _link_imports(file: Any, resolved: Mapping[str, str], imports: dict[str, Any], path: tuple[str, ...]) -> None:
    for name in [*file.dependency, *file.option_dependency]:
        if name in path:
            raise InvalidSchema(f"files import each other: {' → '.join((*path, name))}")
        if name not in imports:
            if len(imports) + len(path) > MAX_FILES:
                raise InvalidSchema(f"the schema imports more than {MAX_FILES} files")
            _link_import(name, resolved, imports, path)


def _link_import(name: str, resolved: Mapping[str, str], imports: dict[str, Any], path: tuple[str, ...]) -> None:
    text = resolved.get(name)
    if text is None:
        known = well_known_file(name)
        if known is None:
            raise InvalidSchema(f'the import "{name}" is not among the references, and not a well-known file')
        _link_imports(known, resolved, imports, (*path, name))
        imports[name] = known
        return
    source = _named(name, lambda: _read(text, name))
    _link_imports(source.file, resolved, imports, (*path, name))
    imports[name] = _named(name, lambda: link(source.parsed(imports), imports))


def _named(name: str, read: Callable[[], Any]) -> Any:
    """What `read` returns; an error in it names the import."""
    try:
        return read()
    except InvalidSchema as error:
        raise InvalidSchema(f'"{name}": {error}') from None


@dataclass(frozen=True)
class _Source:
    """A file as it was given: parsed from a text, or a descriptor."""

    file: Any
    is_descriptor: bool

    def parsed(self, imports: Mapping[str, Any]) -> Any:
        """The file as its text has it. A descriptor is printed and read again, so that it obeys all rules of texts."""
        if not self.is_descriptor:
            return self.file
        pool = build_pool([*imports.values(), self.file])
        return parse_file(print_file(self.file, pool_classes(pool), map_entries=True), self.file.name)


def _read(text: str, name: str) -> _Source:
    """A text, or a serialized FileDescriptorProto in base64: no text of the one form is a text of the other."""
    try:
        return _Source(parse_file(text, name), is_descriptor=False)
    except InvalidSchema:
        file = _decoded(text)
        if file is None:
            raise
    _check_strings(file)
    file.name = name
    file.ClearField("source_code_info")
    return _Source(file, is_descriptor=True)


def _decoded(text: str) -> Any:
    try:
        data = base64.b64decode(text.strip(), validate=True)
        file = FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    # Many short words are base64 of bytes that are unknown fields, or of nothing.
    return file if data and (file.HasField("name") or len(file.message_type) or len(file.enum_type)) else None


def _check_strings(message: Any) -> None:
    for field, value in message.ListFields():
        if field.is_extension:
            continue  # An option that this process happens to know; the printer reads it.
        values = value if field.is_repeated else [value]
        if field.message_type is not None:
            for one in values:
                _check_strings(one)
        elif field.type == field.TYPE_STRING and not all(isinstance(one, str) for one in values):
            raise InvalidSchema(f'the descriptor has a "{field.name}" that is not UTF-8')
