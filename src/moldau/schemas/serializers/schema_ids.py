"""Schema ids in records: before the data, or in a header.

A header has the schema's GUID (magic byte 1 and 16 bytes), as Confluent's serializers write it; if the registry gives
no GUIDs, the id as it stands before data (magic byte 0 and four bytes). Protobuf's path of the message type follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence
from struct import Struct
from typing import Any, Final

from moldau.schemas.errors import SchemaError
from moldau.schemas.schema import RegisteredSchema
from moldau.schemas.wire_format import KEY_ID_HEADER, MAGIC, PREFIX, VALUE_ID_HEADER, prefix, split

GUID_MAGIC: Final = 1
_GUID: Final = Struct(">b16s")

HeaderList = MutableSequence[tuple[str, Any]]
HeadersRead = Iterable[tuple[str, Any]] | Mapping[str, Any]


def header_name(is_key: bool) -> str:
    return KEY_ID_HEADER if is_key else VALUE_ID_HEADER


def header_value(registered: RegisteredSchema) -> bytes:
    """What a header says of the schema, without Protobuf's path."""
    if registered.guid is None:
        return prefix(registered.id)
    try:
        return _GUID.pack(GUID_MAGIC, bytes.fromhex(registered.guid.replace("-", "")))
    except ValueError:
        raise SchemaError(f"the registry's GUID {registered.guid!r} of schema {registered.id} is not a UUID") from None


def set_header(headers: HeaderList | None, is_key: bool, value: bytes) -> None:
    """Put the id into the headers of a record, instead of one that is there: the record may have been consumed."""
    if headers is None:
        raise SchemaError("the schema id belongs in a header, and the caller gave no headers to put it in")
    name = header_name(is_key)
    headers[:] = [header for header in headers if header[0] != name]
    headers.append((name, value))


def read_id(data: bytes | memoryview, headers: HeadersRead | None, is_key: bool) -> tuple[int | str, memoryview, bool]:
    """The id or GUID of the schema, what follows it, and whether it was in a header.

    What follows is the data, with Protobuf's path before it if the id was there. If it was in a header, what follows
    the id in the header comes first in the same way.
    """
    value = _header(headers, header_name(is_key)) if headers else None
    if value is None:
        schema_id, rest = split(data)
        return schema_id, rest, False
    if value[:1] == bytes((GUID_MAGIC,)) and len(value) >= _GUID.size:
        text = value[1 : _GUID.size].hex()
        guid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return guid, memoryview(value)[_GUID.size :], True
    if value[:1] == bytes((MAGIC,)) and len(value) >= PREFIX.size:
        found: int = PREFIX.unpack_from(value)[1]
        return found, memoryview(value)[PREFIX.size :], True
    raise SchemaError(f"the header {header_name(is_key)} has neither a schema id nor a GUID: {value[:20]!r}")


def _header(headers: HeadersRead, name: str) -> bytes | None:
    if isinstance(headers, Mapping):
        found = headers.get(name)
    else:
        found = next((value for key, value in headers if key == name), None)
    return None if found is None else bytes(found)
