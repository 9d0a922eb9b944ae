"""Consumer when leaders move, logs are truncated, fetch sessions end and permissions change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.aio import Consumer
from moldau.client.errors import (
    CorruptRecord,
    LogTruncated,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicAuthorizationFailed,
)
from moldau.client.loop_thread import new_loop
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.fetch import FetchRequest, FetchResponse
from tests.client.consumer.conftest import PATIENCE_S
from tests.client.consumer.simulated_cluster import TOPIC, Cluster, fetched, running

SETTINGS = {
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 20,
    "retry_backoff_ms": 10,
    "reconnect_backoff_ms": 10,
    "metadata_max_age_ms": 300_000,
}


def on_a_cluster(test: Callable[[Cluster, Consumer], Awaitable[None]], **settings: Any) -> None:
    @asynccontextmanager
    async def both() -> AsyncIterator[tuple[Cluster, Consumer]]:
        async with running() as cluster:
            options = {**SETTINGS, **settings}
            async with Consumer(bootstrap_servers=cluster.bootstrap, **options) as consumer:
                await consumer.assign([(TOPIC, 0)])
                yield cluster, consumer

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S), both() as (cluster, consumer):
            await test(cluster, consumer)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(bounded())


async def take(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async for record in consumer:
        found.append(record.value)
        if len(found) == count:
            break
    return found


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % i for i in range(start, stop)]


def test_reading_continues_at_a_new_leader() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        for start in range(0, 50, 10):
            cluster.write(*numbers(start, start + 10))
            assert await take(consumer, 10) == numbers(start, start + 10)
            cluster.move(3 - cluster.leader)
        assert set(cluster.fetched_from) == {1, 2}
        assert cluster.asked, "the consumer must check its position at the new leader"

    on_a_cluster(test, max_partition_fetch_bytes=200)


def test_a_broker_that_names_the_new_leader_is_believed_without_asking_for_metadata() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        cluster.write(*numbers(0, 5))
        assert await take(consumer, 5) == numbers(0, 5)
        cluster.names_leader = True
        cluster.move(2)
        cluster.write(*numbers(5, 10))
        before = cluster.described
        assert await take(consumer, 5) == numbers(5, 10)
        assert cluster.described == before

    on_a_cluster(test, retry_backoff_ms=5_000, retry_backoff_max_ms=5_000)


def test_a_truncated_log_is_read_on_from_the_truncation_offset() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        cluster.write(*numbers(0, 10))
        assert await take(consumer, 10) == numbers(0, 10)
        del cluster.logs[2].records[6:]
        cluster.move(2)
        cluster.logs[2].append(cluster.epoch, *(b"new %d" % i for i in range(6, 15)))
        assert await take(consumer, 9) == [b"new %d" % i for i in range(6, 15)]

    on_a_cluster(test)


def test_with_auto_offset_reset_none_a_truncation_is_an_error_until_a_seek() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        cluster.write(*numbers(0, 10))
        await consumer.seek((TOPIC, 0), 0)
        assert await take(consumer, 10) == numbers(0, 10)
        del cluster.logs[2].records[6:]
        cluster.move(2)
        cluster.logs[2].append(cluster.epoch, b"new 6")
        for _ in range(2):
            with pytest.raises(LogTruncated, match="truncated to offset 6") as cut:
                await take(consumer, 1)
            assert (cut.value.partition, cut.value.position, cut.value.truncated_to) == ((TOPIC, 0), 10, 6)
            assert isinstance(cut.value, OffsetOutOfRange)
        await consumer.seek((TOPIC, 0), 6)
        assert await take(consumer, 1) == [b"new 6"]

    on_a_cluster(test, auto_offset_reset="none")


def test_buffered_records_beyond_a_truncation_are_fetched_again() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        cluster.write(*numbers(0, 10))
        assert await take(consumer, 3) == numbers(0, 3)  # the other seven records are in the buffer
        del cluster.logs[2].records[6:]
        cluster.move(2)
        cluster.logs[2].append(cluster.epoch, *(b"new %d" % i for i in range(6, 9)))
        core = consumer._started_core
        assert core is not None
        await core.network.refreshed(asyncio.get_running_loop().time() + PATIENCE_S)
        assert await take(consumer, 6) == [*numbers(3, 6), *(b"new %d" % i for i in range(6, 9))]

    on_a_cluster(test)


def test_a_lost_fetch_session_loses_no_record() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        epochs: list[int] = []

        def spoil(node: int, request: FetchRequest) -> FetchResponse | None:
            epochs.append(request.session_epoch)
            if len(epochs) % 4 == 0 and request.session_epoch:
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if not request.topics:
                return None
            asked = request.topics[0].partitions[0]
            log = cluster.logs[node]
            data = log.read(asked.fetch_offset, 100)
            answer = fetched(high_watermark=len(log.records), last_stable_offset=len(log.records), records=data)
            answer.session_id = 9
            return answer if data else None

        cluster.spoil = spoil
        cluster.write(*numbers(0, 40))
        assert await take(consumer, 40) == numbers(0, 40)
        assert epochs.count(0) > 1 and max(epochs) >= 2

    on_a_cluster(test)


def test_a_preferred_replica_is_read_until_it_fails() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        def spoil(node: int, request: FetchRequest) -> FetchResponse | None:
            if not request.topics:
                return None
            asked = request.topics[0].partitions[0]
            if node == 1 and asked.fetch_offset < 20:
                return fetched(preferred_read_replica=2, high_watermark=20, last_stable_offset=20)
            if node == 2 and asked.fetch_offset >= 20:
                return fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            if node == 2:
                cluster.fetched_from.append(2)
                log = cluster.logs[2]
                end = len(log.records)
                return fetched(high_watermark=end, last_stable_offset=end, records=log.read(asked.fetch_offset, 500))
            return None

        cluster.spoil = spoil
        cluster.write(*numbers(0, 30))
        assert await take(consumer, 30) == numbers(0, 30)
        assert {1, 2} == set(cluster.fetched_from)

    on_a_cluster(test, client_rack="here")


def test_an_unreachable_preferred_replica_is_not_tried_repeatedly() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        racks: list[str] = []

        def spoil(node: int, request: FetchRequest) -> FetchResponse | None:
            racks.append(request.rack_id)
            if request.rack_id and request.topics:  # the leader names a preferred replica that does not run
                return fetched(preferred_read_replica=9, high_watermark=5, last_stable_offset=5)
            return None

        cluster.spoil = spoil
        cluster.write(*numbers(0, 5))
        assert await take(consumer, 5) == numbers(0, 5)
        assert racks.count("here") == 1

    on_a_cluster(test, client_rack="here")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}, TopicAuthorizationFailed),
        ({"error_code": ErrorCode.CORRUPT_MESSAGE}, CorruptRecord),
        ({"records": bytes(40)}, RecordTooLarge),
    ],
)
def test_lasting_fetch_errors_are_raised_and_reading_continues_when_they_end(
    answer: dict[str, Any], error: type[Exception]
) -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        cluster.write(*numbers(0, 3))
        assert await take(consumer, 3) == numbers(0, 3)
        cluster.spoil = lambda node, request: fetched(**answer) if request.topics else None
        for _ in range(2):
            with pytest.raises(error, match=TOPIC):
                await take(consumer, 1)
        cluster.spoil = lambda node, request: None
        cluster.write(b"3")
        for _ in range(5):  # a fetch answer with the earlier error may still arrive
            try:
                assert await take(consumer, 1) == [b"3"]
                break
            except error:
                continue
        else:
            pytest.fail("the consumer did not recover")

    on_a_cluster(test)


def test_retriable_fetch_errors_are_retried() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        passing = [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.OFFSET_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
        ]
        for number, code in enumerate(passing):
            told = [fetched(error_code=code), FetchResponse(error_code=code)]
            cluster.spoil = lambda node, request, told=told: told.pop() if told and request.topics else None
            cluster.write(b"%d" % number)
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                told.pop()  # an error of the whole request is not known to be retriable
            assert await take(consumer, 1) == [b"%d" % number]

    on_a_cluster(test)


def test_a_topic_that_may_not_be_read_is_an_error_of_poll() -> None:
    async def test(cluster: Cluster, consumer: Consumer) -> None:
        cluster.topic_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(TopicAuthorizationFailed, match=TOPIC):
            await take(consumer, 1)
        cluster.topic_error = ErrorCode.NONE
        cluster.write(b"0")
        for _ in range(20):
            try:
                assert await take(consumer, 1) == [b"0"]
                break
            except TopicAuthorizationFailed:
                continue
        else:
            pytest.fail("the consumer did not recover")

    on_a_cluster(test)
