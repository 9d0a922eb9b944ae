"""Files of a Protobuf schema: its text and its references, parsed, ordered by imports and linked."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.protobuf.descriptors import DecodeError, FileDescriptorProto
from moldau.schemas.protobuf.file_parser import parse_file
from moldau.schemas.protobuf.linker import link
from moldau.schemas.protobuf.well_known_files import well_known_file

MAX_FILES: Final = 1000
"""Files that one schema imports at most, also indirectly."""
ROOT_NAME: Final = "schema.proto"


@dataclass(frozen=True)
class SchemaFiles:
    parsed: Any
    """The file of the schema as written: the FileDescriptorProto before it is linked."""
    from_descriptor: bool
    """True if the schema was not a text, but a descriptor in base64."""
    linked: Any
    imports: dict[str, Any]
    """The linked files that it imports, also indirectly, by path, each one after its own imports."""


def schema_files(text: str, resolved: Mapping[str, str]) -> SchemaFiles:
    name = ROOT_NAME
    while name in resolved:
        name = "_" + name
    parsed, from_descriptor = _read(text, name)
    imports: dict[str, Any] = {}
    _link_imports(parsed, resolved, imports, (name,))
    return SchemaFiles(parsed, from_descriptor, link(parsed, imports), imports)


def _link_imports(parsed: Any, resolved: Mapping[str, str], imports: dict[str, Any], path: tuple[str, ...]) -> None:
    for name in [*parsed.dependency, *parsed.option_dependency]:
        if name in path:
            raise InvalidSchema(f"files import each other: {' → '.join((*path, name))}")
        if name in imports:
            continue
        if len(imports) + len(path) > MAX_FILES:
            raise InvalidSchema(f"the schema imports more than {MAX_FILES} files")
        given = resolved.get(name)
        known = well_known_file(name) if given is None else None
        if given is None and known is None:
            raise InvalidSchema(f'the import "{name}" is not among the references, and not a well-known file')
        imported = known if given is None else _read_reference(given, name)
        _link_imports(imported, resolved, imports, (*path, name))
        try:
            imports[name] = link(imported, imports) if known is None else known
        except InvalidSchema as error:
            raise InvalidSchema(f'"{name}": {error}') from None


def _read_reference(text: str, name: str) -> Any:
    try:
        return _read(text, name)[0]
    except InvalidSchema as error:
        raise InvalidSchema(f'"{name}": {error}') from None


def _read(text: str, name: str) -> tuple[Any, bool]:
    """A text, or a serialized FileDescriptorProto in base64: no text of the one form is a text of the other."""
    try:
        return parse_file(text, name), False
    except InvalidSchema:
        serialized = _decoded(text)
        if serialized is None:
            raise
    serialized.name = name
    serialized.ClearField("source_code_info")
    return serialized, True


def _decoded(text: str) -> Any:
    try:
        data = base64.b64decode(text.strip(), validate=True)
        file = FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    # Many short words are base64 of bytes that are unknown fields, or of nothing.
    return file if data and (file.HasField("name") or len(file.message_type) or len(file.enum_type)) else None
