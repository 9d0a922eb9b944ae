"""Drivers of four clients that are not ours, with the operations that all of them have.

A driver hides only how its client is configured: it does not retry, and makes no conversions that could repair a
mistake of the broker. Partitions are assigned, never subscribed to. Idempotence is off.

Flags of a driver name what its client cannot do. kcat has one set of headers, and one meaning of an empty field, for
all records of a run. kafka-python compresses with gzip only; kafka_python.py adds the other codecs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import subprocess
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.compat import kafka_python

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 30
FETCH_WAIT_MS = 10  # clients see the end of a partition when a fetch returns no records
MEGABYTE = 1024 * 1024

logging.getLogger("aiokafka").setLevel(logging.ERROR)
logging.getLogger("kafka").setLevel(logging.ERROR)


class Message(NamedTuple):
    """A record as a user gives it. Without a timestamp, the client's clock is used."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


class Read(NamedTuple):
    """A record as a user gets it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    log_append_time: bool | None = None  # None if the client does not tell

    @property
    def message(self) -> Message:
        return Message(self.key, self.value, self.headers)


class TooLargeError(Exception):
    """The broker refused a record for its size."""


class Driver(Protocol):
    name: str
    sets_timestamps: bool
    sends_null_pairs: bool
    """Whether it can send records with neither key nor value."""

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        batch_bytes: int = 16_384,
        linger_ms: int = 5,
    ) -> None:
        """Return when all records are acknowledged (with acks=0: sent). Raises TooLargeError, or the client's own
        error."""

    def consume(self, bootstrap: str, topic: str, *, partition: int = 0, count: int | None = None) -> list[Read]:
        """Read from the beginning: `count` records, or up to the current end of the partition."""


# confluent-kafka: librdkafka in this process --------------------------------------------------------------------------


class ConfluentKafka:
    name = "confluent-kafka"
    sets_timestamps = True
    sends_null_pairs = True

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        batch_bytes: int = 16_384,
        linger_ms: int = 5,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": False,
                "compression.type": codec,
                "acks": acks,
                "batch.size": batch_bytes,
                "linger.ms": linger_ms,
                "message.max.bytes": 4 * MEGABYTE,
            }
        )
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failures.append(error)

        for message in messages:
            producer.produce(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers) or None,
                timestamp=message.timestamp or 0,
                partition=partition,
                on_delivery=delivered,
            )
        assert producer.flush(TIMEOUT_S) == 0
        for failure in failures:
            if failure.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise TooLargeError(failure.str())
            raise KafkaException(failure)

    def consume(self, bootstrap: str, topic: str, *, partition: int = 0, count: int | None = None) -> list[Read]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "never joined",
                "enable.auto.commit": False,
                "enable.partition.eof": count is None,
                "fetch.wait.max.ms": FETCH_WAIT_MS,
                "check.crcs": True,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[Read] = []
        try:
            while count is None or len(found) < count:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"{len(found)} records, then nothing for {TIMEOUT_S} s"
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    break
                if error is not None:
                    raise KafkaException(error)
                found.append(self._read(message))
        finally:
            consumer.close()
        return found

    @staticmethod
    def _read(message: Any) -> Read:
        kind, timestamp = message.timestamp()
        return Read(
            message.offset(),
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
            timestamp,
            kind == TIMESTAMP_LOG_APPEND_TIME,
        )


# kcat: an older librdkafka in a separate process ----------------------------------------------------------------------

KEY_END = "<key>"
MESSAGE_END = "<end>"


class Kcat:
    name = "kcat"
    sets_timestamps = False
    sends_null_pairs = True

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        batch_bytes: int = 16_384,
        linger_ms: int = 5,
    ) -> None:
        settings = (
            f"acks={acks}",
            f"batch.size={batch_bytes}",
            f"linger.ms={linger_ms}",
            f"message.max.bytes={4 * MEGABYTE}",
        )
        options = ["-t", topic, "-p", str(partition), "-z", codec, "-D", MESSAGE_END, "-K", KEY_END]
        options += [argument for setting in settings for argument in ("-X", setting)]
        # Headers and the meaning of an empty field are the same for all records of a run.
        for (headers, nulls), run in itertools.groupby(messages, lambda each: (each.headers, _has_null(each))):
            named = [argument for name, value in headers for argument in ("-H", _header_argument(name, value))]
            lines = b"".join(
                (each.key or b"") + KEY_END.encode() + (each.value or b"") + MESSAGE_END.encode() for each in run
            )
            kcat(bootstrap, "-P", *options, *named, *(["-Z"] if nulls else []), stdin=lines)

    def consume(self, bootstrap: str, topic: str, *, partition: int = 0, count: int | None = None) -> list[Read]:
        end = ["-e"] if count is None else ["-c", str(count)]
        place = ["-t", topic, "-p", str(partition), "-o", "beginning"]
        output = kcat(
            bootstrap,
            "-C",
            *place,
            *end,
            "-X",
            "check.crcs=true",
            "-X",
            f"fetch.wait.max.ms={FETCH_WAIT_MS}",
            "-f",
            r"%o %T %K %S %h\n%k%s\n",
        )
        return list(_parse(output))


def _has_null(message: Message) -> bool:
    nulls = message.key is None or message.value is None
    assert not (nulls and b"" in (message.key, message.value)), "kcat cannot send both in one record"
    return nulls


def _header_argument(name: str, value: bytes | None) -> str:
    return name if value is None else f"{name}={value.decode()}"


def _parse(output: bytes) -> Iterable[Read]:
    position = 0
    while position < len(output):
        line_end = output.index(b"\n", position)
        offset, timestamp, key_size, value_size, headers = output[position:line_end].decode().split(" ", 4)
        position = line_end + 1
        key, position = _field(output, position, int(key_size))
        value, position = _field(output, position, int(value_size))
        position += 1
        pairs = [pair.split("=", 1) for pair in headers.split(",") if pair]
        # kcat prints a header without a value as NULL.
        named = tuple((name, None if text == "NULL" else text.encode()) for name, text in pairs)
        yield Read(int(offset), key, value, named, int(timestamp))


def _field(output: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        # Whatever kcat prints for a null, there are no bytes.
        return None, position
    return output[position : position + size], position + size


def kcat(bootstrap: str, *arguments: str, stdin: bytes | None = None) -> bytes:
    command = ["kcat", "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)
    complaint = done.stderr.decode(errors="replace")
    if "Message size too large" in complaint:
        raise TooLargeError(complaint)
    assert done.returncode == 0, f"{' '.join(command)}: {complaint}"
    return done.stdout


# kafka-python ---------------------------------------------------------------------------------------------------------


class KafkaPython:
    name = "kafka-python"
    sets_timestamps = True
    sends_null_pairs = False

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        batch_bytes: int = 16_384,
        linger_ms: int = 5,
    ) -> None:
        producer = kafka_python.KafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=False,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            batch_size=batch_bytes,
            linger_ms=linger_ms,
            max_request_size=4 * MEGABYTE,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                    timestamp_ms=message.timestamp,
                    partition=partition,
                )
                for message in messages
            ]
            producer.flush(TIMEOUT_S)
            for future in sent:
                try:
                    future.get(TIMEOUT_S)
                except kafka_python.errors.MessageSizeTooLargeError as error:
                    raise TooLargeError(str(error)) from error
        finally:
            producer.close(TIMEOUT_S)

    def consume(self, bootstrap: str, topic: str, *, partition: int = 0, count: int | None = None) -> list[Read]:
        place = kafka_python.TopicPartition(topic, partition)
        consumer = kafka_python.KafkaConsumer(
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            max_partition_fetch_bytes=4 * MEGABYTE,
            check_crcs=True,
        )
        try:
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            wanted = consumer.end_offsets([place])[place] if count is None else count
            found: list[Read] = []
            while len(found) < wanted:
                got = consumer.poll(TIMEOUT_S * 1000)
                assert got, f"{len(found)} records, then nothing for {TIMEOUT_S} s"
                found += [self._read(record) for record in got[place]]
            return found[:wanted]
        finally:
            consumer.close(autocommit=False)

    @staticmethod
    def _read(record: Any) -> Read:
        return Read(
            record.offset,
            record.key,
            record.value,
            tuple(record.headers),
            record.timestamp,
            record.timestamp_type == 1,
        )


# aiokafka -------------------------------------------------------------------------------------------------------------


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(TIMEOUT_S):
            return await work

    return asyncio.run(bounded())


class AioKafka:
    name = "aiokafka"
    sets_timestamps = True
    sends_null_pairs = False

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        batch_bytes: int = 16_384,
        linger_ms: int = 5,
    ) -> None:
        from aiokafka.errors import MessageSizeTooLargeError

        async def work() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                enable_idempotence=False,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                max_batch_size=batch_bytes,
                linger_ms=linger_ms,
                max_request_size=4 * MEGABYTE,
            )
            async with producer:
                sent = [
                    await producer.send(
                        topic,
                        key=message.key,
                        value=message.value,
                        headers=list(message.headers),
                        timestamp_ms=message.timestamp,
                        partition=partition,
                    )
                    for message in messages
                ]
                await producer.flush()
                for outcome in await asyncio.gather(*sent, return_exceptions=True):
                    if isinstance(outcome, MessageSizeTooLargeError):
                        raise TooLargeError(str(outcome))
                    if isinstance(outcome, BaseException):
                        raise outcome

        run(work())

    def consume(self, bootstrap: str, topic: str, *, partition: int = 0, count: int | None = None) -> list[Read]:
        async def work() -> list[Read]:
            place = AioTopicPartition(topic, partition)
            consumer = AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                fetch_max_wait_ms=FETCH_WAIT_MS,
                max_partition_fetch_bytes=4 * MEGABYTE,
                check_crcs=True,
            )
            async with consumer:
                consumer.assign([place])
                await consumer.seek_to_beginning(place)
                wanted = (await consumer.end_offsets([place]))[place] if count is None else count
                found: list[Read] = []
                while len(found) < wanted:
                    got = await consumer.getmany(timeout_ms=TIMEOUT_S * 1000)
                    found += [KafkaPython._read(record) for record in got[place]]
                return found[:wanted]

        result: list[Read] = run(work())
        return result


DRIVERS: tuple[Driver, ...] = (Kcat(), ConfluentKafka(), KafkaPython(), AioKafka())
