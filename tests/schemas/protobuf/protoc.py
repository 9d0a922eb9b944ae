"""protoc of grpcio-tools as oracle: the descriptor that it makes of a text, or None if it refuses the text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf import descriptor_pb2, message_factory
from grpc_tools import protoc

from moldau.schemas.protobuf.option_interpreter import build_pool

INCLUDES = Path(grpc_tools.__file__).parent / "_proto"


def protoc_descriptor(folder: Path, text: str, references: Mapping[str, str] | None = None) -> Any:
    for name, content in {**(references or {}), "schema.proto": text}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    output = folder / "descriptors"
    # Without it, protoc leaves out options that only tools need.
    arguments = ["protoc", f"-I{folder}", f"-I{INCLUDES}", "--retain_options", f"--descriptor_set_out={output}"]
    if protoc.main([*arguments, "schema.proto"]):
        return None
    return descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file[-1]


def comparable(file: Any, imports: Mapping[str, Any]) -> bytes:
    """A descriptor whose custom options have one order, as bytes. Equality of messages would compare their order."""
    pool = build_pool([*imports.values(), file])
    try:
        known = pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
    except KeyError:
        return file.SerializeToString(deterministic=True)
    message = message_factory.GetMessageClass(known).FromString(file.SerializeToString())
    return message.SerializeToString(deterministic=True)
