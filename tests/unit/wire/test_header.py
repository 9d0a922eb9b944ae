"""Request and response headers: versions and refusals."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.wire.api import APIS, Api, ApiKey
from moldau.wire.errors import WireError
from moldau.wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # theirs, not ours
    from kafka.protocol.api_header import RequestHeader as TheirRequestHeader

EVERY_VERSION = [(api, version) for api in APIS.values() for version in range(api.min_version, api.max_version + 1)]


@given(
    st.sampled_from(EVERY_VERSION),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.none() | st.text(max_size=20),
    st.binary(),
)
def test_a_request_header_is_decoded_with_the_start_of_the_body(
    api_version: tuple[Api, int], correlation_id: int, client_id: str | None, body: bytes
) -> None:
    api, version = api_version
    header = encode_request_header(api.key, version, correlation_id, client_id)
    for frame in (header + body, bytearray(header + body), memoryview(header + body)):
        decoded, pos = decode_request_header(frame)
        assert decoded == RequestHeader(api.key, version, correlation_id, client_id)
        assert pos == len(header)


@pytest.mark.parametrize("client_id", ["someone", "größe"])
def test_request_headers_are_those_of_kafka_python(client_id: str) -> None:
    for api, version in EVERY_VERSION:
        flexible = api.flexible_from is not None and version >= api.flexible_from
        theirs = TheirRequestHeader(
            request_api_key=api.key, request_api_version=version, correlation_id=77, client_id=client_id
        ).encode(flexible=flexible)
        assert encode_request_header(api.key, version, 77, client_id) == theirs


def test_the_client_id_keeps_its_classic_length_in_flexible_versions() -> None:
    assert encode_request_header(ApiKey.METADATA, 12, 1, "me") == b"\0\3\0\x0c\0\0\0\1\0\2me\0"
    assert encode_request_header(ApiKey.METADATA, 8, 1, None) == b"\0\3\0\x08\0\0\0\1\xff\xff"


def test_tagged_fields_of_a_header_are_skipped() -> None:
    frame = b"\0\3\0\x0c\0\0\0\1\0\2me" + b"\2\0\3abc\7\0" + b"body"
    header, pos = decode_request_header(frame)
    assert header.client_id == "me"
    assert frame[pos:] == b"body"


def test_the_header_of_an_unknown_api_or_version_can_be_read() -> None:
    assert decode_request_header(b"\x03\xe7\0\5\0\0\0\1\0\0rest") == (RequestHeader(999, 5, 1, ""), 10)
    assert decode_request_header(b"\0\x12\0\x63\0\0\0\1\0\0\0rest") == (RequestHeader(18, 99, 1, ""), 11)
    assert decode_request_header(b"\0\x12\xff\xff\0\0\0\1\0\0rest") == (RequestHeader(18, -1, 1, ""), 10)


def test_a_response_header_has_tags_where_the_body_is_flexible_but_never_for_api_versions() -> None:
    assert encode_response_header(ApiKey.METADATA, 8, 258) == b"\0\0\1\2"
    assert encode_response_header(ApiKey.METADATA, 9, 258) == b"\0\0\1\2\0"
    assert encode_response_header(ApiKey.API_VERSIONS, 4, 258) == b"\0\0\1\2"
    assert encode_response_header(ApiKey.SASL_HANDSHAKE, 1, 258) == b"\0\0\1\2"


def test_a_response_header_is_decoded_with_the_start_of_the_body() -> None:
    for api, version in EVERY_VERSION:
        header = encode_response_header(api.key, version, -5)
        assert decode_response_header(header + b"body", api.key, version) == (-5, len(header))
    assert decode_response_header(bytearray(b"..\0\0\0\7\1\5\1x"), ApiKey.METADATA, 9, 2) == (7, 10)


@pytest.mark.parametrize("version", [8, 12])
def test_every_truncation_of_a_header_is_refused(version: int) -> None:
    request = encode_request_header(ApiKey.METADATA, version, 1, "client")
    response = encode_response_header(ApiKey.METADATA, version, 1)
    for size in range(len(request)):
        with pytest.raises(WireError):
            decode_request_header(request[:size])
    for size in range(len(response)):
        with pytest.raises(WireError):
            decode_response_header(response[:size], ApiKey.METADATA, version)


@given(st.binary(max_size=40))
def test_random_bytes_are_a_header_or_refused(frame: bytes) -> None:
    for decode in (decode_request_header, lambda frame: decode_response_header(frame, ApiKey.METADATA, 9)):
        try:
            decode(frame)
        except WireError:
            pass
