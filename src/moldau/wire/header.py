"""Headers of requests and responses.

A request header has version 1, or version 2 from the API's first flexible version on. Both start with the same fields,
so the header can be read before anything is known about the API. Version 2 adds tagged fields, but `client_id` keeps
its int16 length.

A response header is a correlation id, followed by tagged fields if the body is flexible. ApiVersions is the exception:
its response header never has tagged fields, because a client must be able to read it before it knows the versions that
the broker supports.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple

from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import WireError
from moldau.wire.primitives import Buffer, read_nullable_string, read_tags

_FIXED: Final = Struct(">hhi")
_FIXED_AND_LENGTH: Final = Struct(">hhih")
_CORRELATION_ID: Final = Struct(">i")
_NULL: Final = -1
NEVER: Final = 1 << 15
"""A flexible version that no API reaches."""

_REQUEST_FLEXIBLE_FROM: Final = {
    int(api.key): NEVER if api.flexible_from is None else api.flexible_from for api in APIS.values()
}
_RESPONSE_FLEXIBLE_FROM: Final = {**_REQUEST_FLEXIBLE_FROM, int(ApiKey.API_VERSIONS): NEVER}


class RequestHeader(NamedTuple):
    """The API and version of a request, its correlation id, and the client id of the sender."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(buf: Buffer, pos: int = 0) -> tuple[RequestHeader, int]:
    """Decode the header of a request frame; return it and the position of the body.

    An unknown API or version is not an error here, because the session must be able to answer it. Such a header is
    decoded as version 1. Raises WireError on bytes that are not a header.
    """
    data = buf if isinstance(buf, bytes) else memoryview(buf)
    try:
        api_key, api_version, correlation_id = _FIXED.unpack_from(data, pos)
        client_id, pos = read_nullable_string(data, pos + _FIXED.size, False)
        if api_version >= _REQUEST_FLEXIBLE_FROM.get(api_key, NEVER):
            if data[pos]:
                _, pos = read_tags(data, pos)
            else:
                pos += 1
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise WireError(f"request header: {problem}") from problem
    return RequestHeader(api_key, api_version, correlation_id, client_id), pos


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode the header of a request."""
    tags = b"\0" if api_version >= _REQUEST_FLEXIBLE_FROM[api_key] else b""
    if client_id is None:
        return _FIXED_AND_LENGTH.pack(api_key, api_version, correlation_id, _NULL) + tags
    raw = client_id.encode()
    return _FIXED_AND_LENGTH.pack(api_key, api_version, correlation_id, len(raw)) + raw + tags


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Encode the header of a response."""
    if api_version >= _RESPONSE_FLEXIBLE_FROM[api_key]:
        return _CORRELATION_ID.pack(correlation_id) + b"\0"
    return _CORRELATION_ID.pack(correlation_id)


def decode_response_header(buf: Buffer, api_key: int, api_version: int, pos: int = 0) -> tuple[int, int]:
    """Decode the header of a response frame; return the correlation id and the position of the body.

    Raises WireError on bytes that are not a header.
    """
    data = buf if isinstance(buf, bytes) else memoryview(buf)
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(data, pos)
        pos += _CORRELATION_ID.size
        if api_version >= _RESPONSE_FLEXIBLE_FROM[api_key]:
            _, pos = read_tags(data, pos)
    except (error, IndexError) as problem:
        raise WireError(f"response header: {problem}") from problem
    return correlation_id, pos
