"""aiokafka: administration and offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError, OffsetOutOfRangeError, for_code

from moldau.wire.errors import ErrorCode
from tests.compat import wire
from tests.compat.drivers import FETCH_WAIT_MS, AioKafka, Message, run
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

CLIENT = AioKafka()


@asynccontextmanager
async def administration(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@asynccontextmanager
async def reader(bootstrap: str) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=FETCH_WAIT_MS)
    async with consumer:
        yield consumer


# Topics ---------------------------------------------------------------------------------------------------------------


def test_topics_are_created_listed_grown_and_deleted(
    bootstrap: str, raw: RawConnection, unused_name: Callable[[], str]
) -> None:
    name = unused_name()

    async def work() -> None:
        async with administration(bootstrap) as admin:
            wanted = NewTopic(name, num_partitions=2, replication_factor=1, topic_configs={"retention.ms": "1000"})
            response = await admin.create_topics([wanted])
            assert [(topic, code, message) for topic, code, message, *_ in response.topic_errors] == [(name, 0, None)]
            wait_until(lambda: wire.is_served(raw, name, 2))
            assert name in await admin.list_topics()
            await admin.create_partitions({name: NewPartitions(total_count=3)})
            wait_until(lambda: wire.is_served(raw, name, 3))
            (described,) = await admin.describe_topics([name])
            assert sorted(partition["partition"] for partition in described["partitions"]) == [0, 1, 2]
            response = await admin.delete_topics([name])
            assert list(response.topic_error_codes) == [(name, 0)]

    run(work())
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wait_until(lambda: wire.describe_topic(raw, name).error_code == gone)


def test_an_impossible_topic_is_refused(bootstrap: str, topic: str, unused_name: Callable[[], str]) -> None:
    wanted = {
        NewTopic(topic, 1, 1): "TopicAlreadyExistsError",
        NewTopic(unused_name(), 0, 1): "InvalidPartitionsError",
        NewTopic(unused_name(), 1, 3): "InvalidReplicationFactorError",
        NewTopic(unused_name(), 1, 1, topic_configs={"no.such.setting": "1"}): "InvalidConfigurationError",
    }

    async def work() -> None:
        async with administration(bootstrap) as admin:
            for each, expected in wanted.items():
                response = await admin.create_topics([each])
                ((_, code, message),) = response.topic_errors
                assert for_code(code).__name__ == expected
                assert message
            response = await admin.delete_topics([unused_name()])
            ((_, code),) = response.topic_error_codes
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(InvalidPartitionsError):
                await admin.create_partitions({topic: NewPartitions(total_count=1)})

    run(work())


def test_the_cluster_is_described(bootstrap: str) -> None:
    async def work() -> None:
        async with administration(bootstrap) as admin:
            cluster = await admin.describe_cluster()
            (broker,) = cluster["brokers"]
            assert f"{broker['host']}:{broker['port']}" == bootstrap
            assert cluster["controller_id"] == broker["node_id"]

    run(work())


# Settings -------------------------------------------------------------------------------------------------------------


async def settings_of(admin: AIOKafkaAdminClient, topic: str) -> dict[str, Any]:
    (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    ((code, _, _, name, entries),) = response.resources
    assert (code, name) == (0, topic)
    return {entry[0]: entry[1] for entry in entries}


def test_settings_are_described_and_altered(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(configs={"segment.bytes": "2000000"})

    async def work() -> None:
        async with administration(bootstrap) as admin:
            assert (await settings_of(admin, topic))["segment.bytes"] == "2000000"
            change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "1000"})
            (response,) = await admin.alter_configs([change])
            assert [code for code, *_ in response.resources] == [0]
            found = await settings_of(admin, topic)
            while found["retention.ms"] != "1000":  # Apache Kafka applies the change with a short delay
                found = await settings_of(admin, topic)
            # This request replaces all settings of the topic.
            assert found["segment.bytes"] == "1073741824"
            bad = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "soon"})
            (response,) = await admin.alter_configs([bad])
            assert [code for code, *_ in response.resources] == [ErrorCode.INVALID_CONFIG]

    run(work())


# Offsets --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def timed(bootstrap: str, topic: str) -> str:
    times = [1_000, 3_000, 2_000, 3_000]
    CLIENT.produce(bootstrap, topic, [Message(b"key", b"value", (), time) for time in times])
    return topic


def test_offsets_are_found_by_time(bootstrap: str, timed: str) -> None:
    place = TopicPartition(timed, 0)

    async def work() -> None:
        async with reader(bootstrap) as consumer:
            for asked, expected in ((0, (0, 1_000)), (1_001, (1, 3_000)), (3_000, (1, 3_000))):
                found = (await consumer.offsets_for_times({place: asked}))[place]
                assert (found.offset, found.timestamp) == expected
            assert (await consumer.offsets_for_times({place: 3_001}))[place] is None

    run(work())


def test_the_ends_of_a_partition_are_known_and_records_deleted(bootstrap: str, timed: str) -> None:
    place = TopicPartition(timed, 0)

    async def work() -> None:
        async with reader(bootstrap) as consumer, administration(bootstrap) as admin:
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 4}
            assert await admin.delete_records({place: RecordsToDelete(before_offset=3)}) == {place: 3}
            assert await consumer.beginning_offsets([place]) == {place: 3}
            with pytest.raises(OffsetOutOfRangeError):
                await admin.delete_records({place: RecordsToDelete(before_offset=99)})

    run(work())


# Reading and writing --------------------------------------------------------------------------------------------------


def test_a_reader_seeks_back_and_forth(bootstrap: str, timed: str) -> None:
    place = TopicPartition(timed, 0)

    async def work() -> None:
        async with reader(bootstrap) as consumer:
            consumer.assign([place])
            for offset in (0, 3, 1, 2):
                consumer.seek(place, offset)
                assert (await consumer.getone(place)).offset == offset
            await consumer.seek_to_end(place)
            assert await consumer.position(place) == 4

    run(work())


def test_delivery_reports_have_partition_and_offset(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
            for number in range(20):
                report = await producer.send_and_wait(topic, b"%d" % number, partition=0)
                assert (report.topic, report.partition, report.offset) == (topic, 0, number)

    run(work())


def test_a_batch_made_by_hand_is_written_whole(bootstrap: str, topic: str, raw: RawConnection) -> None:
    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="snappy") as producer:
            batch = producer.create_batch()
            for number in range(100):
                assert batch.append(key=b"key", value=b"%d" % number, timestamp=None) is not None
            await (await producer.send_batch(batch, topic, partition=0))

    run(work())
    ((header, _),) = wire.stored_batches(raw, topic)
    assert header.count == 100
