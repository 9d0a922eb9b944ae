"""Features that all clients share, tested with each client and checked in the log."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from moldau.records import Codec
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from tests.compat import wire
from tests.compat.drivers import CODECS, DRIVERS, Driver, Message, TooLargeError
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

ALL_BYTES = bytes(range(256))
HOUR_MS = 3_600_000


def named(drivers: tuple[Driver, ...]) -> list[object]:
    marks = {"kcat": [pytest.mark.needs_kcat]}
    return [pytest.param(driver, id=driver.name, marks=marks.get(driver.name, ())) for driver in drivers]


every_client = pytest.mark.parametrize("client", named(DRIVERS))
every_client_that_sets_timestamps = pytest.mark.parametrize(
    "client", named(tuple(driver for driver in DRIVERS if driver.sets_timestamps))
)


def numbered(count: int, size: int = 100) -> list[Message]:
    return [Message(b"key %d" % number, (b"value %d " % number).ljust(size, b"~")) for number in range(count)]


@every_client
@pytest.mark.parametrize("codec", CODECS)
def test_records_are_read_as_written_and_stored_in_the_requested_codec(
    client: Driver, codec: str, bootstrap: str, topic: str, raw: RawConnection
) -> None:
    messages = [*numbered(500), Message(b"every byte", ALL_BYTES * 300)]
    client.produce(bootstrap, topic, messages, codec=codec)
    found = client.consume(bootstrap, topic)
    assert [record.message for record in found] == messages
    assert [record.offset for record in found] == list(range(len(messages)))
    # An old client that does not detect the broker's features sends uncompressed batches without an error.
    assert {header.codec_id for header, _ in wire.stored_batches(raw, topic)} == {Codec[codec.upper()]}


@every_client
def test_null_and_empty_are_not_the_same(client: Driver, bootstrap: str, topic: str) -> None:
    messages = [
        Message(None, b"no key"),
        Message(b"no value", None),
        Message(b"", b"empty key"),
        Message(b"empty value", b""),
        Message(b"", b""),
        *([Message(None, None)] if client.sends_null_pairs else []),
    ]
    client.produce(bootstrap, topic, messages)
    assert [record.message for record in client.consume(bootstrap, topic)] == messages


@every_client
def test_headers_keep_their_order_their_repetitions_and_their_bytes(client: Driver, bootstrap: str, topic: str) -> None:
    headers = (("b", b"first"), ("a", b"second"), ("b", b"again"), ("empty", b""), ("ünïcode", "žluťoučký".encode()))
    messages = [Message(b"key", b"value", headers), Message(b"key", b"none"), Message(b"tombstone", None, headers)]
    client.produce(bootstrap, topic, messages)
    assert [record.message for record in client.consume(bootstrap, topic)] == messages


@every_client
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_kind_of_acknowledgement(
    client: Driver, acks: str, bootstrap: str, topic: str
) -> None:
    messages = numbered(200)
    client.produce(bootstrap, topic, messages, acks=acks)
    # Without acknowledgements a producer may end before the broker has stored the records: read by count, not to the
    # end.
    assert [record.message for record in client.consume(bootstrap, topic, count=len(messages))] == messages


@every_client
def test_an_empty_topic_has_an_end_and_nothing_before_it(client: Driver, bootstrap: str, topic: str) -> None:
    assert client.consume(bootstrap, topic) == []


@every_client
def test_a_batch_of_nearly_a_megabyte_goes_through_whole(
    client: Driver, bootstrap: str, topic: str, raw: RawConnection
) -> None:
    messages = numbered(9, size=110_000)
    sent = 0

    def has_a_large_batch() -> bool:
        """Send all of them once. A client that is interrupted meanwhile may divide them, and then sends them again."""
        nonlocal sent
        client.produce(bootstrap, topic, messages, batch_bytes=1_000_000, linger_ms=500)
        sent += 1
        return max(header.size for header, _ in wire.stored_batches(raw, topic)) > 900_000

    wait_until(has_a_large_batch)
    assert [record.message for record in client.consume(bootstrap, topic)] == messages * sent


@every_client
def test_a_record_over_the_topics_limit_is_refused_as_too_large(
    client: Driver, bootstrap: str, new_topic: Callable[..., str], raw: RawConnection
) -> None:
    topic = new_topic(configs={"max.message.bytes": "10000"})
    client.produce(bootstrap, topic, numbered(1, size=9_000))
    with pytest.raises(TooLargeError):
        client.produce(bootstrap, topic, numbered(1, size=10_000))
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 1


@every_client
def test_a_record_over_the_brokers_limit_is_refused_as_too_large(
    client: Driver, bootstrap: str, topic: str, raw: RawConnection
) -> None:
    with pytest.raises(TooLargeError):
        client.produce(bootstrap, topic, numbered(1, size=1_100_000), batch_bytes=2_000_000)
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 0


@every_client
def test_writing_creates_the_topic(client: Driver, bootstrap: str, unused_name: Callable[[], str]) -> None:
    topic = unused_name()
    client.produce(bootstrap, topic, numbered(3))
    assert [record.message for record in client.consume(bootstrap, topic)] == numbered(3)


@every_client
def test_writing_creates_a_deleted_topic_again(client: Driver, bootstrap: str, raw: RawConnection, topic: str) -> None:
    client.produce(bootstrap, topic, numbered(5))
    wire.ask(raw, DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=topic)], timeout_ms=10_000))
    wait_until(lambda: wire.describe_topic(raw, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    client.produce(bootstrap, topic, numbered(3))
    assert [record.message for record in client.consume(bootstrap, topic)] == numbered(3)


@every_client
def test_partitions_do_not_mix(client: Driver, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    for partition in (0, 2):
        client.produce(bootstrap, topic, [Message(b"key", b"partition %d" % partition)], partition=partition)
    found = [
        [record.value for record in client.consume(bootstrap, topic, partition=partition)] for partition in range(3)
    ]
    assert found == [[b"partition 0"], [], [b"partition 2"]]


@every_client_that_sets_timestamps
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_timestamp_given_by_the_producer_is_the_records(
    client: Driver, codec: str, bootstrap: str, topic: str
) -> None:
    now = wire.now_ms()
    given = [now - HOUR_MS, now, now - 1, 1, 1_000_000_000_000]
    client.produce(bootstrap, topic, [Message(b"key", b"value", (), timestamp) for timestamp in given], codec=codec)
    found = client.consume(bootstrap, topic)
    assert [record.timestamp for record in found] == given
    assert {record.log_append_time for record in found} == {False}


@every_client
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_on_a_log_append_time_topic_the_broker_sets_the_time(
    client: Driver, codec: str, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    given = 1_000_000_000_000 if client.sets_timestamps else None
    before = wire.now_ms()
    client.produce(bootstrap, topic, [Message(b"key", b"value", (), given)] * 3, codec=codec)
    after = wire.now_ms()
    found = client.consume(bootstrap, topic)
    assert len(found) == 3
    assert all(before <= record.timestamp <= after for record in found)
    assert {record.log_append_time for record in found} <= {True, None}


@every_client
def test_a_waiting_reader_gets_records_written_meanwhile(client: Driver, bootstrap: str, topic: str) -> None:
    # The count is higher than the number of records at the start; the rest is written while the reader polls.
    client.produce(bootstrap, topic, numbered(1))
    writer = threading.Thread(target=client.produce, args=(bootstrap, topic, numbered(5)))
    writer.start()
    try:
        found = client.consume(bootstrap, topic, count=6)
    finally:
        writer.join()
    assert [record.message for record in found] == numbered(1) + numbered(5)
