"""Transactions as applications use them, and as consumers of other clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from moldau import Admin, OffsetAndMetadata, Producer, TopicPartition, aio
from moldau.client.errors import (
    ConcurrentUseError,
    IllegalStateError,
    InvalidTransactionTimeout,
    ProducerFenced,
    RecordTooLarge,
)
from tests.client.core.support import run
from tests.client.transactions.reading import committed
from tests.support.waiting import loop_turns

Names = Callable[[], str]


@pytest.fixture
def producer(bootstrap: str, unused_name: Names) -> Iterator[Producer]:
    with Producer(bootstrap_servers=bootstrap, transactional_id=unused_name(), linger_ms=5) as made:
        yield made


class Oops(Exception):
    pass


def test_records_of_a_block_become_visible_together_and_none_if_it_raises(
    bootstrap: str, new_topic: Callable[..., str], producer: Producer
) -> None:
    topic = new_topic(partitions=3)
    with producer.transaction():
        futures = [producer.send(topic, b"first", partition=partition) for partition in range(3)]
    assert [future.result(0).partition for future in futures] == [0, 1, 2]

    def unlucky() -> None:
        with producer.transaction():
            producer.send(topic, b"on the wire", partition=0)
            producer.flush()
            producer.send(topic, b"waiting", partition=1)
            raise Oops

    with pytest.raises(Oops):
        unlucky()
    with producer.transaction():
        producer.send(topic, b"second", partition=2)
    assert committed(bootstrap, topic, 3) == [b"first", b"first", b"first", b"second"]
    assert b"on the wire" in committed(bootstrap, topic, 3, level="read_uncommitted")


def test_records_of_an_open_transaction_are_hidden_until_it_commits(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"value").result(30)
    assert committed(bootstrap, topic) == []
    producer.commit_transaction()
    assert committed(bootstrap, topic) == [b"value"]


def test_a_record_that_was_given_up_by_an_abort_says_so(topic: str, bootstrap: str, unused_name: Names) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=unused_name(), linger_ms=60_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        future = producer.send(topic, b"lingers")
        producer.abort_transaction()
        with pytest.raises(IllegalStateError, match="its transaction was aborted"):
            future.result(0)
        with producer.transaction():
            producer.send(topic, b"next")
    assert committed(bootstrap, topic) == [b"next"]


def test_a_newer_producer_of_the_same_id_fences_the_older(bootstrap: str, topic: str, unused_name: Names) -> None:
    name = unused_name()
    with (
        Producer(bootstrap_servers=bootstrap, transactional_id=name) as zombie,
        Producer(bootstrap_servers=bootstrap, transactional_id=name) as heir,
    ):
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, b"of the zombie").result(30)
        heir.init_transactions()
        with pytest.raises(ProducerFenced):
            zombie.commit_transaction()
        for call in (zombie.begin_transaction, zombie.abort_transaction, lambda: zombie.send(topic, b"x")):
            with pytest.raises(ProducerFenced):
                call()
        with heir.transaction():
            heir.send(topic, b"of the heir")
    assert committed(bootstrap, topic) == [b"of the heir"]


def test_a_fenced_producer_cannot_write_any_more(bootstrap: str, topic: str, unused_name: Names) -> None:
    name = unused_name()
    with (
        Producer(bootstrap_servers=bootstrap, transactional_id=name) as zombie,
        Producer(bootstrap_servers=bootstrap, transactional_id=name) as heir,
    ):
        zombie.init_transactions()
        heir.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, b"too late")
        with pytest.raises(Exception, match=r"epoch|FENCED|newer producer"):
            zombie.commit_transaction()
    assert committed(bootstrap, topic, level="read_uncommitted") == []


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    bootstrap: str, topic: str, producer: Producer, unused_name: Names
) -> None:
    group = unused_name()
    place = TopicPartition(topic, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        with producer.transaction():
            producer.send(topic, b"value")
            producer.send_offsets({place: 3}, group)
        assert admin.list_group_offsets(group, require_stable=True)[place].offset == 3
        producer.begin_transaction()
        producer.send_offsets({place: OffsetAndMetadata(9, "never")}, group)
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets({}, group)
        assert admin.list_group_offsets(group, require_stable=True)[place].offset == 3
        with producer.transaction():
            producer.send_offsets({place: OffsetAndMetadata(4, "note")}, group)
        assert admin.list_group_offsets(group, require_stable=True)[place] == OffsetAndMetadata(4, "note")


def test_a_transaction_without_records_commits_and_aborts(producer: Producer) -> None:
    with producer.transaction():
        pass
    producer.begin_transaction()
    producer.abort_transaction()
    with producer.transaction():
        pass


def test_calls_in_the_wrong_order_are_refused_and_change_nothing(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(IllegalStateError, match=r"call init_transactions\(\) first"):
            call()
    producer.init_transactions()
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        producer.send(topic, b"outside")
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        producer.send_offsets({TopicPartition(topic, 0): 1}, "group")
    producer.begin_transaction()
    with pytest.raises(IllegalStateError, match="a transaction is open"):
        producer.begin_transaction()
    producer.send(topic, b"inside")
    producer.commit_transaction()
    assert committed(bootstrap, topic) == [b"inside"]


def test_a_producer_without_a_transactional_id_has_no_transactions(bootstrap: str) -> None:
    with (
        Producer(bootstrap_servers=bootstrap) as producer,
        pytest.raises(IllegalStateError, match=r"set transactional\.id"),
    ):
        producer.init_transactions()


def test_a_time_out_that_the_broker_does_not_allow_is_refused(bootstrap: str, unused_name: Names) -> None:
    with (
        Producer(
            bootstrap_servers=bootstrap, transactional_id=unused_name(), transaction_timeout_ms=2**31 - 1
        ) as producer,
        pytest.raises(InvalidTransactionTimeout),
    ):
        producer.init_transactions()


def test_a_record_that_cannot_be_stored_fails_its_transaction_and_no_other(
    bootstrap: str, new_topic: Callable[..., str], producer: Producer
) -> None:
    topic = new_topic(configs={"max.message.bytes": "1000"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"small").result(30)
    producer.send(topic, bytes(5_000))
    with pytest.raises(RecordTooLarge):
        producer.commit_transaction()
    with pytest.raises(IllegalStateError, match="has failed and must be aborted"):
        producer.send(topic, b"more")
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"after")
    assert committed(bootstrap, topic) == [b"after"]


def test_threads_fill_one_transaction_together(
    bootstrap: str, new_topic: Callable[..., str], producer: Producer
) -> None:
    topic = new_topic(partitions=2)
    with producer.transaction(), ThreadPoolExecutor(4) as threads:
        sends = [threads.submit(producer.send, topic, b"%d" % number) for number in range(400)]
        for send in sends:
            send.result()
    assert sorted(committed(bootstrap, topic, 2), key=int) == [b"%d" % number for number in range(400)]


def test_arrow_rows_are_part_of_the_transaction(bootstrap: str, topic: str, producer: Producer) -> None:
    table = pa.table({"value": [b"%d" % number for number in range(2_000)]})
    producer.init_transactions()
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        producer.send_batch(topic, table)
    producer.begin_transaction()
    producer.send_batch(topic, table).result(30)
    producer.abort_transaction()
    with producer.transaction():
        producer.send_batch(topic, table.slice(0, 5))
    assert committed(bootstrap, topic) == [b"0", b"1", b"2", b"3", b"4"]


def test_closing_aborts_the_open_transaction_so_that_readers_continue(
    bootstrap: str, topic: str, unused_name: Names
) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=unused_name()) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"left open").result(30)
    with Producer(bootstrap_servers=bootstrap) as other:
        other.send(topic, b"after it").result(30)
    assert committed(bootstrap, topic) == [b"after it"]


# asyncio --------------------------------------------------------------------------------------------------------------


def test_transactions_with_asyncio(bootstrap: str, topic: str, unused_name: Names) -> None:
    async def unlucky(producer: aio.Producer) -> None:
        async with producer.transaction():
            await (await producer.send(topic, b"two"))
            raise Oops

    async def main() -> None:
        async with aio.Producer(bootstrap_servers=bootstrap, transactional_id=unused_name()) as producer:
            async with producer.transaction():
                await producer.send(topic, b"one")
            with pytest.raises(Oops):
                await unlucky(producer)
            await producer.begin_transaction()
            await producer.send(topic, b"three")
            await producer.send_offsets({TopicPartition(topic, 0): 2}, unused_name())
            await producer.commit_transaction()

    run(main())
    assert committed(bootstrap, topic) == [b"one", b"three"]


def test_a_transactional_producer_that_was_not_started_raises(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        producer = aio.Producer(bootstrap_servers=bootstrap, transactional_id="never started")
        for call in (producer.init_transactions(), producer.send_batch(topic, pa.table({"value": [b""]}))):
            with pytest.raises(IllegalStateError, match="was not started"):
                await call

    run(main())


def test_a_cancelled_block_aborts_and_a_cancelled_commit_can_be_made_again(
    bootstrap: str, topic: str, unused_name: Names
) -> None:
    async def main() -> None:
        async with aio.Producer(bootstrap_servers=bootstrap, transactional_id=unused_name()) as producer:
            entered = asyncio.Event()

            async def block() -> None:
                async with producer.transaction():
                    await (await producer.send(topic, b"cancelled"))
                    entered.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(block())
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

            await producer.begin_transaction()
            await producer.send(topic, b"committed")
            commit = asyncio.create_task(producer.commit_transaction())
            await loop_turns()
            with pytest.raises(ConcurrentUseError, match="while commit_transaction"):
                await producer.abort_transaction()
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            with pytest.raises(IllegalStateError, match="it may have happened already"):
                await producer.abort_transaction()
            await producer.commit_transaction()

    run(main())
    assert committed(bootstrap, topic) == [b"committed"]
