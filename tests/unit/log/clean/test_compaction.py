"""Rules of compaction: kept and removed records."""

from __future__ import annotations

import pytest

from moldau.log import file_names
from moldau.log.clean.job import CleaningFailed
from moldau.records import (
    BatchRecord,
    Codec,
    ControlType,
    TimestampType,
    decode_batch,
    encode_batch,
    parse_marker,
    peek_header,
)
from tests.unit.log.clean.support import (
    DAY,
    NOW,
    PersistentDirectory,
    batches,
    clean,
    committed,
    complete,
    end_transaction,
    offsets,
    path,
    put,
    records,
    with_settings,
)
from tests.unit.log.support import aborted_transactions


def test_the_last_record_of_each_key_stays_where_it_was() -> None:
    log = PersistentDirectory().log
    put(log, ("a", "1"), ("b", "1"), ("c", "1"))
    put(log, ("a", "2"))
    put(log, ("b", "2"), ("a", "3"))
    complete(log)
    clean(log)
    assert [(one.offset, one.key, one.value) for one in records(log)] == [
        (2, b"c", b"1"),
        (4, b"b", b"2"),
        (5, b"a", b"3"),
    ]
    assert log.end_offset == 6


def test_the_active_segment_is_left_alone_and_does_not_count() -> None:
    log = PersistentDirectory().log
    put(log, ("a", "1"))
    complete(log)
    put(log, ("a", "2"))
    cleaned = clean(log)
    assert cleaned.end_offset == 1
    assert offsets(log) == [0, 1]


def test_a_batch_that_loses_nothing_keeps_its_bytes() -> None:
    log = PersistentDirectory().log
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", "2"))
    put(log, ("c", "1"), ("d", "1"), codec=Codec.GZIP)
    complete(log)
    before = batches(log)
    clean(log)
    assert batches(log)[1:] == before[1:]


def test_a_segment_that_loses_nothing_is_not_replaced() -> None:
    directory = PersistentDirectory()
    put(directory.log, ("a", "1"), ("b", "1"))
    complete(directory.log)
    files = directory.files()
    assert clean(directory.log).replacements == []
    assert directory.files() == files


