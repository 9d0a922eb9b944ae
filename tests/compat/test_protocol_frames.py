"""Frames: which ones close a connection, and the order of answers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import encode_request_header
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.produce import ProduceResponse
from tests.compat import wire
from tests.support.raw import ConnectionClosedError, RawConnection

MAX_REQUEST_BYTES = 104_857_600
METADATA_VERSION = 9
SOFTWARE = ApiVersionsRequest(client_software_name="moldau-tests", client_software_version="1.0")


def api_versions(connection: RawConnection, version: int = 3) -> ApiVersionsResponse:
    response: ApiVersionsResponse = wire.ask(connection, SOFTWARE, version)
    return response


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def header(api: int, version: int, correlation_id: int = 1) -> bytes:
    return struct.pack(">hhih", api, version, correlation_id, 1) + b"x"


@pytest.fixture
def bystander(bootstrap: str) -> Iterator[RawConnection]:
    """Another client's connection, opened before the malformed frame; it must still work afterwards."""
    with RawConnection(bootstrap) as connection:
        assert api_versions(connection).error_code == 0
        yield connection
        assert api_versions(connection).error_code == 0


# Closed ---------------------------------------------------------------------------------------------------------------

METADATA = framed(header(ApiKey.METADATA, 1) + MetadataRequest(topics=[]).encode(1))

