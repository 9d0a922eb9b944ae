"""Files that need no reference: Google's well-known types, from the protobuf package, and common types."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from moldau.schemas.protobuf.common_types import COMMON_TYPES
from moldau.schemas.protobuf.descriptors import FileDescriptorProto
from moldau.schemas.protobuf.file_parser import parse_file
from moldau.schemas.protobuf.linker import link

_MODULES: Final = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)


@cache
def well_known_file(path: str) -> FileDescriptorProto | None:
    """The linked file of an import path; None if it is not well known."""
    folder, _, name = path.rpartition("/")
    module = name.removesuffix(".proto")
    if folder == "google/protobuf" and module in _MODULES:
        descriptor = import_module(f"google.protobuf.{module}_pb2").DESCRIPTOR
        return FileDescriptorProto.FromString(descriptor.serialized_pb)
    text = COMMON_TYPES.get(path)
    if text is None:
        return None
    parsed = parse_file(text, path)
    # The files that they import have no imports themselves.
    return link(parsed, {imported: well_known_file(imported) for imported in parsed.dependency})
