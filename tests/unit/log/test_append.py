"""Appends: accepted, refused and corrected batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.log.batch_validation import MAX_RECORD_ERRORS
from moldau.log.config import LogConfig
from moldau.log.errors import LogError, RejectedBatch
from moldau.log.log import AppendResult, Log
from moldau.records import (
    BatchRecord,
    Codec,
    ControlType,
    TimestampType,
    decode_batch,
    encode_batch,
    encode_marker,
    peek_header,
    reseal,
    set_timestamps,
)
from moldau.wire.errors import ErrorCode
from tests.unit.log.support import NOW, batch, new_log, offsets, read_all, split

HOUR = 3_600_000


def refused(log: Log, data: memoryview, now_ms: int = NOW) -> LogError:
    """The refusal of an append. The log must be unchanged."""
    before = (log.end_offset, log.size_bytes, log.latest_epoch, len(log.producers.producers))
    with pytest.raises(LogError) as error:
        log.append(data, 5, now_ms)
    assert (log.end_offset, log.size_bytes, log.latest_epoch, len(log.producers.producers)) == before
    return error.value


def first_batch(log: Log) -> bytes:
    data = log.read(log.start_offset, 1, log.end_offset)
    assert data is not None
    return split(data)[0]


def test_batches_get_the_offsets_that_follow_and_the_epoch_of_their_leader() -> None:
    log = new_log()
    assert log.append(batch(3), 7, NOW) == AppendResult(0, 2, -1, False)
    assert log.append(batch(2), 8, NOW) == AppendResult(3, 4, -1, False)
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert peek_header(first_batch(log)).leader_epoch == 7
    assert log.latest_epoch == 8
    assert log.appended_bytes == log.size_bytes == len(batch(3)) + len(batch(2))


def test_a_batch_above_max_message_bytes_is_too_large() -> None:
    data = batch(1, value=b"x" * 200)
    log = new_log(config=LogConfig(max_message_bytes=len(data) - 1))
    assert refused(log, data).code == ErrorCode.MESSAGE_TOO_LARGE
    log.config = replace(log.config, max_message_bytes=len(data))
    assert log.append(data, 0, NOW).first_offset == 0


def test_a_batch_above_segment_bytes_fits_no_segment() -> None:
    log = new_log(config=LogConfig(segment_bytes=100))
    assert refused(log, batch(1, value=b"x" * 200)).code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_as_invalid(magic: int) -> None:
    data = batch()
    data[16] = magic
    assert refused(new_log(), data).code == ErrorCode.INVALID_RECORD


def test_a_wrong_checksum_is_corrupt() -> None:
    data = batch()
    data[70] ^= 0xFF
    assert refused(new_log(), data).code == ErrorCode.CORRUPT_MESSAGE


def test_an_unknown_codec_is_unsupported() -> None:
    data = batch()
    data[22] |= 7
    reseal(data, 0, len(data))
    assert refused(new_log(), data).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(("field", "value"), [(57, 5), (23, 9)], ids=["count", "last offset"])
def test_a_header_that_disagrees_with_its_records_is_invalid(field: int, value: int) -> None:
    data = batch(3)
    data[field : field + 4] = value.to_bytes(4, "big")
    reseal(data, 0, len(data))
    assert refused(new_log(), data).code == ErrorCode.INVALID_RECORD


def test_a_request_has_one_batch_per_partition() -> None:
    two = memoryview(bytearray(bytes(batch()) + bytes(batch())))
    error = refused(new_log(), two)
    assert error.code == ErrorCode.INVALID_RECORD
    assert "one batch per partition" in error.message


def test_an_empty_request_is_refused() -> None:
    assert refused(new_log(), memoryview(bytearray())).code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_clients_cannot_write_control_batches() -> None:
    marker = encode_marker(ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
    log = new_log()
    assert refused(log, memoryview(marker)).code == ErrorCode.INVALID_RECORD
    log.append(memoryview(marker), 0, NOW, coordinator=True)
    assert log.end_offset == 1


def test_a_producer_without_a_sequence_is_invalid() -> None:
    assert refused(new_log(), batch(producer_id=1, sequence=-1)).code == ErrorCode.INVALID_RECORD


def test_a_compacted_topic_takes_no_record_without_a_key_and_says_which_it_was() -> None:
    log = new_log(config=LogConfig(cleanup_policy="compact,delete"))
    keys = (b"k", None, b"", None, b"k")
    data = encode_batch([BatchRecord(index, NOW, key, b"") for index, key in enumerate(keys)])
    error = refused(log, memoryview(data))
    assert isinstance(error, RejectedBatch)
    assert error.code == ErrorCode.INVALID_RECORD
    assert "2 of 5 records" in error.message
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert log.append(batch(), 0, NOW).first_offset == 0


def test_a_compacted_topic_names_no_more_records_than_a_response_should_have() -> None:
    log = new_log(config=LogConfig(cleanup_policy="compact"))
    count = MAX_RECORD_ERRORS + 5
    error = refused(log, memoryview(encode_batch([BatchRecord(index, NOW, None, b"") for index in range(count)])))
    assert isinstance(error, RejectedBatch)
    assert [index for index, _ in error.record_errors] == list(range(MAX_RECORD_ERRORS))
    assert f"{count} of {count} records" in error.message


def test_a_compacted_topic_refuses_a_batch_that_cannot_be_read_to_its_end_for_that_reason() -> None:
    log = new_log(config=LogConfig(cleanup_policy="compact"))
    data = encode_batch([BatchRecord(0, NOW, None, b"v"), BatchRecord(1, NOW, None, b"v")])
    data[-1] = 2  # the last record claims a header that does not exist
    reseal(data, 0, len(data))
    error = refused(log, memoryview(data))
    assert isinstance(error, RejectedBatch)
    assert error.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1]
    assert "header" in error.message


@pytest.mark.parametrize("codec", list(Codec))
def test_records_too_far_from_now_are_refused_one_by_one(codec: Codec) -> None:
    log = new_log(config=LogConfig(message_timestamp_before_max_ms=HOUR, message_timestamp_after_max_ms=2 * HOUR))
    times = [NOW, NOW - HOUR, NOW - HOUR - 1, NOW + 2 * HOUR, NOW + 2 * HOUR + 1]
    data = encode_batch([BatchRecord(number, time, b"k", b"v") for number, time in enumerate(times)], codec=codec)
    error = refused(log, memoryview(data))
    assert isinstance(error, RejectedBatch)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [2, 4]


def test_a_record_without_a_timestamp_is_neither_too_old_nor_too_new() -> None:
    log = new_log(config=LogConfig(message_timestamp_before_max_ms=HOUR))
    data = encode_batch([BatchRecord(0, -1, b"k", b"v"), BatchRecord(1, NOW, b"k", b"v")])
    assert log.append(memoryview(data), 0, NOW).last_offset == 1


def test_a_wrong_largest_timestamp_is_corrected() -> None:
    log = new_log()
    data = batch(3, timestamp=NOW, step=10)
    set_timestamps(data, 0, len(data), TimestampType.CREATE_TIME, NOW + 5)
    log.append(data, 0, NOW)
    stored = first_batch(log)
    assert peek_header(stored).max_timestamp == NOW + 20
    assert [record.timestamp for record in decode_batch(stored)] == [NOW, NOW + 10, NOW + 20]


def test_log_append_time_replaces_the_producers_timestamps() -> None:
    log = new_log(config=LogConfig(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=1))
    result = log.append(batch(3, timestamp=5), 0, NOW)
    assert result.log_append_time_ms == NOW
    stored = first_batch(log)
    assert peek_header(stored).timestamp_type == TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in decode_batch(stored)] == [NOW] * 3
    assert log.offset_for_timestamp(NOW) == (NOW, 0, 0)


def test_a_producer_cannot_claim_log_append_time() -> None:
    data = batch()
    set_timestamps(data, 0, len(data), TimestampType.LOG_APPEND_TIME, NOW)
    log = new_log(config=LogConfig(message_timestamp_type="LogAppendTime"))
    assert refused(log, data).code == ErrorCode.INVALID_TIMESTAMP


def test_a_claim_of_log_append_time_is_removed_if_producers_set_the_time() -> None:
    data = batch()
    set_timestamps(data, 0, len(data), TimestampType.LOG_APPEND_TIME, NOW)
    log = new_log()
    log.append(data, 0, NOW)
    assert peek_header(first_batch(log)).timestamp_type == TimestampType.CREATE_TIME


@pytest.mark.parametrize("codec", list(Codec))
def test_the_producers_bytes_are_kept_if_the_topic_has_no_codec(codec: Codec) -> None:
    log = new_log()
    data = batch(5, value=b"x" * 50, codec=codec)
    log.append(data, 3, NOW)
    assert first_batch(log) == bytes(data)


@pytest.mark.parametrize("sent", list(Codec))
@pytest.mark.parametrize(
    ("asked", "stored_as"),
    [
        ("uncompressed", Codec.NONE),
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
    ],
)
def test_batches_are_stored_in_the_codec_that_the_topic_asks_for(asked: str, stored_as: Codec, sent: Codec) -> None:
    log = new_log(config=LogConfig(compression_type=asked))
    log.append(batch(5, value=b"x" * 50, codec=sent, producer_id=3), 3, NOW)
    stored = first_batch(log)
    assert peek_header(stored).codec_id == stored_as
    assert [record.value for record in decode_batch(stored)] == [b"x" * 50] * 5
    assert log.append(batch(5, value=b"x" * 50, codec=sent, producer_id=3), 3, NOW).duplicate


def test_a_batch_that_only_becomes_too_large_by_being_decompressed_is_refused() -> None:
    log = new_log(config=LogConfig(compression_type="uncompressed", max_message_bytes=500))
    assert refused(log, batch(1, value=b"x" * 5000, codec=Codec.ZSTD)).code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_changed_setting_applies_to_the_next_batch() -> None:
    log = new_log()
    log.append(batch(), 0, NOW)
    log.config = replace(log.config, message_timestamp_type="LogAppendTime", cleanup_policy="compact")
    assert refused(log, batch(key=None)).code == ErrorCode.INVALID_RECORD
    log.append(batch(timestamp=7), 0, NOW + 1)
    assert [record.timestamp for record in read_all(log)] == [NOW, NOW + 1]


# -- batches with assigned offsets -----------------------------------------------------------------------------------


def stamped(base: int, count: int = 2, epoch: int = 1) -> bytes:
    return bytes(
        encode_batch(
            [BatchRecord(base + n, NOW, b"k", b"v") for n in range(count)], base_offset=base, leader_epoch=epoch
        )
    )


def test_a_follower_keeps_the_offsets_and_epochs_of_its_leader() -> None:
    log = new_log(config=LogConfig(segment_bytes=200))
    data = stamped(0) + stamped(2, epoch=2) + stamped(7, epoch=2) + stamped(9, epoch=4)
    assert log.append_stamped(memoryview(bytearray(data)), NOW) == len(data)
    assert offsets(log) == [0, 1, 2, 3, 7, 8, 9, 10]
    assert log.epochs.entries() == [(1, 0), (2, 2), (4, 9)]
    assert b"".join(split(log.read(0, 1, 11) or memoryview(b""))) == stamped(0)


def test_a_batch_that_is_cut_off_at_the_end_of_a_fetch_is_left_for_the_next() -> None:
    log = new_log()
    data = stamped(0) + stamped(2)[:-1]
    assert log.append_stamped(memoryview(bytearray(data)), NOW) == len(stamped(0))
    assert offsets(log) == [0, 1]


@pytest.mark.parametrize("second", [stamped(1), stamped(0), stamped(2)[:-1] + b"\xff"], ids=["overlap", "again", "bad"])
def test_stamped_batches_out_of_order_or_damaged_are_refused_before_any_is_written(second: bytes) -> None:
    log = new_log()
    with pytest.raises(LogError):
        log.append_stamped(memoryview(bytearray(stamped(0) + second)), NOW)
    assert (log.end_offset, log.size_bytes) == (0, 0)


def test_an_offset_too_far_from_the_segments_first_begins_a_new_one() -> None:
    log = new_log()
    far = 3_000_000_000
    log.append_stamped(memoryview(bytearray(stamped(far))), NOW)
    log.append_stamped(memoryview(bytearray(stamped(2 * far))), NOW)
    assert [name for name in log.data_dir.fs.listdir(log.directory) if name.endswith(".log")] == [
        f"{far:020d}.log",
        f"{2 * far:020d}.log",
    ]
    assert (log.end_offset, log.first_base_offset) == (2 * far + 2, far)
