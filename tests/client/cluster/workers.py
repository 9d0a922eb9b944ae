"""Clients in threads that work while brokers restart, and record what they see."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import aiokafka
import confluent_kafka
from aiokafka.errors import KafkaError as AiokafkaError

from moldau import Admin, Consumer, Producer, TopicPartition
from moldau.client.errors import MoldauError, ProducerFenced
from tests.client.fixtures.clients import QUIET
from tests.support.waiting import wait_until

PARTITIONS = 3
POLL_S = 0.1
RETRY_S = 0.01
"""The pause after a retriable error."""

Seen = dict[int, dict[int, bytes]]
"""Values by partition and offset."""


class Worker(threading.Thread):
    """A client that works until it is stopped. Unexpected errors are kept for the test."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.enough = threading.Event()
        self.failure: BaseException | None = None
        self.seen: Seen = {partition: {} for partition in range(PARTITIONS)}
        self.rewrites: list[str] = []
        """Offsets that were seen with two different values."""

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failure = error

    def work(self) -> None:
        raise AssertionError("subclasses define the work")

    def saw(self, partition: int, offset: int, value: bytes) -> None:
        before = self.seen[partition].setdefault(offset, value)
        if before != value:
            self.rewrites.append(f"{self.name}: {partition}-{offset} was {before!r} and is {value!r}")

    @property
    def count(self) -> int:
        return sum(map(len, self.seen.values()))

    def stop(self) -> None:
        self.enough.set()
        self.join(30)
        assert not self.is_alive(), f"{self.name} does not end"


def wait_for_progress_of_all(workers: Sequence[Worker], by: int = 20) -> None:
    """Return when each worker has seen this many more records."""
    wanted = [(one, one.count + by) for one in workers]
    for one, count in wanted:
        wait_until(lambda one=one, count=count: one.failure or one.count >= count or one.enough.wait(RETRY_S))
        if one.failure is not None:
            raise AssertionError(f"{one.name} has failed") from one.failure


