"""Records that one server stores and another must serve unchanged, written and read with kcat.

The topics cover what a server leaves on disk: every codec, keys, headers, nulls, many segments, producer state, and
committed and aborted transactions.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from moldau.records import BatchRecord, Codec, encode_batch
from moldau.wire.api import ApiKey
from moldau.wire.header import decode_response_header, encode_request_header
from moldau.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 2
SMALLEST_SEGMENT_BYTES = 1024 * 1024
RECORDS_PER_CODEC = 20_000
KCAT_TIMEOUT_S = 60
DELIVERY_TIMEOUT_S = 30

_PRODUCE_VERSION = 9

# All fields of a record that a consumer can see. The lengths distinguish null from empty.
_EVERYTHING = r"%p\t%o\t%T\t%K\t%k\t%h\t%S\t%s\n"


@dataclass(frozen=True)
class Written:
    """A topic, and the digest of all its records as a consumer sees them."""

    topic: str
    records: int
    digest: str


@dataclass(frozen=True)
class LeftByKafka:
    """Partition directories of a cleanly stopped Apache Kafka, and the contents of its topics."""

    directory: Path
    everything: Written
    committed: Written
    uncommitted: Written

    def partitions(self, topic: str) -> list[Path]:
        return [self.directory / f"{topic}-{partition}" for partition in range(PARTITIONS)]


def lines(count: int, seed: str) -> Iterator[str]:
    """Records of about 100 bytes with keys, half text and half random, so that they compress in part."""
    for index in range(count):
        noise = hashlib.sha256(f"{seed}{index}".encode()).hexdigest()
        yield f"key-{index % 997}:{index:09d} {noise} the quick brown fox"


def kcat(bootstrap: str, *arguments: str, stdin: str | None = None) -> str:
    command = ["kcat", "-q", "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=KCAT_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def create_topic(bootstrap: str, topic: str, settings: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1, config=settings)
    admin.create_topics([wanted])[topic].result(timeout=DELIVERY_TIMEOUT_S)


def write_every_codec(bootstrap: str, topic: str) -> None:
    """One topic with batches of all codecs, one after the other, in several segments."""
    create_topic(bootstrap, topic, {"segment.bytes": str(SMALLEST_SEGMENT_BYTES)})
    for codec in CODECS:
        batch = "\n".join(lines(RECORDS_PER_CODEC, codec)) + "\n"
        options = ("-z", codec, "-X", "batch.size=16384", "-H", f"codec={codec}", "-H", "empty=")
        kcat(bootstrap, "-P", "-t", topic, "-K:", *options, stdin=batch)
    # -Z turns empty into null: this writes a tombstone, and a record with neither key nor value.
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-Z", stdin="gone:\n:\n:value without a key\n")


def write_idempotently(bootstrap: str, topic: str, batches: int = 7) -> None:
    """Write batches with a producer id, made by hand: a snapshot must contain the producer although no broker assigned
    its id. The codecs take turns, so that each one is used regardless of the APIs that a client library detects."""
    host, _, port = bootstrap.partition(":")
    now = int(time.time() * 1000)
    with socket.create_connection((host, int(port)), DELIVERY_TIMEOUT_S) as connection:
        for number in range(batches):
            records = [BatchRecord(offset, now, b"key", b"value %d" % offset) for offset in range(3)]
            codec = Codec(number % len(Codec))
            batch = encode_batch(records, codec=codec, producer_id=4_711, producer_epoch=2, base_sequence=3 * number)
            partition = ProduceRequestPartition(index=0, records=batch)
            body = ProduceRequest(
                acks=-1, timeout_ms=10_000, topic_data=[ProduceRequestTopic(name=topic, partition_data=[partition])]
            )
            answer = ProduceResponse.decode(_call(connection, body.encode(_PRODUCE_VERSION)), _PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0


def _call(connection: socket.socket, body: bytes) -> bytes:
    frame = encode_request_header(ApiKey.PRODUCE, _PRODUCE_VERSION, 1, "corpus") + body
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    with connection.makefile("rb") as answers:
        (size,) = struct.unpack(">i", answers.read(4))
        answer = answers.read(size)
    return bytes(answer[decode_response_header(answer, ApiKey.PRODUCE, _PRODUCE_VERSION)[1] :])


def write_transactions(bootstrap: str, topic: str) -> None:
    """Committed and aborted transactions: control batches, producer state, and an index of aborted transactions."""
    create_topic(bootstrap, topic, {})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(DELIVERY_TIMEOUT_S)
    for attempt in range(4):
        producer.begin_transaction()
        for index in range(50):
            producer.produce(topic, key=str(index), value=f"transaction {attempt} record {index}")
        producer.flush(DELIVERY_TIMEOUT_S)
        if attempt % 2:
            producer.abort_transaction(DELIVERY_TIMEOUT_S)
        else:
            producer.commit_transaction(DELIVERY_TIMEOUT_S)


def read_topic(bootstrap: str, topic: str, *settings: str) -> Written:
    """Read a topic to its end, and compute the digest of its records, ordered by partition and offset."""
    options = [argument for setting in settings for argument in ("-X", setting)]
    text = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-f", _EVERYTHING, *options)
    records = text.splitlines()
    records.sort(key=lambda record: tuple(int(field) for field in record.split("\t", 2)[:2]))
    return Written(topic, len(records), hashlib.sha256("\n".join(records).encode()).hexdigest())


def files_of(directory: Path, suffix: str) -> list[Path]:
    return sorted(directory.glob(f"*{suffix}"))


def segment_files(directory: Path) -> list[Path]:
    """All files of a partition directory that Kafka's dump tool can read."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    return [file for suffix in suffixes for file in files_of(directory, suffix)]
