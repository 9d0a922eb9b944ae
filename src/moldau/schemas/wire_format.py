"""Wire format of serialized values: magic byte and schema id before the data, or the id in a header.

    0 | id as four bytes, big-endian | data                 Avro and JSON Schema
    0 | id | path of the message type | data                 Protobuf; the path is a list of zigzag varints

The path has its length first; the path [0], the first message of the file, is the single byte 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from moldau.schemas.errors import SchemaError

MAGIC: Final = 0
PREFIX: Final = Struct(">bi")
KEY_ID_HEADER: Final = "__key_schema_id"
VALUE_ID_HEADER: Final = "__value_schema_id"


def prefix(schema_id: int) -> bytes:
    return PREFIX.pack(MAGIC, schema_id)


def split(data: bytes | memoryview) -> tuple[int, memoryview]:
    """The schema id of a value, and the data behind it. Raises SchemaError if it does not begin as it must."""
    view = memoryview(data)
    if len(view) < PREFIX.size:
        raise SchemaError(f"the value has {len(view)} bytes; the magic byte and the schema id alone need {PREFIX.size}")
    magic, schema_id = PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise SchemaError(f"the value begins with byte {magic}, not with {MAGIC}: it was written without a registry")
    return schema_id, view[PREFIX.size :]


def message_path(data: memoryview) -> tuple[list[int], memoryview]:
    """The path of a Protobuf message type in its file, and the data behind it."""
    count, data = _varint(data)
    if count == 0:
        return [0], data
    if count < 0 or count > len(data):
        raise SchemaError(f"the path of the message type has {count} parts")
    path: list[int] = []
    for _ in range(count):
        index, data = _varint(data)
        path.append(index)
    return path, data


def message_path_bytes(path: Sequence[int]) -> bytes:
    if list(path) == [0]:
        return b"\0"
    return b"".join(_zigzag(number) for number in (len(path), *path))


def _zigzag(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _varint(data: memoryview) -> tuple[int, memoryview]:
    value = shift = 0
    for index, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), data[index + 1 :]
        shift += 7
    raise SchemaError("the path of the message type ends too early")
