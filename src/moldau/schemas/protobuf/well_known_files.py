"""Files that need no reference: Google's well-known types, as the protobuf package has them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from moldau.schemas.protobuf.descriptors import FileDescriptorProto

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
    if folder != "google/protobuf" or module not in _MODULES:
        return None
    descriptor = import_module(f"google.protobuf.{module}_pb2").DESCRIPTOR
    return FileDescriptorProto.FromString(descriptor.serialized_pb)
