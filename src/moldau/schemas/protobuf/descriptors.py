"""Descriptor messages of google.protobuf, imported in one place: without the package the error names the extra."""

from __future__ import annotations

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        EnumValueDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
        MethodDescriptorProto,
        OneofDescriptorProto,
        ServiceDescriptorProto,
        UninterpretedOption,
    )
    from google.protobuf.message import DecodeError, Message
except ImportError as missing:
    raise ImportError(
        "Protobuf schemas need protobuf: pip install 'moldau[schemas]'", name="google.protobuf"
    ) from missing

__all__ = [
    "DecodeError",
    "DescriptorProto",
    "EnumDescriptorProto",
    "EnumValueDescriptorProto",
    "FieldDescriptorProto",
    "FileDescriptorProto",
    "Message",
    "MethodDescriptorProto",
    "OneofDescriptorProto",
    "ServiceDescriptorProto",
    "UninterpretedOption",
    "descriptor_pb2",
    "descriptor_pool",
    "message_factory",
    "text_format",
]
