"""Records written by each client, read by every other client."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from confluent_kafka import Consumer, TopicPartition

from moldau.records import Codec
from tests.compat import wire
from tests.compat.drivers import CODECS, DRIVERS, FETCH_WAIT_MS, TIMEOUT_S, Message, kcat
from tests.support.raw import RawConnection

TOTAL_RECORDS = 1_000_000
HEADERS = (("trace", b"abc"), ("trace", b"again"), ("empty", b""))

CORPUS = [
    *(Message(b"key %d" % number, b"%d: the quick brown fox" % number) for number in range(100)),
    Message(b"every byte", bytes(range(256)) * 40),
    Message(b"", b"empty key"),
    Message(b"empty value", b""),
    Message(b"tombstone", None),
    Message(None, b"no key"),
    Message(b"key", b"with headers", HEADERS),
    Message(b"long", b"0123456789abcdef" * 8_000, HEADERS),
]


@pytest.fixture
def written(bootstrap: str, new_topic: Callable[..., str]) -> dict[str, str]:
    """One topic per client, which contains the corpus once per codec."""
    topics = {}
    for writer in DRIVERS:
        topics[writer.name] = topic = new_topic()
        for codec in CODECS:
            writer.produce(bootstrap, topic, CORPUS, codec=codec)
    return topics


@pytest.mark.needs_kcat
def test_every_client_reads_the_records_of_every_client(
    bootstrap: str, written: dict[str, str], raw: RawConnection
) -> None:
    for writer, topic in written.items():
        assert {header.codec_id for header, _ in wire.stored_batches(raw, topic)} == set(Codec), writer
        views = {reader.name: reader.consume(bootstrap, topic) for reader in DRIVERS}
        for reader, found in views.items():
            assert [record.message for record in found] == CORPUS * len(CODECS), f"{reader} reads {writer}"
        times = [[(record.offset, record.timestamp) for record in found] for found in views.values()]
        assert all(view == times[0] for view in times), writer


# A million ------------------------------------------------------------------------------------------------------------


def lines(count: int, seed: str) -> Iterator[bytes]:
    """Lines of about 100 bytes: a number that shows the order, random characters, and text that compresses."""
    for index in range(0, count, 4):
        noise = hashlib.sha256(f"{seed}{index}".encode()).hexdigest().encode()
        for offset in range(index, min(index + 4, count)):
            yield b"%09d %s the quick brown fox jumps\n" % (offset, noise)


@pytest.mark.needs_kcat
def test_a_million_records_come_back_byte_for_byte(
    bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """kcat writes them in every codec; kcat and confluent-kafka read them. The checksums are the same."""
    share = TOTAL_RECORDS // len(CODECS)
    total = 0
    for codec in CODECS:
        topic = new_topic()
        data = b"".join(lines(share, codec))
        source = tmp_path / codec
        source.write_bytes(data)
        expected = hashlib.sha256(data).hexdigest()
        kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec, "-X", "acks=all", "-l", str(source))
        count, digest = read_with_kcat(bootstrap, topic) if codec != "none" else read_with_confluent(bootstrap, topic)
        assert (count, digest) == (share, expected), codec
        total += count
    assert total >= TOTAL_RECORDS


def read_with_kcat(bootstrap: str, topic: str) -> tuple[int, str]:
    digest = hashlib.sha256()
    count = 0
    command = ["kcat", "-q", "-b", bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e"]
    command += ["-X", f"fetch.wait.max.ms={FETCH_WAIT_MS}"]
    with Popen(command, stdout=PIPE) as process:
        assert process.stdout is not None
        while block := process.stdout.read(1 << 20):
            digest.update(block)
            count += block.count(b"\n")
    assert process.returncode == 0
    return count, digest.hexdigest()


def read_with_confluent(bootstrap: str, topic: str) -> tuple[int, str]:
    digest = hashlib.sha256()
    count = 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "never joined", "enable.auto.commit": False})
    try:
        place = TopicPartition(topic, 0, 0)
        consumer.assign([place])
        _, end = consumer.get_watermark_offsets(place, TIMEOUT_S)
        while count < end:
            messages = consumer.consume(100_000, 1.0)
            digest.update(b"".join([message.value() + b"\n" for message in messages]))
            count += len(messages)
    finally:
        consumer.close()
    return count, digest.hexdigest()
