"""Produce requests: accepted and refused batches, error messages, and the stored log."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from moldau.records import BatchRecord, Codec, TimestampType, crc_ok, decode_batch, encode_batch, peek_header, reseal
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tests.compat import wire
from tests.support.raw import RawConnection

HOUR_MS = 3_600_000
BROKER_LIMIT = 1_048_588  # message.max.bytes: the whole batch, header included

# Positions of fields in a batch header.
LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
MAX_TIMESTAMP_AT = 35
COUNT_AT = 57

LOG_APPEND_TIME_BIT = 0x08
CONTROL_BIT = 0x20


def changed(batch: bytearray, form: str, at: int, value: int, *, sealed: bool = True) -> bytearray:
    """The batch with one header field replaced; if `sealed`, with a matching checksum."""
    struct.pack_into(form, batch, at, value)
    if sealed:
        reseal(batch, 0, len(batch))
    return batch


def good() -> bytearray:
    return wire.batch_of(b"one", b"two", b"three")


def compressed_garbage(codec: Codec) -> bytearray:
    batch = wire.batch_of(b"one" * 100, codec=codec)
    batch[61:] = bytes(range(7, 7 + len(batch) - 61))
    reseal(batch, 0, len(batch))
    return batch


REFUSED: dict[str, tuple[Callable[[], Any], ErrorCode]] = {
    "no records": (lambda: b"", ErrorCode.INVALID_RECORD),
    "two batches": (lambda: good() + good(), ErrorCode.INVALID_RECORD),
    "ten bytes of nothing": (lambda: bytes(10), ErrorCode.INVALID_RECORD),
    "half a batch": (lambda: good()[:50], ErrorCode.INVALID_RECORD),
    "a batch that lacks a byte": (lambda: good()[:-1], ErrorCode.INVALID_RECORD),
    "a length of zero": (lambda: changed(good(), ">i", LENGTH_AT, 0, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "a negative length": (lambda: changed(good(), ">i", LENGTH_AT, -5, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "a wrong checksum": (lambda: changed(good(), ">I", CRC_AT, 12345, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "a flipped bit": (lambda: changed(good(), "B", 70, 0xFF, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "format 0": (lambda: changed(good(), "b", MAGIC_AT, 0), ErrorCode.INVALID_RECORD),
    "format 1": (lambda: changed(good(), "b", MAGIC_AT, 1), ErrorCode.INVALID_RECORD),
    "format 3": (lambda: changed(good(), "b", MAGIC_AT, 3), ErrorCode.CORRUPT_MESSAGE),
    "a count too high": (lambda: changed(good(), ">i", COUNT_AT, 4), ErrorCode.INVALID_RECORD),
    "a count too low": (lambda: changed(good(), ">i", COUNT_AT, 2), ErrorCode.INVALID_RECORD),
    "a count of zero": (lambda: changed(good(), ">i", COUNT_AT, 0), ErrorCode.INVALID_RECORD),
    "a negative count": (lambda: changed(good(), ">i", COUNT_AT, -1), ErrorCode.INVALID_RECORD),
    "a last offset too high": (lambda: changed(good(), ">i", LAST_OFFSET_DELTA_AT, 7), ErrorCode.INVALID_RECORD),
    "the control bit": (lambda: changed(good(), ">h", ATTRIBUTES_AT, CONTROL_BIT), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_batch_is_refused_and_nothing_is_stored(case: str, raw: RawConnection, topic: str) -> None:
    make, code = REFUSED[case]
    answer = wire.produce(raw, topic, make())
    assert (ErrorCode(answer.error_code), answer.base_offset, answer.log_append_time_ms) == (code, -1, -1)
    assert wire.produced(raw, topic, b"next") == 0
    assert wire.stored_values(raw, topic) == [b"next"]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_data_that_does_not_decompress_is_refused(codec: Codec, raw: RawConnection, topic: str) -> None:
    answer = wire.produce(raw, topic, compressed_garbage(codec))
    # Apache Kafka returns UNKNOWN_SERVER_ERROR. No client retries any of these errors.
    assert answer.error_code in (-1, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_data_that_does_not_decompress_is_a_corrupt_message(
    codec: Codec, raw: RawConnection, topic: str, moldau_only: None
) -> None:
    answer = wire.produce(raw, topic, compressed_garbage(codec))
    assert answer.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_a_request_without_records_is_answered(raw: RawConnection, topic: str, moldau_only: None) -> None:
    assert wire.produce(raw, topic, None).error_code == ErrorCode.INVALID_RECORD


def test_bytes_after_a_batch_are_not_stored(raw: RawConnection, topic: str) -> None:
    """Apache Kafka ignores fewer than twelve bytes. Moldau refuses all, since no producer sends them on purpose."""
    answer = wire.produce(raw, topic, good() + bytes(11))
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.INVALID_RECORD)
    stored = [len(batch) for _, batch in wire.stored_batches(raw, topic)]
    assert stored == ([] if answer.error_code else [len(good())])


def test_a_base_offset_set_by_the_producer_is_not_kept(raw: RawConnection, topic: str) -> None:
    """Apache Kafka refuses the batch. Moldau assigns an offset as for any other batch."""
    answer = wire.produce(raw, topic, changed(good(), ">q", 0, 5))
    assert (answer.error_code, answer.base_offset) in ((ErrorCode.INVALID_RECORD, -1), (ErrorCode.NONE, 0))
    assert wire.list_offset(raw, topic, wire.EARLIEST).offset == 0


def test_acks_that_do_not_exist_are_refused_for_every_partition(
    raw: RawConnection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    request = wire.produce_request(topic, [(0, good()), (1, good())], acks=2)
    (answer,) = wire.ask(raw, request, wire.PRODUCE_VERSION).responses
    codes = [partition.error_code for partition in answer.partition_responses]
    assert codes == [ErrorCode.INVALID_REQUIRED_ACKS] * 2


@pytest.mark.parametrize("partition", [1, 99, -1])
def test_an_unknown_partition_is_refused(partition: int, raw: RawConnection, topic: str) -> None:
    answer = wire.produce(raw, topic, good(), partition=partition)
    assert (answer.index, answer.error_code) == (partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (answer.base_offset, answer.log_start_offset) == (-1, -1)


def test_producing_alone_creates_no_topic(raw: RawConnection, unused_name: Callable[[], str]) -> None:
    name = unused_name()
    assert wire.produce(raw, name, good()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert wire.describe_topic(raw, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("topic_id", [bytes(16), b"nobody has this!"])
def test_an_unknown_topic_id_is_refused_as_such(topic_id: bytes, raw: RawConnection) -> None:
    assert wire.produce(raw, topic_id, good()).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_clients_cannot_write_to_internal_topics(raw: RawConnection) -> None:
    answer = wire.produce(raw, "__consumer_offsets", good())
    assert answer.error_code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_one_bad_partition_does_not_spoil_the_others(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    bad = changed(good(), ">I", CRC_AT, 12345, sealed=False)
    request = wire.produce_request(topic, [(0, good()), (1, bad), (2, good()), (9, good())])
    (answer,) = wire.ask(raw, request, wire.PRODUCE_VERSION).responses
    codes = {partition.index: partition.error_code for partition in answer.partition_responses}
    assert codes == {0: 0, 1: ErrorCode.CORRUPT_MESSAGE, 2: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    ends = [wire.list_offset(raw, topic, wire.LATEST, partition=partition).offset for partition in range(3)]
    assert ends == [3, 0, 3]


def test_topics_are_answered_by_the_requested_name_or_id(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topics = [new_topic(), new_topic()]
    data = [
        ProduceRequestTopic(name=name, partition_data=[ProduceRequestPartition(index=0, records=good())])
        for name in topics
    ]
    request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=data)
    response = wire.ask(raw, request, wire.PRODUCE_VERSION)
    found = {
        topic.name: [(each.index, each.error_code) for each in topic.partition_responses]
        for topic in response.responses
    }
    assert found == {name: [(0, 0)] for name in topics}


# Size -----------------------------------------------------------------------------------------------------------------


def batch_of_size(size: int) -> bytearray:
    value = size - len(wire.batch_of(b"")) - 8
    batch = wire.batch_of(bytes(value))
    batch = wire.batch_of(bytes(value + size - len(batch)))
    assert len(batch) == size
    return batch


def test_a_batch_may_have_exactly_the_largest_size(raw: RawConnection, topic: str) -> None:
    assert wire.produce(raw, topic, batch_of_size(BROKER_LIMIT)).error_code == 0
    answer = wire.produce(raw, topic, batch_of_size(BROKER_LIMIT + 1))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 1


def test_the_size_limit_of_the_topic_applies(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(configs={"max.message.bytes": "1000"})
    assert wire.produce(raw, topic, batch_of_size(1_001)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert wire.produce(raw, topic, batch_of_size(1_000)).error_code == 0
    # The limit applies to the compressed size.
    assert wire.produce(raw, topic, wire.batch_of(bytes(5_000), codec=Codec.GZIP)).error_code == 0


# Codecs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
def test_the_producers_bytes_are_kept(codec: Codec, raw: RawConnection, topic: str) -> None:
    sent = wire.batch_of(b"a" * 100, b"b" * 100, codec=codec)
    assert wire.produce(raw, topic, sent).error_code == 0
    ((header, stored),) = wire.stored_batches(raw, topic)
    # The broker writes only the offset and its leader epoch, both outside the checksum.
    assert stored[16:] == bytes(sent[16:])
    assert header.leader_epoch >= 0


def test_zstd_needs_a_version_that_knows_it(raw: RawConnection, topic: str) -> None:
    batch = wire.batch_of(b"one", codec=Codec.ZSTD)
    assert wire.produce(raw, topic, batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert wire.produce(raw, topic, batch, version=7).error_code == 0


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("gzip", Codec.GZIP), ("zstd", Codec.ZSTD), ("lz4", Codec.LZ4), ("uncompressed", Codec.NONE)],
)
def test_a_topic_can_have_its_own_codec(
    asked: str, expected: Codec, raw: RawConnection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(configs={"compression.type": asked})
    wire.produced(raw, topic, b"first", b"second", codec=Codec.SNAPPY)
    wire.produced(raw, topic, b"third")
    batches = wire.stored_batches(raw, topic)
    assert [header.codec_id for header, _ in batches] == [expected, expected]
    assert all(crc_ok(batch, 0, len(batch)) for _, batch in batches)
    assert wire.stored_values(raw, topic) == [b"first", b"second", b"third"]


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claimed", [1, 2_000_000_000_000])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_wrong_largest_timestamp_in_the_header_is_corrected(
    claimed: int, codec: Codec, raw: RawConnection, topic: str
) -> None:
    made = wire.now_ms()
    batch = changed(wire.batch_of(b"one", b"two", timestamp=made, codec=codec), ">q", MAX_TIMESTAMP_AT, claimed)
    assert wire.produce(raw, topic, batch).error_code == 0
    ((header, stored),) = wire.stored_batches(raw, topic)
    assert header.max_timestamp == made
    assert crc_ok(stored, 0, len(stored))


def test_a_producer_cannot_claim_the_brokers_clock(raw: RawConnection, topic: str) -> None:
    made = wire.now_ms() - HOUR_MS
    batch = wire.batch_of(b"one", timestamp=made)
    assert wire.produce(raw, topic, changed(batch, ">h", ATTRIBUTES_AT, LOG_APPEND_TIME_BIT)).error_code == 0
    ((header, stored),) = wire.stored_batches(raw, topic)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.CREATE_TIME, made)
    assert crc_ok(stored, 0, len(stored))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_on_a_log_append_time_topic_the_broker_stamps_the_batch(
    codec: Codec, raw: RawConnection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = wire.now_ms()
    answer = wire.produce(raw, topic, wire.batch_of(b"one", b"two", timestamp=5, codec=codec))
    after = wire.now_ms()
    assert answer.error_code == 0
    assert before <= answer.log_append_time_ms <= after
    ((header, stored),) = wire.stored_batches(raw, topic)
    assert header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == answer.log_append_time_ms
    assert crc_ok(stored, 0, len(stored))
    assert {record.timestamp for record in decode_batch(stored, 0)} == {answer.log_append_time_ms}


def test_a_record_from_the_future_is_refused_by_its_number(raw: RawConnection, topic: str) -> None:
    now = wire.now_ms()
    times = [now, now + 2 * HOUR_MS, now, now + 3 * HOUR_MS]
    batch = encode_batch([BatchRecord(offset, time, b"key", b"value") for offset, time in enumerate(times)])
    answer = wire.produce(raw, topic, batch)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert answer.error_message
    assert (answer.base_offset, answer.log_start_offset) == (-1, 0)
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 0


def test_a_record_too_old_for_its_topic_is_refused(raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(configs={"message.timestamp.before.max.ms": "60000"})
    old = wire.batch_of(b"old", timestamp=wire.now_ms() - HOUR_MS)
    answer = wire.produce(raw, topic, old)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [0]
    assert wire.produced(raw, topic, b"new") == 0


def test_a_record_without_a_timestamp_is_accepted(raw: RawConnection, topic: str) -> None:
    assert wire.produced(raw, topic, b"timeless", timestamp=-1) == 0


# Compacted topics -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_a_compacted_topic_requires_keys(codec: Codec, raw: RawConnection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(configs={"cleanup.policy": "compact"})
    keys = [b"a", None, b"", None]
    now = wire.now_ms()
    batch = encode_batch([BatchRecord(offset, now, key, b"value") for offset, key in enumerate(keys)], codec=codec)
    answer = wire.produce(raw, topic, batch)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert all(error.batch_index_error_message for error in answer.record_errors)
    assert answer.error_message
    assert wire.produced(raw, topic, b"with keys") == 0


# Producers with ids ---------------------------------------------------------------------------------------------------


def numbered(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 4_711) -> bytearray:
    values = [b"sequence %d" % (sequence + number) for number in range(count)]
    return wire.batch_of(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def test_a_repeated_batch_is_answered_with_its_first_offset(raw: RawConnection, topic: str) -> None:
    batches = [numbered(sequence, 2) for sequence in (0, 2, 4, 6, 8)]
    offsets = [wire.produce(raw, topic, batch).base_offset for batch in batches]
    assert offsets == [0, 2, 4, 6, 8]
    # The broker remembers the last five batches.
    again = [wire.produce(raw, topic, batch) for batch in batches]
    assert [(answer.error_code, answer.base_offset) for answer in again] == [(0, offset) for offset in offsets]
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 10


def test_a_gap_in_the_sequence_is_refused(raw: RawConnection, topic: str) -> None:
    assert wire.produce(raw, topic, numbered(0)).error_code == 0
    assert wire.produce(raw, topic, numbered(2)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert wire.produce(raw, topic, numbered(1)).error_code == 0


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero(raw: RawConnection, topic: str) -> None:
    assert wire.produce(raw, topic, numbered(0, epoch=3)).error_code == 0
    assert wire.produce(raw, topic, numbered(1, epoch=2)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert wire.produce(raw, topic, numbered(1, epoch=4)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert wire.produce(raw, topic, numbered(0, epoch=4)).error_code == 0


def test_sequence_numbers_of_producers_are_independent(raw: RawConnection, topic: str) -> None:
    for producer in (1, 2):
        assert wire.produce(raw, topic, numbered(0, producer=producer)).error_code == 0
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 2


# Acknowledgements -----------------------------------------------------------------------------------------------------


def send_unacknowledged(connection: RawConnection, topic: str, records: Any) -> None:
    request = wire.produce_request(topic, [(0, records)], acks=0)
    connection.send(request.API_KEY, wire.PRODUCE_VERSION, request.encode(wire.PRODUCE_VERSION))


def test_without_acknowledgement_there_is_no_answer_only_the_next_one(raw: RawConnection, topic: str) -> None:
    for _ in range(3):
        send_unacknowledged(raw, topic, good())
    # `ask` checks the correlation id: the first frame is the answer to this request, not to an unacknowledged one.
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 9


def test_without_acknowledgement_an_error_closes_the_connection(bootstrap: str, topic: str, raw: RawConnection) -> None:
    with RawConnection(bootstrap) as careless:
        send_unacknowledged(careless, topic, changed(good(), ">I", CRC_AT, 12345, sealed=False))
        assert careless.closed_by_peer()
    assert wire.list_offset(raw, topic, wire.LATEST).offset == 0


def test_a_header_says_how_large_its_batch_is(raw: RawConnection, topic: str) -> None:
    sent = good()
    assert peek_header(sent).size == len(sent)
    wire.produce(raw, topic, sent)
    ((header, stored),) = wire.stored_batches(raw, topic)
    assert (header.base_offset, header.last_offset, header.count, len(stored)) == (0, 2, 3, len(sent))
