"""Protobuf schema: a parsed .proto text, its message classes, its canonical texts and its compatibility."""

from __future__ import annotations

import base64
import builtins
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from moldau.schemas.errors import SchemaError
from moldau.schemas.parsed_schema import Incompatibility
from moldau.schemas.protobuf.compatibility import file_incompatibilities
from moldau.schemas.protobuf.descriptors import message_factory
from moldau.schemas.protobuf.option_interpreter import build_pool, pool_classes
from moldau.schemas.protobuf.printer import print_file
from moldau.schemas.protobuf.schema_files import schema_files
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
        self._files = schema_files(text, resolved or {})
        self._pool: Any = build_pool([*self._files.imports.values(), self._files.linked])

    @property
    def type(self) -> SchemaType:
        return SchemaType.PROTOBUF

    @property
    def file_descriptor(self) -> FileDescriptor:
        """The linked file, in a descriptor pool of its own."""
        return self._pool.FindFileByName(self._files.linked.name)

    @property
    def serialized(self) -> str:
        """The FileDescriptorProto in base64, as `format=serialized` has it."""
        return base64.b64encode(self._files.linked.SerializeToString()).decode("ascii")

    def canonical(self) -> str:
        """The text without comments, in one order and layout; names and options as written."""
        return self._canonical

    def normalized(self) -> str:
        """The canonical text with full names of types, and with fields, enum values, imports and options sorted."""
        return self._normalized

    @cached_property
    def _canonical(self) -> str:
        return print_file(self._files.parsed, pool_classes(self._pool), normalize=False)

    @cached_property
    def _normalized(self) -> str:
        return print_file(self._files.linked, pool_classes(self._pool), normalize=True)

    def incompatibilities(self, writer: ProtobufSchema) -> Sequence[Incompatibility]:
        return file_incompatibilities(self._files, writer._files)

    # Message types ----------------------------------------------------------------------------------------------------

    def message_descriptor(self, message: Sequence[int] | str | None = None) -> Descriptor:
        """One message type: by its path in the file ([0, 2]), by its full or relative name, or the first one.

        A name may be that of a message in an import; a path may not.
        """
        if isinstance(message, str):
            return self._by_name(message)
        return self._by_path([0] if message is None else list(message))

    def message_class(self, message: Sequence[int] | str | None = None) -> builtins.type[Message]:
        """The class of a message type, named as in `message_descriptor`."""
        return message_factory.GetMessageClass(self.message_descriptor(message))  # type: ignore[no-any-return]

    def message_path(self, message: str) -> list[int]:
        """The path of a message type in the file, as the wire format has it."""
        descriptor = self._by_name(message)
        if descriptor.file.name != self._files.linked.name:
            raise SchemaError(f'the message "{message}" is in the import "{descriptor.file.name}", not in the schema')
        messages = self._files.linked.message_type
        path: list[int] = []
        package = self._files.linked.package
        for name in descriptor.full_name.removeprefix(f"{package}." if package else "").split("."):
            index = next(at for at, one in enumerate(messages) if one.name == name)
            path.append(index)
            messages = messages[index].nested_type
        return path

    def _by_name(self, name: str) -> Any:
        package = self._files.linked.package
        for full_name in (name.removeprefix("."), f"{package}.{name}"):
            try:
                return self._pool.FindMessageTypeByName(full_name)
            except KeyError:
                continue
        names = ", ".join(sorted(self.file_descriptor.message_types_by_name)) or "none"
        raise SchemaError(f'the schema has no message "{name}"; its messages are: {names}')

    def _by_path(self, path: list[int]) -> Any:
        messages = self._files.linked.message_type
        names: list[str] = [self._files.linked.package] if self._files.linked.package else []
        for index in path:
            if not 0 <= index < len(messages):
                raise SchemaError(f"the schema has no message with the path {path}")
            names.append(messages[index].name)
            messages = messages[index].nested_type
        if not path:
            raise SchemaError("the path of a message type is empty")
        return self._pool.FindMessageTypeByName(".".join(names))