class Writer(Worker):
    """Writes numbered records with acks=all; `seen` has the acknowledged ones."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__("writer")
        self._servers = bootstrap
        self._topic = topic

    def work(self) -> None:
        with Producer(bootstrap_servers=self._servers, acks="all", linger_ms=0, retry_backoff_ms=10) as producer:
            number = 0
            while not self.enough.is_set():
                values = [b"%d" % (number + place) for place in range(PARTITIONS)]
                futures = [producer.send(self._topic, value, partition=at) for at, value in enumerate(values)]
                for value, future in zip(values, futures, strict=True):
                    stored = future.result(30)
                    self.saw(stored.partition, stored.offset, value)
                number += PARTITIONS
                self.enough.wait(RETRY_S)


# -- readers: group members that commit the records they have seen -----------------------------------------------------


def _member_settings(bootstrap: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }


class OwnReader(Worker):
    def __init__(self, bootstrap: str, topic: str, group: str, **settings: Any) -> None:
        super().__init__(f"own client in {group}")
        self._topic = topic
        self._settings = {**_member_settings(bootstrap, group), "retry.backoff.ms": 10, **settings}

    def work(self) -> None:
        with Consumer(self._topic, **_keywords(self._settings)) as consumer:
            while not self.enough.is_set():
                for record in consumer.poll(POLL_S):
                    self.saw(record.partition, record.offset, record.value)
                # the partition was revoked: another member reads the records again
                with contextlib.suppress(MoldauError):
                    consumer.commit(timeout=10)


class ConfluentReader(Worker):
    def __init__(self, bootstrap: str, topic: str, group: str, **settings: Any) -> None:
        super().__init__(f"confluent-kafka in {group}")
        self._topic = topic
        self._settings = {**_member_settings(bootstrap, group), "fetch.wait.max.ms": 50, **QUIET, **settings}

    def work(self) -> None:
        consumer = confluent_kafka.Consumer(self._settings)
        try:
            consumer.subscribe([self._topic])
            while not self.enough.is_set():
                messages = [one for one in consumer.consume(100, POLL_S) if one.error() is None]
                for one in messages:
                    self.saw(one.partition(), one.offset(), one.value())
                if messages:
                    with contextlib.suppress(confluent_kafka.KafkaException):
                        consumer.commit(asynchronous=False)
        finally:
            consumer.close()


class AiokafkaReader(Worker):
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__(f"aiokafka in {group}")
        self._arguments = (bootstrap, topic, group)

    def work(self) -> None:
        asyncio.run(self._work(*self._arguments))

    async def _work(self, bootstrap: str, topic: str, group: str) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=20,
        )
        await consumer.start()
        try:
            while not self.enough.is_set():
                found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                for records in found.values():
                    for one in records:
                        self.saw(one.partition, one.offset, one.value)
                if found:
                    with contextlib.suppress(AiokafkaError):
                        await consumer.commit()
        finally:
            await consumer.stop()


# -- copiers: records and their offsets in one transaction -------------------------------------------------------------


class OwnCopier(Worker):
    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        super().__init__(f"own copier {name}")
        self._arguments = (bootstrap, source, target, name)

    def work(self) -> None:
        bootstrap, source, target, name = self._arguments
        reading = {**_member_settings(bootstrap, name), "isolation.level": "read_committed", "retry.backoff.ms": 10}
        with (
            Producer(
                {"bootstrap.servers": bootstrap, "retry.backoff.ms": 10, "transactional.id": name, "linger.ms": 0}
            ) as producer,
            Consumer(source, **_keywords(reading)) as consumer,
        ):
            producer.init_transactions()
            while not self.enough.is_set():
                records = consumer.poll(POLL_S)
                if not records:
                    continue
                places = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                try:
                    with producer.transaction():
                        for one in records:
                            producer.send(target, one.value, partition=one.partition)
                        producer.send_offsets(places, consumer.group_metadata())
                except ProducerFenced:
                    raise
                except MoldauError:
                    _rewind_own(consumer)  # the transaction was aborted: read again from the last committed offset
                else:
                    for one in records:
                        self.saw(one.partition, one.offset, one.value)


def _rewind_own(consumer: Consumer) -> None:
    assigned = consumer.assignment()
    for place, committed in consumer.committed(*assigned, timeout=30).items():
        if committed is None:
            consumer.seek_to_beginning(place)
        else:
            consumer.seek(place, committed)


WOKEN = {"connections.max.idle.ms": 2000}
"""Workaround for librdkafka (at least 2.10 to 2.16), which may never send the offsets of a transaction, even after all
brokers are back. It drops a broker that Metadata no longer names, but keeps it as the group's coordinator. It then
waits for a connection that nothing opens, and the time-out of the call has no effect (its issues 5511 and 5456). It
looks again when any of its connections opens or closes, so closing an idle connection is enough."""


class ConfluentCopier(Worker):
    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        super().__init__(f"confluent-kafka copier {name}")
        self._arguments = (bootstrap, source, target, name)

    def work(self) -> None:
        bootstrap, source, target, name = self._arguments
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, **WOKEN, **QUIET}
        )
        consumer = confluent_kafka.Consumer(
            {
                **_member_settings(bootstrap, name),
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                **QUIET,
            }
        )
        producer.init_transactions(30)
        consumer.subscribe([source])
        try:
            while not self.enough.is_set():
                messages = [one for one in consumer.consume(100, POLL_S) if one.error() is None]
                if messages and self._copy(producer, consumer, messages, target):
                    for one in messages:
                        self.saw(one.partition(), one.offset(), one.value())
        finally:
            consumer.close()

    def _copy(self, producer: Any, consumer: Any, messages: list[Any], target: str) -> bool:
        places = {(one.topic(), one.partition()): one.offset() + 1 for one in messages}
        offsets = [confluent_kafka.TopicPartition(*place, offset) for place, offset in places.items()]
        producer.begin_transaction()
        try:
            for one in messages:
                producer.produce(target, one.value(), partition=one.partition())
            _insist(lambda: producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30))
            _insist(lambda: producer.commit_transaction(30))
        except confluent_kafka.KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _insist(lambda: producer.abort_transaction(30))
            for place in consumer.committed(consumer.assignment(), 30):
                with contextlib.suppress(confluent_kafka.KafkaException):  # the partition was revoked in the meantime
                    consumer.seek(
                        place if place.offset >= 0 else confluent_kafka.TopicPartition(place.topic, place.partition, 0)
                    )
            return False
        return True


def _insist(call: Any) -> None:
    """Repeat a call while librdkafka reports a retriable error."""
    while True:
        try:
            call()
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


# -- offsets -----------------------------------------------------------------------------------------------------------


class OffsetWatcher(Worker):
    """Reads the committed offsets of groups repeatedly."""

    def __init__(self, bootstrap: str, groups: list[str]) -> None:
        super().__init__("offset watcher")
        self._servers = bootstrap
        self._groups = groups
        self.looks = 0
        self.went_back: list[str] = []

    def work(self) -> None:
        known: dict[tuple[str, TopicPartition], int] = {}
        with Admin(bootstrap_servers=self._servers, retry_backoff_ms=10) as admin:
            while not self.enough.is_set():
                for group in self._groups:
                    with contextlib.suppress(MoldauError):
                        for place, found in admin.list_group_offsets(group).items():
                            before = known.get((group, place), -1)
                            if found.offset < before:
                                self.went_back.append(f"{group} {place}: from {before} to {found.offset}")
                            known[group, place] = found.offset
                            self.looks += 1
                self.enough.wait(RETRY_S)


@contextmanager
def working(*workers: Worker) -> Iterator[None]:
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.enough.set()
        for worker in workers:
            worker.stop()


def _keywords(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace(".", "_"): value for name, value in settings.items()}
