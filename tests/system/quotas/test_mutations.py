"""Controller mutations (KIP-599): refused topic by topic in new versions, carried out and throttled in older ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
)
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic, CreateTopicsResponse
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic, DeleteTopicsResponse
from tests.compat.wire import ask, describe_topic, metadata
from tests.support.raw import RawConnection
from tests.system.quotas.worlds import World, is_quiet, world

NONE, EXCEEDED, EXISTS = (
    ErrorCode.NONE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.TOPIC_ALREADY_EXISTS,
)
SAVED_UP = 11
"""Partitions that a new client with a rate of one per second may create at once."""


@pytest.fixture
def here() -> Iterator[World]:
    with world() as one:
        yield one


def create(
    connection: RawConnection, version: int, *sizes: tuple[str, int], validate_only: bool = False
) -> CreateTopicsResponse:
    topics = [CreateTopicsRequestTopic(name=name, num_partitions=size, replication_factor=1) for name, size in sizes]
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=validate_only)
    response: CreateTopicsResponse = ask(connection, request, version)
    return response


def codes(response: CreateTopicsResponse) -> list[int]:
    return [one.error_code for one in response.topics]


def grow(connection: RawConnection, version: int, name: str, total: int) -> CreatePartitionsResponse:
    wanted = CreatePartitionsRequestTopic(name=name, count=total, assignments=None)
    response: CreatePartitionsResponse = ask(
        connection, CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000), version
    )
    return response


def delete(connection: RawConnection, version: int, name: str) -> DeleteTopicsResponse:
    request = DeleteTopicsRequest(timeout_ms=10_000)
    if version >= 6:
        request.topics = [DeleteTopicsRequestTopic(name=name)]
    else:
        request.topic_names = [name]
    response: DeleteTopicsResponse = ask(connection, request, version)
    return response


@pytest.mark.parametrize("version", [6, 7])
def test_a_new_version_is_refused_topic_by_topic_while_the_quota_is_exceeded(here: World, version: int) -> None:
    here.everyone(controller_mutation_rate=1)
    with here.connect() as connection:
        response = create(connection, version, ("a", 10), ("b", 4), ("c", 1))
        assert codes(response) == [NONE, NONE, EXCEEDED]  # "b" overdraws the quota: it is carried out
        assert response.topics[2].error_message == "The throttling quota has been exceeded."
        assert 2_500 <= response.throttle_time_ms <= 3_000
        assert is_quiet(connection)
        here.broker.advance(3)
        assert codes(create(connection, version, ("c", 1))) == [NONE]


@pytest.mark.parametrize("version", [2, 5])
def test_an_older_version_is_carried_out_and_throttled(here: World, version: int) -> None:
    here.everyone(controller_mutation_rate=1)
    with here.connect() as connection:
        response = create(connection, version, ("a", 10), ("b", 4), ("c", 1))
        assert codes(response) == [NONE, NONE, NONE]
        assert 3_500 <= response.throttle_time_ms <= 4_000
        assert here.muted == 1


def test_a_throttle_is_not_longer_than_the_window_of_the_quota(here: World) -> None:
    here.everyone(controller_mutation_rate=1)
    with here.connect() as connection:
        assert create(connection, 7, ("a", 100)).throttle_time_ms == 0  # as in Kafka: the next request is refused
        for name in ("b", "c"):
            response = create(connection, 7, (name, 1))
            assert (codes(response), response.throttle_time_ms) == ([EXCEEDED], 10_000)
            here.broker.advance(10)


def test_refused_topics_do_not_use_the_quota(here: World) -> None:
    here.topic("there", SAVED_UP)
    here.everyone(controller_mutation_rate=1)
    with here.connect() as connection:
        for _ in range(3):
            response = create(connection, 7, ("there", SAVED_UP))
            assert (codes(response), response.throttle_time_ms) == ([EXISTS], 0)
        assert codes(create(connection, 7, ("new", SAVED_UP))) == [NONE]


@pytest.mark.parametrize("version", [2, 3])
def test_new_partitions_count(here: World, version: int) -> None:
    here.topic("t", 5)
    here.everyone(controller_mutation_rate=1)
    with here.connect() as connection:
        response = grow(connection, version, "t", 19)  # fourteen more
        assert (response.results[0].error_code, response.throttle_time_ms > 2_000) == (NONE, version < 3)
    with here.connect() as connection:
        response = grow(connection, version, "t", 20)
        assert response.results[0].error_code == (EXCEEDED if version >= 3 else NONE)
        assert response.throttle_time_ms > 1_000
        here.everyone()
        assert len(describe_topic(connection, "t").partitions) == (19 if version >= 3 else 20)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_deleted_partitions_count(here: World, version: int) -> None:
    here.topic("large", 14)
    here.topic("small", 1)
    here.everyone(controller_mutation_rate=1)
    with here.connect() as connection, here.connect() as other:
        response = delete(connection, version, "large")
        assert (response.responses[0].error_code, response.throttle_time_ms > 2_000) == (NONE, version < 5)
        response = delete(other, version, "small")
        assert response.responses[0].error_code == (EXCEEDED if version >= 5 else NONE)
        assert response.throttle_time_ms > 2_000


def test_an_unknown_topic_is_no_mutation(here: World) -> None:
    here.everyone(controller_mutation_rate=1)
    with here.connect() as connection:
        create(connection, 5, ("a", 12))
        here.broker.advance(0.5)
    with here.connect() as connection:
        response = delete(connection, 6, "no-such-topic")
        assert response.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_checked_creation_counts_as_in_kafka(here: World) -> None:
    here.everyone(controller_mutation_rate=1)
    with here.connect() as connection:
        assert codes(create(connection, 7, ("a", 13), validate_only=True)) == [NONE]
        assert codes(create(connection, 7, ("a", 13), validate_only=True)) == [EXCEEDED]


def test_topics_that_metadata_creates_count() -> None:
    with world({"num.partitions": 12}) as here:
        here.everyone(controller_mutation_rate=1)
        with here.connect() as connection:
            response = metadata(connection, ["by-itself"], auto_create=True)
            assert [len(topic.partitions) for topic in response.topics] == [12]
            assert 500 <= response.throttle_time_ms <= 1_000
            assert here.muted == 1


def test_without_a_quota_nothing_is_throttled(here: World) -> None:
    here.everyone(producer_byte_rate=1)
    with here.connect() as connection:
        response = create(connection, 7, ("a", 100))
        assert (codes(response), response.throttle_time_ms) == ([NONE], 0)
