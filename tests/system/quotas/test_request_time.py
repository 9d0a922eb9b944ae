"""Request time: clients that take more than their share of the loop's time are throttled, by requests of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.security.quota_entities import REQUEST_PERCENTAGE, QuotaEntity
from moldau.wire.api import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.compat.wire import ask, batch_of, fetch_partition, fetch_request, only_partition, produce_request
from tests.support.raw import RawConnection
from tests.system.quotas.worlds import World, is_quiet, world

NEXT_TO_NOTHING = 0.000_1
"""A share, in percent, that every request exceeds: a second's share is one microsecond."""

KINDS = {
    "a message": (MetadataRequest(topics=[]), 12),
    "a later answer": (HeartbeatRequest(group_id="no-such-group"), 4),
    "a coroutine": (CreateTopicsRequest(topics=[CreateTopicsRequestTopic(name="", num_partitions=1)]), 7),
    "a produce": (produce_request("t", [(0, batch_of(b"x"))]), 11),
    "a fetch": (fetch_request("t", [fetch_partition()]), 12),
    "a fetch that waits": (fetch_request("t", [fetch_partition(offset=10_000)], max_wait_ms=1), 12),
}


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    with world() as one:
        one.topic("t")
        yield one


@pytest.fixture
def here(shared: World) -> Iterator[World]:
    yield shared
    shared.set({})
    shared.broker.advance(60)


def throttled(connection: RawConnection, request: Any, version: int) -> int:
    return int(ask(connection, request, version).throttle_time_ms)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_of_any_kind_above_the_share_is_throttled_for_at_most_a_second(here: World, kind: str) -> None:
    here.everyone(request_percentage=NEXT_TO_NOTHING)
    with here.connect() as connection:
        assert 1 <= throttled(connection, *KINDS[kind]) <= 1_000
        assert here.muted == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_share_throttles_nobody(here: World, kind: str) -> None:
    here.everyone(request_percentage=10_000)
    with here.connect() as connection:
        assert [throttled(connection, *KINDS[kind]) for _ in range(5)] == [0] * 5


def test_the_response_comes_first_and_then_the_pause(here: World) -> None:
    here.everyone(request_percentage=NEXT_TO_NOTHING)
    with here.connect() as connection:
        request = MetadataRequest(topics=[]).encode(12)
        first, second = (connection.send(ApiKey.METADATA, 12, request) for _ in range(2))
        assert connection.receive(ApiKey.METADATA, 12, MetadataResponse, first).throttle_time_ms in range(900, 1_001)
        assert is_quiet(connection)
        here.broker.advance(1)
        connection.receive(ApiKey.METADATA, 12, MetadataResponse, second)


def test_a_version_without_a_field_for_it_is_throttled_nevertheless(here: World) -> None:
    here.everyone(request_percentage=NEXT_TO_NOTHING)
    with here.connect() as connection:
        assert ask(connection, HeartbeatRequest(group_id="no-such-group"), 0).error_code != 0
        assert here.muted == 1


def test_the_first_request_of_a_connection_is_throttled(here: World) -> None:
    here.everyone(request_percentage=NEXT_TO_NOTHING)
    with here.connect() as connection:
        assert ask(connection, ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3).api_keys
        assert here.muted == 1


def test_a_consumer_with_a_small_share_gets_records_nevertheless(here: World) -> None:
    """An empty response, as for the byte rate, would take time as well: the client would never get a record."""
    with here.connect() as connection:
        ask(connection, *KINDS["a produce"])
        here.everyone(request_percentage=NEXT_TO_NOTHING)
        for _ in range(3):
            response = ask(connection, *KINDS["a fetch"])
            assert response.throttle_time_ms > 0
            assert only_partition(response).records
            here.broker.advance(1)


def test_time_adds_up_over_requests(here: World) -> None:
    here.everyone(request_percentage=0.5)
    with here.connect() as connection:
        assert throttled(connection, *KINDS["a message"]) == 0  # less than 5 ms, a second's share
        assert any(throttled(connection, *KINDS["a message"]) for _ in range(50_000))


def test_only_clients_with_a_quota_are_throttled(here: World) -> None:
    here.set({QuotaEntity(client_id="limited"): {REQUEST_PERCENTAGE: NEXT_TO_NOTHING}})
    with here.connect("free") as free, here.connect("limited") as limited:
        assert throttled(free, *KINDS["a message"]) == 0
        assert throttled(limited, *KINDS["a message"]) > 0
        assert throttled(free, *KINDS["a coroutine"]) == 0


def test_requests_between_brokers_are_not_counted(here: World) -> None:
    here.everyone(request_percentage=NEXT_TO_NOTHING)
    with here.connect() as connection:
        for _ in range(3):
            ask(connection, WriteTxnMarkersRequest(markers=[]))
    assert here.muted == 0
