"""Protobuf schema: a parsed .proto text, its message classes, its canonical texts and its compatibility."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.schemas.parsed_schema import Incompatibility
from moldau.schemas.schema import SchemaType

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.message import Message


class ProtobufSchema:
    """A Protobuf file with the files that it imports.

    `text` is a .proto text, or the FileDescriptorProto in base64 (`format=serialized`). `resolved` has the text of each
    import, in either form, by the path in the import statement. Well-known types need no reference.
    """

    def __init__(self, text: str, resolved: Mapping[str, str] | None = None) -> None:
        raise NotImplementedError

    @property
    def type(self) -> SchemaType:
        return SchemaType.PROTOBUF

    @property
    def file_descriptor(self) -> FileDescriptor:
        """The linked file, in a descriptor pool of its own."""
        raise NotImplementedError

    @property
    def serialized(self) -> str:
        """The FileDescriptorProto in base64, as `format=serialized` has it."""
        raise NotImplementedError

    def canonical(self) -> str:
        raise NotImplementedError

    def normalized(self) -> str:
        raise NotImplementedError

    def incompatibilities(self, writer: ProtobufSchema) -> Sequence[Incompatibility]:
        raise NotImplementedError

    def message_descriptor(self, message: Sequence[int] | str | None = None) -> Descriptor:
        """One message type: by its path in the file ([0, 2]), by its full or relative name, or the first one."""
        raise NotImplementedError

    def message_class(self, message: Sequence[int] | str | None = None) -> builtins.type[Message]:
        """The class of a message type, named as in `message_descriptor`."""
        raise NotImplementedError

    def message_path(self, message: str) -> list[int]:
        """The path of a message type in the file, as the wire format has it."""
        raise NotImplementedError