MALFORMED: dict[str, bytes] = {
    "an unknown API": framed(header(9_999, 0)),
    "a negative API": framed(header(-1, 0)),
    "a version above the highest": framed(header(ApiKey.METADATA, 99) + bytes(50)),
    "a version below the lowest": framed(header(ApiKey.FETCH, 0) + bytes(50)),
    "a negative version": framed(header(ApiKey.METADATA, -1) + bytes(50)),
    "an empty frame": framed(b""),
    "half a header": framed(header(ApiKey.METADATA, 1)[:6]),
    "a client id beyond the frame": framed(struct.pack(">hhih", ApiKey.METADATA, 1, 1, 200) + b"short"),
    "a body that is missing": framed(header(ApiKey.METADATA, 1)),
    "a body cut short": framed(header(ApiKey.PRODUCE, 7) + b"\xff\xff\x00\x01\x00"),
    "a count beyond the frame": framed(header(ApiKey.METADATA, 1) + struct.pack(">i", 1_000_000)),
    "a string beyond the frame": framed(header(ApiKey.METADATA, 1) + struct.pack(">ih", 1, 500) + b"ab"),
    "a null that may not be one": framed(header(ApiKey.METADATA, 0) + struct.pack(">i", -1)),
    "a negative length": struct.pack(">i", -1),
    "a length beyond the limit": struct.pack(">i", MAX_REQUEST_BYTES + 1),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("160301010001000000"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_frame_closes_its_connection_and_no_other(
    case: str, bootstrap: str, bystander: RawConnection
) -> None:
    with RawConnection(bootstrap) as connection:
        connection.socket.sendall(MALFORMED[case])
        assert connection.closed_by_peer()


@pytest.mark.parametrize("case", MALFORMED)
def test_requests_before_a_malformed_frame_are_answered(case: str, bootstrap: str) -> None:
    with RawConnection(bootstrap) as connection:
        connection.socket.sendall(METADATA + MALFORMED[case])
        connection.receive(ApiKey.METADATA, 1, MetadataResponse, 1)
        assert connection.closed_by_peer()


def test_requests_after_a_malformed_frame_are_not_executed(bootstrap: str, raw: RawConnection, topic: str) -> None:
    request = wire.produce_request(topic, [(0, wire.batch_of(b"too late"))])
    late = encode_request_header(ApiKey.PRODUCE, 7, 2, "x") + request.encode(7)
    with RawConnection(bootstrap) as connection:
        connection.socket.sendall(MALFORMED["an unknown API"] + framed(late))
        assert connection.closed_by_peer()
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 0


def test_a_connection_that_ends_inside_a_frame_is_forgotten(bootstrap: str, bystander: RawConnection) -> None:
    with RawConnection(bootstrap) as connection:
        connection.socket.sendall(METADATA[:9])
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.closed_by_peer()


# Not closed -----------------------------------------------------------------------------------------------------------


def test_bytes_after_a_body_are_ignored(raw: RawConnection) -> None:
    raw.send_frame(header(ApiKey.METADATA, 1, 7) + MetadataRequest(topics=[]).encode(1) + b"from the future")
    raw.receive(ApiKey.METADATA, 1, MetadataResponse, 7)


def test_a_client_needs_no_client_id(bootstrap: str) -> None:
    with RawConnection(bootstrap, client_id=None) as connection:  # type: ignore[arg-type]
        assert api_versions(connection).error_code == 0
        assert wire.metadata(connection, []).topics == []


def test_a_client_id_may_be_any_bytes(raw: RawConnection) -> None:
    latin = "Köln".encode("latin-1")
    name = struct.pack(">h", len(latin)) + latin
    raw.send_frame(struct.pack(">hhi", ApiKey.METADATA, 1, 8) + name + MetadataRequest(topics=[]).encode(1))
    raw.receive(ApiKey.METADATA, 1, MetadataResponse, 8)


def test_unknown_tagged_fields_are_skipped(raw: RawConnection) -> None:
    tags = b"\x02" + b"\x63\x03abc" + b"\x64\x00"  # two fields: 99 with three bytes, 100 with none
    request = MetadataRequest(topics=[], unknown_tags={77: b"xyz"}).encode(METADATA_VERSION)
    raw.send_frame(struct.pack(">hhih", ApiKey.METADATA, METADATA_VERSION, 5, 1) + b"x" + tags + request)
    raw.receive(ApiKey.METADATA, METADATA_VERSION, MetadataResponse, 5)


def test_a_frame_may_come_byte_by_byte(raw: RawConnection) -> None:
    for position in range(len(METADATA)):
        raw.socket.sendall(METADATA[position : position + 1])
    raw.receive(ApiKey.METADATA, 1, MetadataResponse, 1)


def test_a_half_closed_connection_still_gets_its_answers(bootstrap: str) -> None:
    with RawConnection(bootstrap) as connection:
        connection.socket.sendall(METADATA * 3)
        connection.socket.shutdown(socket.SHUT_WR)
        for _ in range(3):
            connection.receive(ApiKey.METADATA, 1, MetadataResponse, 1)
        assert connection.closed_by_peer()


@pytest.mark.parametrize("version", [5, 99, 32_767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(version: int, raw: RawConnection) -> None:
    raw.send_frame(header(ApiKey.API_VERSIONS, version, 3) + b"\0and whatever the future may hold")
    response = raw.receive(ApiKey.API_VERSIONS, 0, ApiVersionsResponse, 3)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    known = APIS[ApiKey.API_VERSIONS]
    ranges = [(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys]
    assert ranges == [(ApiKey.API_VERSIONS, known.min_version, known.max_version)]
    assert api_versions(raw).error_code == 0


@pytest.mark.parametrize(("name", "version"), [("-bad name-", "1.0"), ("good", ""), ("", "1.0"), ("a b", "1")])
def test_an_invalid_client_software_name_is_refused(name: str, version: str, raw: RawConnection) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    response = wire.ask(raw, request, 3)
    assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert api_versions(raw).error_code == 0


# Order ----------------------------------------------------------------------------------------------------------------


def test_answers_keep_the_order_of_their_requests(raw: RawConnection, topic: str) -> None:
    """A waiting fetch is followed by requests that need not wait. Their answers are held back until the fetch is
    answered."""
    fetch = wire.fetch_request(topic, [wire.fetch_partition()], max_wait_ms=200)
    sent = [raw.send(ApiKey.FETCH, wire.FETCH_VERSION, fetch.encode(wire.FETCH_VERSION))]
    sent += [raw.send(ApiKey.METADATA, 1, MetadataRequest(topics=[]).encode(1)) for _ in range(5)]
    sent.append(raw.send(ApiKey.API_VERSIONS, 3, SOFTWARE.encode(3)))
    found = [struct.unpack_from(">i", raw.receive_frame())[0] for _ in sent]
    assert found == sent


def test_pipelined_batches_are_written_in_order(raw: RawConnection, topic: str) -> None:
    count = 200
    for number in range(count):
        request = wire.produce_request(topic, [(0, wire.batch_of(b"%d" % number))])
        raw.send(ApiKey.PRODUCE, 7, request.encode(7))
    offsets = []
    for number in range(count):
        response = raw.receive(ApiKey.PRODUCE, 7, ProduceResponse, number + 1)
        offsets.append(response.responses[0].partition_responses[0].base_offset)
    assert offsets == list(range(count))
    assert wire.stored_values(raw, topic) == [b"%d" % number for number in range(count)]


def test_a_topic_can_be_used_right_after_its_creation(
    raw: RawConnection, unused_name: Callable[[], str], moldau_only: None
) -> None:
    """A stronger guarantee than Apache Kafka's, whose brokers learn of a topic with a delay."""
    name = unused_name()
    create = CreateTopicsRequest(
        topics=[CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=10_000
    )
    raw.send(ApiKey.CREATE_TOPICS, 5, create.encode(5))
    produce = wire.produce_request(name, [(0, wire.batch_of(b"at once"))])
    raw.send(ApiKey.PRODUCE, 7, produce.encode(7))
    raw.receive_frame()
    response = raw.receive(ApiKey.PRODUCE, 7, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_two_connections_do_not_wait_for_each_other(bootstrap: str, raw: RawConnection, topic: str) -> None:
    with RawConnection(bootstrap) as patient:
        fetch = wire.fetch_request(topic, [wire.fetch_partition()], max_wait_ms=60_000)
        patient.send(ApiKey.FETCH, wire.FETCH_VERSION, fetch.encode(wire.FETCH_VERSION))
        for _ in range(10):
            assert api_versions(raw).error_code == 0
    # Closing the connection of a waiting request does not affect the other connection either.
    assert wire.produced(raw, topic, b"after") == 0


def test_a_closed_connection_is_noticed_as_such(bootstrap: str) -> None:
    with RawConnection(bootstrap) as connection:
        connection.socket.sendall(MALFORMED["an unknown API"])
        with pytest.raises(ConnectionClosedError):
            connection.receive_frame()