def test_a_rewritten_batch_keeps_everything_except_removed_records() -> None:
    log = PersistentDirectory().log
    put(
        log, ("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), codec=Codec.LZ4, producer_id=5, producer_epoch=3,
        base_sequence=70,
    )  # fmt: skip
    put(log, ("c", "2"))
    complete(log)
    before = peek_header(batches(log)[0])
    clean(log)
    found = batches(log)[0]
    after = peek_header(found)
    assert [record.offset for record in decode_batch(found)] == [1, 3]
    assert after._replace(size=0, crc=0, count=0) == before._replace(size=0, crc=0, count=0)


def test_records_without_a_key_are_removed() -> None:
    log = PersistentDirectory(with_settings(cleanup_policy="delete")).log
    log.append(memoryview(encode_batch([BatchRecord(0, NOW, None, b"x"), BatchRecord(1, NOW, b"k", b"v")])), 0, NOW)
    complete(log)
    clean(log)
    assert offsets(log) == [1]


@pytest.mark.parametrize("kind", list(TimestampType))
def test_the_latest_timestamp_is_that_of_the_records_that_stay(kind: TimestampType) -> None:
    log = PersistentDirectory(with_settings(message_timestamp_type=("CreateTime", "LogAppendTime")[kind])).log
    found = [BatchRecord(0, NOW - 5, b"a", b"1"), BatchRecord(1, NOW - 1, b"b", b"1")]
    log.append(memoryview(encode_batch(found)), 0, NOW)
    put(log, ("b", "2"))
    complete(log)
    clean(log)
    expected = NOW - 5 if kind is TimestampType.CREATE_TIME else NOW
    assert peek_header(batches(log)[0]).max_timestamp == expected
    assert records(log)[0].timestamp == expected


# -- deletes -----------------------------------------------------------------------------------------------------------


def test_a_tombstone_removes_its_key_at_once_and_stays_for_delete_retention() -> None:
    log = PersistentDirectory().log
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", None), ("c", "1"), timestamp=NOW + 7)
    complete(log)
    clean(log, now_ms=NOW + 10)
    assert offsets(log) == [1, 2, 3]
    marked = peek_header(batches(log)[1])
    assert marked.has_delete_horizon
    assert marked.base_timestamp == NOW + 10 + DAY
    assert [one.timestamp for one in decode_batch(batches(log)[1])] == [NOW + 7, NOW + 7]

    clean(log, now_ms=NOW + 9 + DAY)
    assert offsets(log) == [1, 2, 3]
    assert peek_header(batches(log)[1]) == marked  # the time does not begin again
    clean(log, now_ms=NOW + 10 + DAY)
    assert offsets(log) == [1, 3]
    assert committed(log) == {b"b": b"1", b"c": b"1"}


def test_the_time_of_a_delete_begins_when_a_cleaning_weighs_it() -> None:
    log = PersistentDirectory().log
    put(log, ("a", "1"))
    put(log, ("b", "1"))
    put(log, ("a", None))
    complete(log)
    # Memory for one key: this cleaning ends before it reaches the tombstone.
    cleaned = clean(log, slots=1)
    assert cleaned.end_offset == 1
    assert not any(peek_header(batch).has_delete_horizon for batch in batches(log))


def test_an_unlimited_delete_retention_is_supported() -> None:
    log = PersistentDirectory(with_settings(delete_retention_ms=2**63 - 1)).log
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", None))
    complete(log)
    clean(log)
    clean(log, now_ms=NOW + 1000 * DAY)
    assert offsets(log) == [1, 2]
    assert records(log)[1].timestamp == NOW


# -- transactions ------------------------------------------------------------------------------------------------------


def put_in_transaction(log: object, producer: int, sequence: int, *entries: tuple[str, str | None]) -> None:
    put(log, *entries, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)  # type: ignore[arg-type]


def test_aborted_records_are_removed_and_replace_nothing() -> None:
    log = PersistentDirectory().log
    put(log, ("a", "good"))
    put_in_transaction(log, 7, 0, ("a", "bad"), ("b", "bad"))
    put_in_transaction(log, 7, 2, ("c", "bad"))
    end_transaction(log, 7, commit=False)
    complete(log)
    before = committed(log)
    clean(log)
    assert [one.offset for one in records(log)] == [0]
    assert committed(log) == before == {b"a": b"good"}


def test_a_transaction_aborted_by_a_marker_in_a_later_segment_is_seen_as_aborted() -> None:
    log = PersistentDirectory().log
    put(log, ("a", "good"))
    put_in_transaction(log, 8, 0, ("x", "1"))
    put_in_transaction(log, 7, 0, ("a", "bad"))
    end_transaction(log, 8, commit=True)
    complete(log)
    end_transaction(log, 7, commit=False)
    complete(log)
    put(log, ("z", "1"))
    clean(log)
    assert committed(log) == {b"a": b"good", b"x": b"1", b"z": b"1"}


def test_nothing_at_or_after_an_open_transaction_is_cleaned() -> None:
    log = PersistentDirectory().log
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    complete(log)
    put_in_transaction(log, 7, 0, ("a", "3"))
    complete(log)
    put(log, ("a", "4"))
    complete(log)
    cleaned = clean(log)
    assert cleaned.end_offset == 2
    assert offsets(log) == [1, 2, 3]


def kinds(log: object) -> list[tuple[int, ControlType | None]]:
    return [
        (peek_header(one).base_offset, parse_marker(one).type if peek_header(one).count else None)
        for one in batches(log)  # type: ignore[arg-type]
        if peek_header(one).is_control
    ]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_stays_until_its_records_are_gone_and_its_time_has_passed(commit: bool) -> None:
    log = PersistentDirectory().log
    put_in_transaction(log, 7, 0, ("a", "1"))
    end_transaction(log, 7, commit=commit)
    put_in_transaction(log, 7, 1, ("b", "1"))
    end_transaction(log, 7, commit=True)
    put(log, ("a", "2"))
    put(log, ("z", "1"))
    complete(log)
    first = (1, ControlType.COMMIT if commit else ControlType.ABORT)
    clean(log)
    assert kinds(log)[0] == first  # the record is removed; its marker was needed for it
    clean(log, now_ms=NOW + 1)
    assert kinds(log)[0] == first  # the marker ends no records any more, so its time begins
    clean(log, now_ms=NOW + DAY)
    assert kinds(log)[0] == first
    clean(log, now_ms=NOW + 1 + DAY)
    assert kinds(log) == [(3, ControlType.COMMIT)]
    assert committed(log) == {b"a": b"2", b"b": b"1", b"z": b"1"}


def test_an_abort_is_listed_as_long_as_its_marker_ends_records() -> None:
    log = PersistentDirectory().log
    put_in_transaction(log, 7, 0, ("a", "bad"))
    end_transaction(log, 7, commit=False)
    put(log, ("b", "1"))
    complete(log)
    clean(log)
    assert [one.producer_id for one in aborted_transactions(log, 0, log.end_offset)] == [7]


# -- producers ---------------------------------------------------------------------------------------------------------


def test_the_last_sequence_of_an_active_producer_can_always_be_read() -> None:
    directory = PersistentDirectory()
    put(directory.log, ("a", "1"), ("a", "2"), producer_id=5, producer_epoch=1, base_sequence=40)
    put(directory.log, ("a", "3"))
    complete(directory.log)
    put(directory.log, ("b", "1"))
    complete(directory.log)
    clean(directory.log)
    assert [one.offset for one in records(directory.log)] == [2, 3]
    emptied = peek_header(batches(directory.log)[0])
    assert (emptied.count, emptied.producer_id, emptied.base_sequence, emptied.last_offset) == (0, 5, 40, 1)
    for name in directory.files():
        if name.endswith(file_names.SNAPSHOT):
            directory.fs.remove(path(directory.log, name))
    log = directory.restart()
    assert log.producers.producers[5].next_sequence == 42
    assert log.producers.producers[5].epoch == 1


def test_records_of_a_forgotten_producer_can_be_removed_completely() -> None:
    log = PersistentDirectory().log
    put(log, ("a", "1"), producer_id=5, producer_epoch=1, base_sequence=40)
    put(log, ("a", "2"))
    complete(log)
    log.producers.expire(NOW + DAY, DAY)
    clean(log)
    assert [peek_header(batch).base_offset for batch in batches(log)] == [1]


def test_an_emptied_control_batch_is_cleaned_without_an_error() -> None:
    directory = PersistentDirectory()
    put_in_transaction(directory.log, 7, 0, ("a", "1"))
    end_transaction(directory.log, 7, commit=True, epoch=1)  # a later epoch, which only the marker contains
    put(directory.log, ("a", "2"))
    complete(directory.log)
    for day in range(4):
        clean(directory.log, now_ms=NOW + day * DAY)
    assert kinds(directory.log) == [(1, None)]
    log = directory.restart()
    assert committed(log) == {b"a": b"2"}


# -- segments ----------------------------------------------------------------------------------------------------------


def test_small_segments_become_one_and_large_ones_stay_apart() -> None:
    directory = PersistentDirectory()
    for number in range(8):
        put(directory.log, ("a", "x" * 100), (f"{number}", "x" * 100))
        complete(directory.log)
    assert len(directory.log._segments.segments) == 9
    clean(directory.log)
    sizes = [segment.file.size for segment in directory.log._segments.segments]
    assert len(sizes) < 6
    assert max(sizes) <= directory.config.segment_bytes
    assert len(committed(directory.log)) == 9
    restarted = directory.restart()
    assert len(committed(restarted)) == 9


def test_offsets_and_times_are_found_in_a_cleaned_segment() -> None:
    log = PersistentDirectory(with_settings(segment_bytes=100_000, max_message_bytes=100_000)).log
    for number in range(200):
        put(log, (f"{number % 150}", "x" * 50), timestamp=NOW + number)
    complete(log)
    clean(log)
    assert log._segments.segments[0].on_disk_entries > 10
    assert offsets(log) == list(range(50, 200))
    for offset in (0, 49, 50, 123, 199):
        data = log.read(offset, 100, log.end_offset)
        assert data is not None
        assert peek_header(data).base_offset == max(50, offset)
    found = log.offset_for_timestamp(NOW + 120)
    assert found is not None and found.offset == 120
    latest = log.max_timestamp_offset()
    assert latest is not None and latest.offset == 199


def test_keys_that_do_not_fit_are_cleaned_in_several_passes() -> None:
    directory = PersistentDirectory(with_settings(segment_bytes=2000, max_message_bytes=2000))
    for turn in range(3):
        for number in range(20):
            put(directory.log, (f"{number}", f"{turn}"))
    complete(directory.log)
    expected = committed(directory.log)
    first, passes = 0, 0
    while first < directory.log._segments.bases[-1]:
        cleaned = clean(directory.log, first_dirty=first, slots=8)
        assert cleaned.end_offset > first
        first, passes = cleaned.end_offset, passes + 1
    assert passes > 2
    assert committed(directory.log) == expected
    assert len(records(directory.log)) == 20


@pytest.mark.parametrize("byte", [69, 70, 131])
def test_a_damaged_log_is_not_cleaned(byte: int) -> None:
    """One damaged byte: in a value, in an offset that no checksum covers, and in a value again."""
    directory = PersistentDirectory()
    put(directory.log, ("a", "1"))
    put(directory.log, ("a", "2"))
    complete(directory.log)
    inode = directory.disk._seen[path(directory.log, file_names.segment_file(0, file_names.LOG))]
    assert inode is not None
    inode.data[byte] ^= 1
    files = directory.files()
    cleaned = clean(directory.log)
    assert isinstance(cleaned.failure, CleaningFailed) and cleaned.failure.lasting
    assert cleaned.taken == 0
    assert directory.files() == files


def test_a_topic_with_both_policies_is_compacted_and_loses_old_segments() -> None:
    log = PersistentDirectory(with_settings(cleanup_policy="compact,delete", retention_ms=DAY)).log
    put(log, ("a", "1"), ("b", "1"), timestamp=NOW)
    put(log, ("a", "2"), timestamp=NOW)
    complete(log)
    put(log, ("c", "1"), timestamp=NOW + DAY)
    complete(log)
    clean(log)
    assert len(log._segments.segments) == 2, "the age of a merged segment must be that of its latest record"
    assert offsets(log) == [1, 2, 3]
    assert log.delete_old_segments(NOW + DAY, log.end_offset) == 0
    assert log.delete_old_segments(NOW + 2 * DAY + 1, log.end_offset) == 1
    assert log.start_offset == 4
    assert offsets(log) == []
