"""Common part of the asyncio and the blocking producer: settings, accumulator, network and sender.

`prepare` runs interceptors and serializers in the caller's thread. If the accumulator refuses the record (topic not
known yet, memory full), the facade waits and appends again: `await_topic` and `await_partition` wait in the loop,
`memory` is the queue for buffer.memory. All waits of one `send` together take at most max.block.ms.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NoReturn

from moldau.client import arguments
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
from moldau.client.producer.accumulator import AppendRefusal
from moldau.client.producer.config import ProducerConfig
from moldau.client.producer.engine import Accumulator, Batch, RecordFuture
from moldau.client.producer.futures import DeliveryCallback
from moldau.client.producer.interceptors import Interceptors, ProducerRecord
from moldau.client.producer.memory import MemoryRow
from moldau.client.producer.partitioners import PartitionChoice, partitioner_of
from moldau.client.producer.row_encoding import RowEncoding
from moldau.client.producer.sender import Sender, TransactionHooks
from moldau.client.producer.txn.transaction_manager import SenderSide, TransactionManager, transactions_of
from moldau.client.serialization import SERIALIZATION_FAILURES, Serializer, serializer_of, takes_headers
from moldau.client.settings import PRODUCER, ClientSettings
from moldau.host.clock import SystemClock
from moldau.host.processes import in_forked_children
from moldau.records.batch_layout import Bytes
from moldau.wire.errors import ErrorCode

HEADERS_AT: Final = 5
"""The position of the headers among the arguments of `send`."""

HeadersGiven = Mapping[str, Bytes | None] | Iterable[tuple[str, Bytes | None]]


class PreparedRecord:
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
        self.key_given: Any = key  # before serialization: custom partitioners get both forms
        self.value_given: Any = value


class ProducerCore:
    """Settings, accumulator, network and sender of one producer."""

    def __init__(self, mapping: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> None:
        self.settings = settings = ClientSettings.of(PRODUCER, mapping, keywords)
        self.config = config = ProducerConfig.of(settings)
        self._key_serializer = serializer_of("key.serializer", settings["key.serializer"], settings)
        self._value_serializer = serializer_of("value.serializer", settings["value.serializer"], settings)
        self._key_takes_headers = takes_headers(self._key_serializer)
        self._value_takes_headers = takes_headers(self._value_serializer)
        self.partitioner = partitioner_of(settings["partitioner.class"])
        self.interceptors = Interceptors(settings["interceptor.classes"])
        self.row_encoding = RowEncoding(settings)
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
        self.transactions: TransactionHooks = transactions_of(settings, self.network)
        self.sender: Sender | None = None
        self.slow_path: Callable[[AppendRefusal, PreparedRecord], RecordFuture] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._why_closed = "the producer is closed"
        _producers.add(self)

    @property
    def plain(self) -> bool:
        """Whether records need no preparation, so that `send` can be the accumulator's `send`."""
        return (
            self._key_serializer is None
            and self._value_serializer is None
            and self.partitioner is None
            and not self.interceptors
            and self.transactions.transactional_id is None
        )

    # -- start, flush, close ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.sender = Sender(self.network, self.config, self.accumulator, self.transactions, self.memory.freed)
        if isinstance(self.transactions, TransactionManager):
            self.transactions.attach(SenderSide(self._flush_all, self.sender.resume, self.sender.fail_waiting))
        self.network.on_metadata(self._metadata_changed)
        await self.network.start()

    async def flush(self) -> None:
        """Wait until every record that was sent so far is delivered or has failed."""
        assert self.sender is not None
        self.accumulator.hurry()
        self.sender.run()
        await settled(self.accumulator.unfinished())

    async def _flush_all(self) -> None:
        """Wait until every record is delivered or has failed, including those that are sent during the wait."""
        while self.accumulator.unfinished():
            await self.flush()

    async def close(self, timeout: float | None) -> None:
        """Send the buffered records for at most `timeout` seconds, fail the rest, and close all connections."""
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
            self.row_encoding.close()

    def wake(self) -> None:
        """Make the sender run, after a change that it does not notice itself. From any thread that may send."""
        self.accumulator.wake()

    def refuse_new(self, why: str) -> None:
        """Refuse all later records with ClosedError and this reason."""
        self._why_closed = why
        self.accumulator.closed = True
        self.memory.freed()

    # -- adding records --------------------------------------------------------------------------------------------

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | datetime | None,
        headers: HeadersGiven | None,
        on_delivery: DeliveryCallback | None,
    ) -> PreparedRecord:
        """Run interceptors and serializers, in the caller's thread."""
        self.transactions.check_send()
        if timestamp is not None:
            timestamp = arguments.milliseconds("timestamp", timestamp)
        if self.interceptors:
            record = self.interceptors.on_send(ProducerRecord(topic, value, key, partition, timestamp, headers))
            topic, value, key, partition, timestamp, headers = record
            on_delivery = self.interceptors.with_acknowledgement(on_delivery)
        pairs = tuple(headers.items()) if isinstance(headers, Mapping) else headers or ()
        if self._value_takes_headers or self._key_takes_headers:
            pairs = list(pairs)  # serializers may add to it
        prepared = PreparedRecord(
            arguments.text("topic", topic),
            self._serialize(
                topic, "value", self._value_serializer, value, pairs if self._value_takes_headers else None
            ),
            self._serialize(topic, "key", self._key_serializer, key, pairs if self._key_takes_headers else None),
            arguments.optional_number("partition", partition),
            timestamp,
            pairs,
            arguments.function("on_delivery", on_delivery),
        )
        prepared.key_given = key
        prepared.value_given = value
        return prepared

    def append(self, record: PreparedRecord, has_waited: bool = False) -> RecordFuture | AppendRefusal:
        """Choose the partition if a custom partitioner is set, and add the record to its batch. Never waits."""
        if self.partitioner is not None and record.partition is None:
            queues = self.accumulator.topics.get(record.topic)
            if queues is None:
                return AppendRefusal.CLOSED if self.accumulator.closed else AppendRefusal.UNKNOWN_TOPIC
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

    def raise_refusal(self, refusal: AppendRefusal, record: PreparedRecord) -> NoReturn:
        """Raise the error for a record that the accumulator refused."""
        where = f"topic {record.topic!r}"
        match refusal:
            case AppendRefusal.CLOSED:
                raise ClosedError(f"{self._why_closed}: nothing more can be sent to {where}")
            case AppendRefusal.TOO_LARGE:
                raise RecordTooLarge(
                    f"the record for {where} is larger than max.request.size ({self.config.max_request_size}) or "
                    f"buffer.memory ({self.config.buffer_memory}) allow; send a smaller record, or raise the two "
                    "settings and the topic's max.message.bytes",
                    ErrorCode.MESSAGE_TOO_LARGE,
                )
            case AppendRefusal.BUFFER_FULL:
                raise BufferFull(
                    f"no memory for a record for {where} within max.block.ms ({self.config.max_block_s:g} s): "
                    f"{self.accumulator.memory_used} of {self.config.buffer_memory} bytes (buffer.memory) wait to be "
                    "sent; send more slowly, raise buffer.memory, or find out why the brokers are slow"
                )
            case AppendRefusal.UNKNOWN_PARTITION:
                count = self.network.metadata.partition_count(record.topic)
                raise error_for(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"sending to {where}",
                    f"it has no partition {record.partition}; its partitions are 0 to {count - 1}",
                )
            case AppendRefusal.BAD_TIMESTAMP:
                raise SerializationError(
                    f"timestamp {record.timestamp} for {where} is not valid; give milliseconds since 1970, 0 or more"
                )
            case AppendRefusal.NOT_BYTES:
                raise SerializationError(
                    f"a record for {where} does not consist of bytes: value {type(record.value).__name__}, key "
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
        """Wait until the topic has that partition. Returns at the deadline also if it has not."""
        while not 0 <= partition < self.network.metadata.partition_count(topic):
            if partition < 0:
                return
            try:
                await self.network.refreshed(deadline)
            except TimedOut:
                return
        self._know(topic, self.network.metadata.topics[topic].partitions)

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _serialize(
        self, topic: str, part: str, serializer: Serializer | None, data: Any, headers: Iterable[Any] | None
    ) -> Bytes | None:
        if serializer is None:
            return data  # type: ignore[no-any-return]
        try:
            return serializer(topic, data) if headers is None else serializer(topic, data, headers)
        except MoldauError:
            raise
        except SERIALIZATION_FAILURES as error:
            raise SerializationError(f"cannot serialize the {part} of a record for topic {topic!r}: {error}") from error

    def _wake_own_loop(self) -> None:
        """Wake the sender of an asyncio producer. The blocking producer replaces this: its loop has its own thread."""
        assert self._loop is not None and self.sender is not None
        self._loop.call_soon(self.sender.run)

    def _refused(self, refusal: AppendRefusal, *given: Any) -> RecordFuture:
        assert self.slow_path is not None
        record = self.prepare(*given)
        if refusal is AppendRefusal.WRONG_TYPE or isinstance(given[HEADERS_AT], Mapping):
            # `prepare` has converted the value that was refused: a datetime, or a mapping of headers.
            taken = self.append(record)
            if not isinstance(taken, AppendRefusal):
                return taken
            refusal = taken
        return self.slow_path(refusal, record)

    def _metadata_changed(self, image: ClusterMetadata) -> None:
        for name in list(self.accumulator.topics):
            found = image.topics.get(name)
            if found is not None and found.partitions:
                self._know(name, found.partitions)
            elif found is None and not self.accumulator.forget_topic(name):
                self.network.follow([name])  # dropped as idle, but there are records for it again

    def _know(self, topic: str, partitions: Iterable[PartitionMetadata]) -> None:
        listed = list(partitions)
        self.accumulator.know_topic(topic, len(listed), [one.index for one in listed if one.leader >= 0])


async def settled(batches: Iterable[Batch]) -> None:
    """Wait until all these batches, and the parts that they are split into, are delivered or have failed."""
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
    """Make the parent's producers refuse records in a forked child, because the thread that sends is not there."""
    for core in _producers:
        core.accumulator.renew_lock()
        core.refuse_new("the producer was created before a fork, in the parent; create a new one in this process")


in_forked_children(_after_fork)
