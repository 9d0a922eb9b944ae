"""A producer's parts put together, for both of its faces: the asyncio one and the blocking one.

`prepare` turns what `send` was given into bytes and a partition, in the caller's thread. What cannot be taken at once
(a topic that is not known yet, full memory) is waited for: `await_topic` and `await_partition` in the loop, `memory` by
whoever wants it. All waits of one `send` together take at most max.block.ms.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from moldau.client.errors import (
    BufferFull,
    ClosedError,
    IllegalStateError,
    MoldauError,
    RecordTooLarge,
    SerializationError,
    TimedOut,
    error_for,
)
from moldau.client.metadata import ClusterMetadata, PartitionMetadata
from moldau.client.network import Network
from moldau.client.producer.accumulator import Refusal
from moldau.client.producer.config import ProducerConfig
from moldau.client.producer.engine import Accumulator, Batch, RecordFuture
from moldau.client.producer.futures import DeliveryCallback
from moldau.client.producer.interceptors import Interceptors, ProducerRecord
from moldau.client.producer.memory import MemoryRow
from moldau.client.producer.partitioners import PartitionChoice, partitioner_of
from moldau.client.producer.sender import Sender, Transactions
from moldau.client.producer.transactions import SenderSide, TransactionManager, transactions_of
from moldau.client.serialization import SERIALIZATION_FAILURES, Serializer, serializer_of
from moldau.client.settings import PRODUCER, ClientSettings
from moldau.host.clock import SystemClock
from moldau.host.processes import in_forked_children
from moldau.records.model import Bytes
from moldau.wire.errors import ErrorCode

HeadersGiven = Mapping[str, Bytes | None] | Iterable[tuple[str, Bytes | None]]


class Prepared:
    """A record as the accumulator takes it."""

    __slots__ = (
        "headers",
        "key",
        "key_given",
        "on_delivery",
        "partition",
        "timestamp",
        "topic",
        "value",
        "value_given",
    )

    def __init__(
        self,
        topic: str,
        value: Bytes | None,
        key: Bytes | None,
        partition: int | None,
        timestamp: int | None,
        headers: Iterable[tuple[str, Bytes | None]],
        on_delivery: DeliveryCallback | None,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        self.timestamp = timestamp
        self.headers = headers
        self.on_delivery = on_delivery
        self.key_given: Any = key  # before they were serialised: partitioners may look at them
        self.value_given: Any = value


class ProducerCore:
    """Settings, accumulator, network and sender of one producer."""

    def __init__(self, mapping: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> None:
        self.settings = settings = ClientSettings.of(PRODUCER, mapping, keywords)
        self.config = config = ProducerConfig.of(settings)
        self._key_serializer = serializer_of("key.serializer", settings["key.serializer"])
        self._value_serializer = serializer_of("value.serializer", settings["value.serializer"])
        self.partitioner = partitioner_of(settings["partitioner.class"])
        self.interceptors = Interceptors(settings["interceptor.classes"])
        self.clock = SystemClock()
        self.network = Network(settings)
        self.accumulator = Accumulator(
            config.batch_size,
            config.linger_s,
            config.buffer_memory,
            config.max_request_size,
            self._wake_own_loop,
            self._refused,
            config.ignore_keys,
        )
        self.memory = MemoryRow(self.accumulator)
        self.transactions: Transactions = transactions_of(settings, self.network)
        self.sender: Sender | None = None
        self.slow_path: Callable[[Refusal, Prepared], RecordFuture] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._why_closed = "the producer is closed"
        _producers.add(self)

    @property
    def plain(self) -> bool:
        """Whether records need nothing but the accumulator: then `send` can be its `send`."""
        return (
            self._key_serializer is None
            and self._value_serializer is None
            and self.partitioner is None
            and not self.interceptors
            and self.transactions.transactional_id is None
        )

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.sender = Sender(self.network, self.config, self.accumulator, self.transactions, self.memory.freed)
        if isinstance(self.transactions, TransactionManager):
            self.transactions.attach(SenderSide(self._flush_all, self.sender.resume, self.sender.fail_waiting))
        self.network.on_metadata(self._metadata_changed)
        await self.network.start()

    async def flush(self) -> None:
        """Wait until the fate of all records that were sent so far is known."""
        assert self.sender is not None
        self.accumulator.hurry()
        self.sender.run()
        await settled(self.accumulator.unfinished())

    async def _flush_all(self) -> None:
        """Wait until there is no record of unknown fate, also of those that came meanwhile."""
        while self.accumulator.unfinished():
            await self.flush()

    async def close(self, timeout: float | None) -> None:
        """Send what there is, for at most so many seconds; give up the rest; end all connections."""
        self.refuse_new("the producer is closed")
        try:
            if self.sender is not None:
                async with asyncio.timeout(timeout):
                    if isinstance(self.transactions, TransactionManager):
                        await self.transactions.close()
                    await self.flush()
        except TimeoutError:
            pass
        finally:
            if self.sender is not None:
                await self.sender.stop()
                self.sender.fail_all(ClosedError("the producer was closed before the record was delivered"))
            await self.network.close()
            self.interceptors.close()

    def wake(self) -> None:
        """Have the sender look: something has changed that nobody tells it of. From any thread that may send."""
        self.accumulator.wake()

    def refuse_new(self, why: str) -> None:
        """Take no more records."""
        self._why_closed = why
        self.accumulator.closed = True
        self.memory.freed()

    # -- a record's way in -----------------------------------------------------------------------------------------

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | None,
        headers: HeadersGiven | None,
        on_delivery: DeliveryCallback | None,
    ) -> Prepared:
        """Interceptors and serialisers, in the caller's thread."""
        self.transactions.check_send()
        if self.interceptors:
            record = self.interceptors.on_send(ProducerRecord(topic, value, key, partition, timestamp, headers))
            topic, value, key, partition, timestamp, headers = record
            on_delivery = self.interceptors.with_acknowledgement(on_delivery)
        prepared = Prepared(
            topic,
            self._serialize(topic, "value", self._value_serializer, value),
            self._serialize(topic, "key", self._key_serializer, key),
            partition,
            timestamp,
            tuple(headers.items()) if isinstance(headers, Mapping) else headers or (),
            on_delivery,
        )
        prepared.key_given = key
        prepared.value_given = value
        return prepared

    def append(self, record: Prepared, has_waited: bool = False) -> RecordFuture | Refusal:
        """Hand it to the accumulator. Never waits."""
        if self.partitioner is not None and record.partition is None:
            queues = self.accumulator.topics.get(record.topic)
            if queues is None:
                return Refusal.CLOSED if self.accumulator.closed else Refusal.UNKNOWN_TOPIC
            record.partition = self.partitioner.partition(
                record.topic,
                record.key_given,
                record.key,  # type: ignore[arg-type]
                record.value_given,
                record.value,  # type: ignore[arg-type]
                PartitionChoice(queues.count, queues.available),
            )
        return self.accumulator.append(
            record.topic,
            record.value,
            record.key,
            record.partition,
            record.timestamp,
            record.headers,
            record.on_delivery,
            has_waited,
        )

    def raise_refusal(self, refusal: Refusal, record: Prepared) -> NoReturn:
        """The error for a record that cannot be taken, now or later."""
        where = f"topic {record.topic!r}"
        match refusal:
            case Refusal.CLOSED:
                raise ClosedError(f"{self._why_closed}: nothing more can be sent to {where}")
            case Refusal.TOO_LARGE:
                raise RecordTooLarge(
                    f"the record for {where} is larger than max.request.size ({self.config.max_request_size}) or "
                    f"buffer.memory ({self.config.buffer_memory}) allow; send less, or raise them and the topic's "
                    "max.message.bytes",
                    ErrorCode.MESSAGE_TOO_LARGE,
                )
            case Refusal.BUFFER_FULL:
                raise BufferFull(
                    f"no memory for a record for {where} in max.block.ms ({self.config.max_block_s:g} s): "
                    f"{self.accumulator.memory_used} of {self.config.buffer_memory} bytes (buffer.memory) wait to be "
                    "sent; send slower, or find out why the brokers are slow"
                )
            case Refusal.UNKNOWN_PARTITION:
                count = self.network.metadata.partition_count(record.topic)
                raise error_for(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"sending to {where}",
                    f"it has no partition {record.partition}, but {count} that begin at 0",
                )
            case Refusal.BAD_TIMESTAMP:
                raise SerializationError(
                    f"timestamp {record.timestamp} for {where}: milliseconds since 1970 are wanted, from 0 on"
                )
            case Refusal.NOT_BYTES:
                raise SerializationError(
                    f"a record for {where} is not made of bytes: value {type(record.value).__name__}, key "
                    f"{type(record.key).__name__}, headers {record.headers!r}; set value_serializer and "
                    "key_serializer, and give headers as pairs of str and bytes"
                )
            case _:
                raise IllegalStateError(f"topic {record.topic!r} is not known")

    async def await_topic(self, topic: str, deadline: float) -> None:
        """Wait until the topic's partitions are known."""
        if not topic:
            raise error_for(ErrorCode.INVALID_TOPIC_EXCEPTION, "sending to a topic without a name")
        found = await self.network.topic(topic, deadline)
        self._know(topic, found.partitions)

    async def await_partition(self, topic: str, partition: int, deadline: float) -> None:
        """Wait until the topic has that partition; at the deadline it has not."""
        while not 0 <= partition < self.network.metadata.partition_count(topic):
            if partition < 0:
                return
            try:
                await self.network.refreshed(deadline)
            except TimedOut:
                return
        self._know(topic, self.network.metadata.topics[topic].partitions)

    # -- behind it -------------------------------------------------------------------------------------------------

    def _serialize(self, topic: str, part: str, serializer: Serializer | None, data: Any) -> Bytes | None:
        if serializer is None:
            return data  # type: ignore[no-any-return]
        try:
            return serializer(topic, data)
        except MoldauError:
            raise
        except SERIALIZATION_FAILURES as error:
            raise SerializationError(f"the {part} of a record for topic {topic!r}: {error}") from error

    def _wake_own_loop(self) -> None:
        """For a producer whose records come from its own loop; one that has a thread for it replaces this."""
        assert self._loop is not None and self.sender is not None
        self._loop.call_soon(self.sender.run)

    def _refused(self, refusal: Refusal, *arguments: Any) -> RecordFuture:
        assert self.slow_path is not None
        topic, value, key, partition, timestamp, headers, on_delivery = arguments
        record = Prepared(topic, value, key, partition, timestamp, headers or (), on_delivery)
        if isinstance(headers, Mapping):
            record.headers = tuple(headers.items())
            taken = self.append(record)
            if not isinstance(taken, Refusal):
                return taken
            refusal = taken
        return self.slow_path(refusal, record)

    def _metadata_changed(self, image: ClusterMetadata) -> None:
        for name in list(self.accumulator.topics):
            found = image.topics.get(name)
            if found is not None and found.partitions:
                self._know(name, found.partitions)
            elif found is None and not self.accumulator.forget_topic(name):
                self.network.follow([name])  # it was idle for long, and is not any more

    def _know(self, topic: str, partitions: Iterable[PartitionMetadata]) -> None:
        listed = list(partitions)
        self.accumulator.know_topic(topic, len(listed), [one.index for one in listed if one.leader >= 0])


async def settled(batches: Iterable[Batch]) -> None:
    """Wait until the fate of all these batches, and of the parts that they are cut into, is known."""
    loop = asyncio.get_running_loop()
    left = list(batches)
    while left:
        batch = left.pop()
        while not batch.done and not batch.parts:
            arrived: asyncio.Future[None] = loop.create_future()
            if batch.add_waiter(lambda arrived=arrived: arrived.done() or arrived.set_result(None)):  # type: ignore[misc]
                await arrived
        left.extend(part for _, part in batch.parts)


_producers: weakref.WeakSet[ProducerCore] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked child has its parent's producers, without the thread that sends: they must say so."""
    for core in _producers:
        core.accumulator.renew_lock()
        core.refuse_new("the producer was made in another process, before a fork; make a new one in this process")


in_forked_children(_after_fork)
