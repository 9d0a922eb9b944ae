"""Round trips of batches in every codec, also after stamping and recompressing."""

import pytest

from moldau.records import (
    HEADER_SIZE,
    BatchRecord,
    Codec,
    ControlType,
    CorruptBatch,
    InvalidBatch,
    TimestampType,
    check_batch,
    crc_ok,
    decode_batch,
    encode_batch,
    encode_marker,
    parse_marker,
    peek_header,
    recompress,
    set_timestamps,
    stamp,
    walk,
)

RECORDS = [
    BatchRecord(
        100 + i,
        1_700_000_000_000 + (i * 37) % 11,
        None if i % 3 == 0 else b"key-%d" % i,
        None if i % 4 == 0 else b"value" * i,
        (("trace", b"abc"), ("größe", None), ("", b"")) if i % 5 == 0 else (),
    )
    for i in range(50)
]


@pytest.mark.parametrize("codec", Codec)
def test_records_come_back_as_they_were_written(codec: Codec) -> None:
    assert decode_batch(encode_batch(RECORDS, codec=codec)) == RECORDS


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("target", Codec)
def test_recompression_changes_the_codec_and_nothing_else(codec: Codec, target: Codec) -> None:
    batch = encode_batch(RECORDS, codec=codec, producer_id=7, producer_epoch=1, base_sequence=9, leader_epoch=4)
    again = recompress(b"junk" + batch, 4, target)
    assert decode_batch(again) == RECORDS
    before, after = peek_header(batch), peek_header(again)
    assert after.codec_id == target
    assert after._replace(size=0, crc=0, attributes=0) == before._replace(size=0, crc=0, attributes=0)


def test_the_check_returns_the_facts_of_the_batch() -> None:
    batch = encode_batch(RECORDS, producer_id=7, producer_epoch=1, base_sequence=9, leader_epoch=4, transactional=True)
    info = check_batch(batch, 0)
    timestamps = [record.timestamp for record in RECORDS]
    assert (info.base_offset, info.last_offset, info.count, info.size) == (100, 149, 50, len(batch))
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.leader_epoch) == (7, 1, 9, 4)
    assert info.is_transactional
    assert not info.is_control
    assert (info.first_timestamp, info.min_record_timestamp) == (timestamps[0], min(timestamps))
    assert info.max_record_timestamp == info.max_timestamp == max(timestamps)
    assert info.offset_delta_of_max_timestamp == timestamps.index(max(timestamps))


def test_stamping_moves_a_batch_without_touching_its_checksum() -> None:
    batch = encode_batch(RECORDS)
    stamp(batch, 0, 5_000_000_000, 12)
    assert crc_ok(batch, 0, len(batch))
    assert [record.offset for record in decode_batch(batch)] == list(range(5_000_000_000, 5_000_000_050))
    assert peek_header(batch).leader_epoch == 12


def test_log_append_time_becomes_every_records_timestamp() -> None:
    batch = encode_batch(RECORDS)
    set_timestamps(batch, 0, len(batch), TimestampType.LOG_APPEND_TIME, 42)
    assert {record.timestamp for record in decode_batch(batch)} == {42}
    info = check_batch(batch, 0)
    assert (info.min_record_timestamp, info.max_record_timestamp, info.offset_delta_of_max_timestamp) == (42, 42, 0)
    set_timestamps(batch, 0, len(batch), TimestampType.CREATE_TIME, RECORDS[0].timestamp + 10)
    assert decode_batch(batch) == RECORDS


@pytest.mark.parametrize("codec", Codec)
def test_columns_point_at_keys_values_and_records(codec: Codec) -> None:
    columns = walk(b"\x00" * 3 + encode_batch(RECORDS, codec=codec), 3)
    assert len(columns) == len(RECORDS)
    for i, record in enumerate(RECORDS):
        key_at, key_size, value_at, value_size = (
            column[i] for column in (columns.key_at, columns.key_size, columns.value_at, columns.value_size)
        )
        assert (None if key_size < 0 else bytes(columns.data[key_at : key_at + key_size])) == record.key
        assert (None if value_size < 0 else bytes(columns.data[value_at : value_at + value_size])) == record.value
        assert (columns.offset[i], columns.timestamp[i]) == (record.offset, record.timestamp)
        assert columns.header_count[i] == len(record.headers)
    assert list(columns.record_at) == sorted(columns.record_at)


def test_compacted_batches_keep_their_span_and_may_be_empty() -> None:
    kept = RECORDS[3:40:7]
    batch = encode_batch(kept, base_offset=100, last_offset=149)
    assert decode_batch(batch) == kept
    assert check_batch(batch, 0, allow_gaps=True).last_offset == 149
    with pytest.raises(InvalidBatch, match="last offset delta"):
        check_batch(batch, 0)
    empty = encode_batch([], base_offset=100, last_offset=149)
    assert len(empty) == HEADER_SIZE
    assert decode_batch(empty) == []
    assert check_batch(empty, 0, allow_gaps=True).offset_delta_of_max_timestamp == -1


def test_offsets_that_do_not_rise_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="cannot follow"):
        encode_batch([BatchRecord(5), BatchRecord(5)])
    with pytest.raises(ValueError, match="cannot end"):
        encode_batch([BatchRecord(5), BatchRecord(9)], last_offset=8)


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_transaction_markers_are_read_back(kind: ControlType) -> None:
    batch = encode_marker(
        kind, producer_id=3, producer_epoch=2, coordinator_epoch=17, timestamp=99, base_offset=1000, leader_epoch=5
    )
    marker = parse_marker(batch)
    assert (marker.offset, marker.timestamp, marker.type, marker.coordinator_epoch) == (1000, 99, kind, 17)
    assert check_batch(batch, 0, allow_control=True).is_control
    with pytest.raises(InvalidBatch, match="control"):
        check_batch(batch, 0)


def test_a_marker_of_a_later_kafka_is_unknown_not_an_error() -> None:
    later = encode_batch([BatchRecord(0, 1, b"\x00\x05\x00\x63", b"?")], control=True)
    assert parse_marker(later).type is ControlType.UNKNOWN


def test_only_commit_and_abort_markers_are_written() -> None:
    with pytest.raises(ValueError, match="does not end"):
        encode_marker(ControlType.LEADER_CHANGE, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0)


def test_a_header_is_peeked_only_where_there_is_one() -> None:
    batch = encode_batch(RECORDS)
    with pytest.raises(CorruptBatch, match="60 are left"):
        peek_header(batch[:60])
    batch[8:12] = (10).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="smaller than its header"):
        peek_header(batch)
