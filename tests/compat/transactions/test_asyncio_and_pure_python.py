"""aiokafka and kafka-python as transactional producers: older versions of every request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced

from tests.compat.kafka_python import KafkaProducer
from tests.compat.transactions.test_confluent_kafka import TIMEOUT_S, read


@pytest.fixture
def name(unused_name: Callable[[], str]) -> str:
    return unused_name()


def test_aiokafka_commits_and_aborts(bootstrap: str, topic: str, name: str) -> None:
    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
            for number in range(6):
                try:
                    async with producer.transaction():
                        await producer.send_and_wait(topic, b"%d" % number, partition=0)
                        if number % 2:
                            raise KeyError(number)
                except KeyError:
                    pass

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT_S))
    assert read(bootstrap, topic) == [b"0", b"2", b"4"]


def test_aiokafka_is_fenced_by_its_successor(bootstrap: str, topic: str, name: str) -> None:
    async def scenario() -> None:
        zombie = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await zombie.start()
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"of the zombie", partition=0)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"mine", partition=0)
        await zombie.stop()

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT_S))
    assert read(bootstrap, topic) == [b"mine"]


def test_aiokafka_commits_offsets_within_a_transaction(bootstrap: str, topic: str, name: str) -> None:
    async def scenario() -> None:
        partition = AioTopicPartition(topic, 0)
        async with (
            AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer,
            AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=name, enable_auto_commit=False) as consumer,
        ):
            consumer.assign([partition])
            for offset, commit in ((4, True), (9, False)):
                await producer.begin_transaction()
                await producer.send_offsets_to_transaction({partition: offset}, name)
                await (producer.commit_transaction() if commit else producer.abort_transaction())
                assert await consumer.committed(partition) == 4

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT_S))


def test_kafka_python_commits_and_aborts(bootstrap: str, topic: str, name: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number, partition=0)
        producer.flush(TIMEOUT_S)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    assert read(bootstrap, topic) == [b"0", b"2"]
