"""Byte rates of producers and consumers: throttle times, the pause after the response, the memory of paused clients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from moldau.net.framing import SCRATCH_BYTES
from moldau.security.quota_entities import (
    CONSUMER_BYTE_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from moldau.wire.api import ApiKey
from moldau.wire.header import encode_request_header
from moldau.wire.messages.fetch import FetchResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.produce import ProduceResponse
from tests.compat.wire import ask, batch_of, fetch, fetch_partition, fetch_request, only_partition, produce_request
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until
from tests.system.quotas.worlds import EVERYONE, World, is_quiet, world

THE_WINDOW_MS = range(9_800, 10_001)
"""The longest throttle. The response names what is left of it, so a busy machine names a little less."""
KILOBYTES_20 = b"x" * 20_000
PRODUCE_VERSIONS = (3, 7, 8, 9, 11)
FETCH_VERSIONS = (4, 7, 11, 12)


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    with world() as one:
        one.topic("t")
        with one.connect() as connection:
            for _ in range(20):
                ask(connection, produce_request("t", [(0, batch_of(KILOBYTES_20))]), 11)
        yield one


@pytest.fixture
def here(shared: World) -> Iterator[World]:
    yield shared
    shared.set({})
    shared.broker.advance(60)


def send_records(connection: RawConnection, version: int = 11, acks: int = -1) -> ProduceResponse:
    response: ProduceResponse = ask(connection, produce_request("t", [(0, batch_of(KILOBYTES_20))], acks=acks), version)
    return response


def read_records(connection: RawConnection, version: int = 12, **options: int) -> FetchResponse:
    return fetch(connection, "t", [fetch_partition()], version=version, **options)


def request_memory(here: World) -> int:
    return int(here.ask(lambda broker: broker.frame_memory.in_use))


def fill_socket(connection: RawConnection, data: bytes) -> int:
    """Send until the socket takes no more. Returns the bytes that were sent."""
    connection.socket.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while sent < 100_000_000:
            sent += connection.socket.send(data)
    return sent


# Produce --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_producer_above_its_rate_is_told_how_long_it_is_throttled(here: World, version: int) -> None:
    here.everyone(producer_byte_rate=10_000)
    with here.connect() as connection:
        response = send_records(connection, version)
        assert response.responses[0].partition_responses[0].error_code == 0
        assert 1_700 <= response.throttle_time_ms <= 1_850  # 20 KB at 10 KB/s, less the fifth of a second ahead


def test_a_producer_within_its_rate_is_not_throttled(here: World) -> None:
    here.everyone(producer_byte_rate=1_000_000)
    with here.connect() as connection:
        for _ in range(5):
            assert send_records(connection).throttle_time_ms == 0
    assert here.muted == 0


def test_the_response_comes_first_and_then_the_pause(here: World) -> None:
    """KIP-219. The next request is carried out when the pause is over, and not before."""
    here.everyone(producer_byte_rate=1_000)
    with here.connect() as connection:
        first = connection.send(ApiKey.PRODUCE, 11, produce_request("t", [(0, batch_of(KILOBYTES_20))]).encode(11))
        second = connection.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]).encode(12))
        response = connection.receive(ApiKey.PRODUCE, 11, ProduceResponse, first)
        assert response.throttle_time_ms in THE_WINDOW_MS  # no pause is longer than the window
        assert is_quiet(connection)
        assert here.muted == 1
        here.broker.advance(9)
        assert is_quiet(connection)
        here.broker.advance(1)
        connection.receive(ApiKey.METADATA, 12, MetadataResponse, second)
        assert here.muted == 0


def test_a_producer_without_acknowledgements_is_paused(here: World) -> None:
    here.everyone(producer_byte_rate=1_000)
    with here.connect() as connection:
        connection.send(ApiKey.PRODUCE, 11, produce_request("t", [(0, batch_of(KILOBYTES_20))], acks=0).encode(11))
        connection.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]).encode(12))
        assert is_quiet(connection)
        here.broker.advance(10)
        connection.receive(ApiKey.METADATA, 12, MetadataResponse)


def test_other_clients_are_not_paused(here: World) -> None:
    here.set({QuotaEntity(client_id="greedy"): {PRODUCER_BYTE_RATE: 1_000}})
    with here.connect("greedy") as greedy, here.connect("modest") as modest:
        assert send_records(greedy).throttle_time_ms in THE_WINDOW_MS
        assert send_records(modest).throttle_time_ms == 0


def test_connections_of_one_user_share_its_rate(here: World) -> None:
    here.everyone(producer_byte_rate=10_000)
    with here.connect("one") as one, here.connect("two") as two:
        assert 1_700 <= send_records(one).throttle_time_ms <= 1_850
        assert 3_600 <= send_records(two).throttle_time_ms <= 3_900


def test_a_changed_quota_is_in_force_at_once_for_open_and_paused_connections(here: World) -> None:
    here.everyone(producer_byte_rate=1_000)
    with here.connect() as connection:
        assert send_records(connection).throttle_time_ms in THE_WINDOW_MS
        assert here.muted == 1
        here.everyone(producer_byte_rate=1_000_000)
        assert here.muted == 0
        assert send_records(connection).throttle_time_ms == 0
        here.everyone(producer_byte_rate=1_000)
        assert send_records(connection).throttle_time_ms > 9_000
        here.set({})
        assert send_records(connection).throttle_time_ms == 0


def test_a_client_that_leaves_while_it_is_paused_leaves_nothing_behind(here: World) -> None:
    here.everyone(producer_byte_rate=1_000)
    with here.connect() as connection:
        send_records(connection)
        assert here.muted == 1
    here.broker.advance(10)
    wait_until(lambda: here.muted == 0)


def test_a_paused_client_holds_no_more_than_one_read(here: World) -> None:
    """Nothing is read during the pause, so what the client sends stays in its socket, and the broker's memory for
    requests is not used up by paused clients."""
    here.everyone(producer_byte_rate=1_000)
    request = produce_request("t", [(0, batch_of(b"y" * 900_000))]).encode(11)
    with here.connect() as connection:
        wait_until(lambda: request_memory(here) == 0)  # the connections of other tests are gone
        send_records(connection)
        assert fill_socket(connection, request) < 100_000_000
        assert request_memory(here) <= SCRATCH_BYTES


@pytest.mark.parametrize("announced", [50 << 20, 100 << 20])
def test_the_beginning_of_a_large_request_does_not_reserve_memory_while_its_client_is_paused(
    here: World, announced: int
) -> None:
    """The throttled request and the first bytes of a large one arrive together. Clients that are paused so must not
    keep others from sending: the memory is reserved when the pause is over."""
    here.everyone(producer_byte_rate=1_000)
    with here.connect() as connection:
        wait_until(lambda: request_memory(here) == 0)  # the connections of other tests are gone
        frame = encode_request_header(ApiKey.PRODUCE, 11, 1, "raw")
        frame += produce_request("t", [(0, batch_of(KILOBYTES_20))]).encode(11)
        begun = len(frame).to_bytes(4, "big") + frame + announced.to_bytes(4, "big") + bytes(1000)
        connection.socket.sendall(begun)
        wait_until(lambda: here.muted == 1)
        assert request_memory(here) <= SCRATCH_BYTES
        here.broker.advance(10)
        wait_until(lambda: request_memory(here) >= announced)
    wait_until(lambda: request_memory(here) == 0)


def test_quotas_are_in_force_after_a_restart() -> None:
    with world() as one:
        one.topic("t")
        one.everyone(producer_byte_rate=1_000)
        one.broker.restart()
        with one.connect() as connection:
            assert send_records(connection).throttle_time_ms in THE_WINDOW_MS


# Fetch ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_consumer_above_its_rate_gets_its_records_and_is_told_how_long_it_is_throttled(
    here: World, version: int
) -> None:
    here.everyone(consumer_byte_rate=10_000)
    with here.connect() as connection:
        response = read_records(connection, version)
        assert len(only_partition(response).records) >= 20_000  # one batch is sent, however low the rate is
        assert 1_700 <= response.throttle_time_ms <= 1_850


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_consumer_whose_rate_is_used_up_gets_an_empty_response(here: World, version: int) -> None:
    here.everyone(consumer_byte_rate=10_000)
    with here.connect() as first, here.connect() as second:
        read_records(first, version)
        response = read_records(second, version)
        assert response.responses == []
        assert response.error_code == 0
        assert 1_600 <= response.throttle_time_ms <= 1_850
        here.broker.advance(2)
        assert len(only_partition(read_records(second, version)).records) >= 20_000


def test_the_bytes_of_an_empty_response_do_not_count(here: World) -> None:
    here.everyone(consumer_byte_rate=10_000)
    with here.connect() as first, here.connect() as second:
        read_records(first)
        read_records(second)
        here.broker.advance(1.9)
        assert only_partition(read_records(second)).records


def test_a_response_has_no_more_bytes_than_the_rate_allows_at_once(here: World) -> None:
    here.everyone(consumer_byte_rate=400_000)
    with here.connect() as connection:
        response = read_records(connection)
        assert 20_000 <= len(only_partition(response).records) <= 40_000
        assert response.throttle_time_ms == 0


def test_a_full_request_that_is_throttled_begins_no_session(here: World) -> None:
    """The client sends a full request again, as Kafka's does: an empty response tells it nothing about its
    partitions."""
    here.everyone(consumer_byte_rate=10_000)
    with here.connect() as first, here.connect() as second:
        read_records(first)
        sessions = here.ask(lambda broker: len(broker.fetch_sessions))
        response = read_records(second, session_id=0, session_epoch=0)
        assert (response.session_id, response.responses) == (0, [])
        assert here.ask(lambda broker: len(broker.fetch_sessions)) == sessions


def test_an_incremental_request_that_is_throttled_keeps_its_session(here: World) -> None:
    with here.connect() as first, here.connect() as second:
        begun = read_records(second, session_id=0, session_epoch=0)
        here.everyone(consumer_byte_rate=10_000)
        read_records(first)
        response = fetch(second, None, session_id=begun.session_id, session_epoch=1)
        assert response.throttle_time_ms > 0
        assert (response.session_id, response.error_code, response.responses) == (begun.session_id, 0, [])
        here.broker.advance(2)
        response = fetch(second, None, session_id=begun.session_id, session_epoch=2)
        assert len(only_partition(response).records) >= 20_000


def test_a_waiting_fetch_is_throttled_when_another_connection_has_used_up_the_rate(here: World) -> None:
    here.topic("later")
    here.everyone(consumer_byte_rate=10_000)
    with here.connect() as waiting, here.connect() as other, here.connect() as producer:
        request = fetch_request("later", [fetch_partition()], max_wait_ms=30_000)
        waiting.send(ApiKey.FETCH, 12, request.encode(12))
        wait_until(lambda: here.ask(lambda broker: broker.delayed_fetches.waiting) == 1)
        read_records(other)
        ask(producer, produce_request("later", [(0, batch_of(KILOBYTES_20))]), 11)
        response = waiting.receive(ApiKey.FETCH, 12, FetchResponse)
        assert response.responses == []
        assert response.throttle_time_ms > 1_000


def test_a_consumer_that_waits_for_nothing_is_not_throttled(here: World) -> None:
    here.topic("empty")
    here.everyone(consumer_byte_rate=1)
    with here.connect() as connection:
        for _ in range(3):
            response = fetch(connection, "empty", [fetch_partition()], max_wait_ms=1)
            assert response.throttle_time_ms == 0


def test_a_follower_is_not_throttled(here: World) -> None:
    before = here.throttled(CONSUMER_BYTE_RATE), here.throttled(REQUEST_PERCENTAGE)
    here.everyone(consumer_byte_rate=1, producer_byte_rate=1, request_percentage=0.001)
    with here.connect() as connection:
        for _ in range(3):
            response = fetch(connection, "t", [fetch_partition()], replica_id=7)
            assert response.throttle_time_ms == 0
    assert here.muted == 0
    assert (here.throttled(CONSUMER_BYTE_RATE), here.throttled(REQUEST_PERCENTAGE)) == before


def test_throttled_requests_are_counted(here: World) -> None:
    before = here.throttled(PRODUCER_BYTE_RATE), here.throttled(CONSUMER_BYTE_RATE)
    here.set({EVERYONE: {PRODUCER_BYTE_RATE: 1_000}, QuotaEntity(DEFAULT, DEFAULT): {CONSUMER_BYTE_RATE: 1_000}})
    with here.connect() as producer, here.connect() as consumer:
        send_records(producer)
        read_records(consumer)
    assert (here.throttled(PRODUCER_BYTE_RATE), here.throttled(CONSUMER_BYTE_RATE)) == (before[0] + 1, before[1] + 1)
