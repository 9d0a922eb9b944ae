"""Producer state of a log: idempotence and transactions."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.log import producer_history
from moldau.log.aborted import AbortedTxn, decode_aborted, encode_aborted
from moldau.log.config import LogConfig
from moldau.log.errors import LogError, StorageError
from moldau.log.log import AppendResult, Log
from moldau.log.producer_state import (
    MAX_SEQUENCE,
    BadSnapshotError,
    ProducerStates,
    last_sequence_of,
)
from moldau.records import ControlType, crc32c, encode_marker
from moldau.wire.errors import ErrorCode
from tests.unit.log.support import NOW, aborted_transactions, append_all, batch, file_system, flush, new_log, reload

OK = None
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
OLD = ErrorCode.INVALID_PRODUCER_EPOCH
NO_TXN = ErrorCode.INVALID_TXN_STATE

# The appended batches as (epoch, first sequence, last sequence); then the next batch and its answer.
SEQUENCES = [
    ("a producer that nobody knows may begin anywhere", [], (0, 17, 20), OK),
    ("the next sequence", [(0, 0, 4)], (0, 5, 5), OK),
    ("a gap", [(0, 0, 4)], (0, 6, 6), GAP),
    ("a sequence of the past that is not remembered", [(0, 10, 14)], (0, 3, 4), GAP),
    ("part of a batch that is remembered", [(0, 0, 4)], (0, 0, 3), GAP),
    ("a new epoch begins with 0", [(0, 0, 4)], (1, 0, 0), OK),
    ("a new epoch that begins elsewhere", [(0, 0, 4)], (1, 5, 5), GAP),
    ("an epoch of the past", [(3, 0, 4)], (2, 5, 5), OLD),
    ("an epoch of the past, even as a retry", [(2, 0, 4), (3, 0, 0)], (2, 0, 4), OLD),
    ("0 follows the largest sequence", [(0, MAX_SEQUENCE - 4, MAX_SEQUENCE)], (0, 0, 0), OK),
    ("a batch may wrap around", [(0, MAX_SEQUENCE - 9, MAX_SEQUENCE - 5)], (0, MAX_SEQUENCE - 4, 2), OK),
    ("after a wrap the count goes on", [(0, MAX_SEQUENCE - 1, 2)], (0, 3, 3), OK),
    ("after a wrap a gap is a gap", [(0, MAX_SEQUENCE - 1, 2)], (0, 4, 4), GAP),
]


def states_with(history: list[tuple[int, int, int]]) -> ProducerStates:
    states = ProducerStates()
    offset = 0
    for epoch, first, last in history:
        count = (last - first) % (MAX_SEQUENCE + 1)
        states.applied(7, epoch, first, last, offset, offset + count, NOW, False)
        offset += count + 1
    return states


@pytest.mark.parametrize(("history", "comes", "answer"), [row[1:] for row in SEQUENCES], ids=[r[0] for r in SEQUENCES])
def test_sequences(history: list[tuple[int, int, int]], comes: tuple[int, int, int], answer: ErrorCode | None) -> None:
    states = states_with(history)
    if answer is None:
        assert states.admit(7, *comes, transactional=False) is None
    else:
        with pytest.raises(LogError) as refused:
            states.admit(7, *comes, transactional=False)
        assert refused.value.code == answer


def test_each_of_the_last_five_batches_is_recognised_and_answers_its_own_offsets() -> None:
    states = states_with([(0, first, first + 1) for first in range(0, 14, 2)])
    for first in range(4, 14, 2):
        again = states.admit(7, 0, first, first + 1, False)
        assert again is not None
        assert (again.first_offset, again.last_offset) == (first, first + 1)
    with pytest.raises(LogError) as refused:
        states.admit(7, 0, 2, 3, False)
    assert refused.value.code == GAP


def test_a_retry_is_answered_with_the_original_offsets_and_not_appended() -> None:
    log = new_log(config=LogConfig(message_timestamp_type="LogAppendTime"))
    log.append(batch(3, producer_id=1, sequence=0), 0, NOW)
    log.append(batch(2, producer_id=2, sequence=0), 0, NOW)
    log.append(batch(2, producer_id=1, sequence=3), 0, NOW + 5)
    assert log.append(batch(3, producer_id=1, sequence=0), 0, NOW + 9) == AppendResult(0, 2, NOW, True)
    assert log.append(batch(2, producer_id=1, sequence=3), 0, NOW + 9) == AppendResult(5, 6, NOW + 5, True)
    assert log.end_offset == 7


def test_an_open_transaction_takes_only_batches_that_belong_to_it() -> None:
    log = new_log()
    log.append(batch(producer_id=1, sequence=0, transactional=True), 0, NOW)
    with pytest.raises(LogError) as refused:
        log.append(batch(producer_id=1, sequence=1), 0, NOW)
    assert refused.value.code == NO_TXN


def test_silent_producers_are_forgotten_unless_their_transaction_is_open() -> None:
    states = ProducerStates()
    states.applied(1, 0, 0, 0, 0, 0, NOW, False)
    states.applied(2, 0, 0, 0, 1, 1, NOW + 500, False)
    states.applied(3, 0, 0, 0, 2, 2, NOW, True)
    assert states.expire(NOW + 999, 1000) == 0
    assert states.expire(NOW + 1000, 1000) == 1
    assert sorted(states.producers) == [2, 3]


# -- snapshots -------------------------------------------------------------------------------------------------------


def test_a_snapshot_has_kafkas_bytes() -> None:
    states = ProducerStates(42)
    states.applied(1000, 3, 5, 9, 36, 40, NOW, True)
    data = states.encode()
    entry = struct.pack(">qhiqiqiq", 1000, 3, 9, 40, 4, NOW, -1, 36)
    body = struct.pack(">i", 1) + entry
    assert data == struct.pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_restores_the_state_for_idempotence() -> None:
    states = states_with([(0, first, first) for first in range(7)])
    states.applied(8, 2, MAX_SEQUENCE - 1, 1, 7, 10, NOW + 1, True)
    again = ProducerStates.decode(states.encode(), 11)
    assert again.end_offset == 11
    assert again.encode() == states.encode()
    duplicate = again.admit(8, 2, MAX_SEQUENCE - 1, 1, True)
    assert duplicate is not None
    assert (duplicate.first_offset, duplicate.last_offset) == (7, 10)
    assert again.admit(8, 2, 2, 2, True) is None
    assert again.admit(7, 0, 7, 7, False) is None
    assert again.first_unstable_offset(100) == 7
    assert again.open_transactions() == [(8, 7)]


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 10, 30, 55])
def test_a_torn_snapshot_is_not_used(cut: int) -> None:
    data = states_with([(0, 0, 4)]).encode()
    assert len(data) == 56
    with pytest.raises(BadSnapshotError):
        ProducerStates.decode(data[:cut], 0)


@pytest.mark.parametrize("position", [0, 1, 2, 6, 9, 10, 40])
def test_a_snapshot_with_a_changed_byte_is_not_used(position: int) -> None:
    data = bytearray(states_with([(0, 0, 4)]).encode())
    data[position] ^= 0x40
    with pytest.raises(BadSnapshotError):
        ProducerStates.decode(bytes(data), 0)


def test_sequences_are_remembered_over_a_clean_stop_and_over_a_crash() -> None:
    log = new_log(config=LogConfig(segment_bytes=300))
    for number in range(10):
        log.append(batch(1, value=b"x" * 20, producer_id=4, epoch=1, sequence=number), 0, NOW)
    flush(log)
    for come_back in (reload, partly_recovered, closed_and_loaded):
        found = come_back(log)
        assert found.append(batch(1, value=b"x" * 20, producer_id=4, epoch=1, sequence=9), 0, NOW).duplicate
        with pytest.raises(LogError) as refused:
            found.append(batch(producer_id=4, epoch=1, sequence=11), 0, NOW)
        assert refused.value.code == GAP


def cut_after_a_roll(log: Log) -> Log:
    log.roll(NOW)
    log.append(batch(1, producer_id=5, sequence=0), 0, NOW)
    log.truncate_to(log.end_offset - 1, NOW)
    return log


def partly_recovered(log: Log) -> Log:
    return reload(log, recovery_point=log.recovery_point)


def closed_and_loaded(log: Log) -> Log:
    found = reload(log)
    found.close(NOW)
    return reload(found, clean=True)


def closed_and_opened(log: Log) -> Log:
    found = reload(log)
    state = found.close(NOW)
    return Log.from_state(state, found.data_dir, found.config)


@pytest.mark.parametrize("segment_bytes", [300, 2**20])
@pytest.mark.parametrize(
    "come_back", [reload, partly_recovered, closed_and_loaded, closed_and_opened, cut_after_a_roll]
)
def test_the_last_five_batches_are_recognised_after_every_kind_of_restart(
    come_back: Callable[[Log], Log], segment_bytes: int
) -> None:
    log = new_log(config=LogConfig(segment_bytes=segment_bytes))
    for number in range(10):
        log.append(batch(1, value=b"x" * 20, producer_id=4, epoch=1, sequence=number), 0, NOW)
        log.append(batch(1, value=b"x" * 20), 0, NOW)
    flush(log)
    found = come_back(log)
    for number in (5, 9, 6, 8, 7):
        again = found.append(batch(1, value=b"x" * 20, producer_id=4, epoch=1, sequence=number), 0, NOW)
        assert (again.first_offset, again.duplicate) == (2 * number, True)
    for number in (4, 11):
        with pytest.raises(LogError) as refused:
            found.append(batch(producer_id=4, epoch=1, sequence=number), 0, NOW)
        assert refused.value.code == GAP
    assert found.append(batch(producer_id=4, epoch=1, sequence=10), 0, NOW).first_offset == 20


@given(
    sent=st.lists(st.tuples(st.integers(-1, 3), st.integers(1, 3)), max_size=60),
    segment_bytes=st.sampled_from([300, 1000, 2**20]),
    step_bytes=st.sampled_from([1, 200, 1000]),
)
def test_scanning_the_log_finds_the_state_of_an_undisturbed_log(
    sent: list[tuple[int, int]], segment_bytes: int, step_bytes: int
) -> None:
    log = new_log(config=LogConfig(segment_bytes=segment_bytes, index_interval_bytes=150))
    sequences = dict.fromkeys(range(4), 0)
    for producer_id, count in sent:
        log.append(batch(count, producer_id=producer_id, sequence=sequences.get(producer_id, -1)), 0, NOW)
        if producer_id >= 0:
            sequences[producer_id] += count
    expected = {producer_id: one.batches for producer_id, one in log.producers.producers.items()}
    found = closed_and_loaded(log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer_history, "STEP_BYTES", step_bytes)
        for producer_id, batches in expected.items():
            for one in batches:
                count = one.last_sequence - one.first_sequence + 1
                again = found.append(batch(count, producer_id=producer_id, sequence=one.first_sequence), 0, NOW)
                assert again == AppendResult(one.first_offset, one.last_offset, -1, True)
    assert {producer_id: one.batches for producer_id, one in found.producers.producers.items()} == expected
    assert found.end_offset == log.end_offset


def test_batches_of_an_earlier_epoch_are_not_recalled() -> None:
    log = new_log()
    for number in range(3):
        log.append(batch(producer_id=4, epoch=1, sequence=number), 0, NOW)
    for number in range(2):
        log.append(batch(producer_id=4, epoch=2, sequence=number), 0, NOW)
    found = closed_and_loaded(log)
    assert found.append(batch(producer_id=4, epoch=2, sequence=0), 0, NOW).first_offset == 3
    with pytest.raises(LogError) as refused:
        found.append(batch(producer_id=4, epoch=1, sequence=1), 0, NOW)
    assert refused.value.code == OLD


def test_how_far_a_log_looks_back_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_history, "STEP_BYTES", 100)
    monkeypatch.setattr(producer_history, "LOOK_BACK_BYTES", 5 * producer_history.BATCH_COST_BYTES)
    log = new_log(config=LogConfig(index_interval_bytes=0))
    for number in range(2):
        log.append(batch(producer_id=4, sequence=number), 0, NOW)
        append_all(log, 20)
    found = closed_and_loaded(log)
    with pytest.raises(LogError) as refused:
        found.append(batch(producer_id=4, sequence=0), 0, NOW)
    assert refused.value.code == GAP


def test_last_sequence_of_a_batch() -> None:
    assert last_sequence_of(0, 0) == 0
    assert last_sequence_of(5, 4) == 9
    assert last_sequence_of(MAX_SEQUENCE, 0) == MAX_SEQUENCE
    assert last_sequence_of(MAX_SEQUENCE, 1) == 0
    assert last_sequence_of(MAX_SEQUENCE - 1, 3) == 1


# -- transactions ----------------------------------------------------------------------------------------------------


def begin(log: Log, producer_id: int, sequence: int = 0, epoch: int = 0) -> None:
    log.append(batch(2, producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=True), 0, NOW)


def end(log: Log, producer_id: int, how: ControlType, *, epoch: int = 0, coordinator_epoch: int = 0) -> None:
    marker = encode_marker(
        how, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=NOW
    )
    log.append(memoryview(marker), 0, NOW, coordinator=True)


def two_transactions() -> Log:
    """Producer 1 open from 0, producer 2 open from 2 and aborted at 6, producer 1 committed at 7, producer 3 open from
    8."""
    log = new_log()
    begin(log, 1)
    begin(log, 2)
    begin(log, 1, sequence=2)
    end(log, 2, ControlType.ABORT)
    assert log.last_stable_offset == 0
    end(log, 1, ControlType.COMMIT)
    assert log.last_stable_offset == 8
    begin(log, 3)
    assert (log.last_stable_offset, log.end_offset) == (8, 10)
    return log


def test_the_last_stable_offset_holds_at_the_oldest_open_transaction() -> None:
    log = two_transactions()
    end(log, 3, ControlType.COMMIT)
    assert log.last_stable_offset == log.end_offset == 11


def test_a_transaction_stays_undecided_until_its_marker_is_below_the_high_watermark() -> None:
    log = new_log()
    begin(log, 1)
    end(log, 1, ControlType.COMMIT)
    assert log.stable_offset(2) == 0
    assert log.stable_offset(3) == 3
    assert log.last_stable_offset == 3


def test_aborted_transactions_are_listed_for_the_offsets_that_they_touch() -> None:
    log = two_transactions()
    aborted = AbortedTxn(producer_id=2, first_offset=2, last_offset=6, last_stable_offset=0)
    assert aborted_transactions(log, 0, 10) == [aborted]
    assert aborted_transactions(log, 6, 10) == [aborted]
    assert aborted_transactions(log, 7, 10) == []
    assert aborted_transactions(log, 0, 2) == []


def test_transactions_are_remembered_over_a_clean_stop_and_over_a_crash() -> None:
    for come_back in (reload, closed_and_loaded):
        found = come_back(two_transactions())
        assert found.last_stable_offset == 8
        assert [one.producer_id for one in aborted_transactions(found, 0, 10)] == [2]
        end(found, 3, ControlType.ABORT)
        assert found.last_stable_offset == 11
        assert [one.producer_id for one in aborted_transactions(found, 0, 11)] == [2, 3]


def test_aborted_transactions_of_complete_segments_are_read_from_their_index() -> None:
    log = new_log()
    for producer_id in range(5):
        begin(log, producer_id)
        end(log, producer_id, ControlType.ABORT)
        log.roll(NOW)
    flush(log)
    found = reload(log, clean=True)
    assert [one.producer_id for one in aborted_transactions(found, 3, 12)] == [1, 2, 3]
    name = f"{log.directory}/{3:020d}.txnindex"
    assert log.data_dir.fs.read_bytes(name) == struct.pack(">hqqqq", 0, 1, 3, 5, 6)


@pytest.mark.parametrize("kind", ["timeindex", "txnindex", "snapshot"])
def test_aborted_transactions_are_kept_if_a_full_disk_refused_the_first_write_of_their_index(kind: str) -> None:
    log = new_log()
    begin(log, 1)
    end(log, 1, ControlType.ABORT)
    log.roll(NOW)
    fs = file_system(log)
    fs.fail("pwritev", errno.ENOSPC, path=f"*.{kind}.*")
    with pytest.raises(StorageError):
        flush(log)
    flush(log)
    found = reload(log, recovery_point=log.recovery_point)
    assert log.recovery_point == 3
    assert [one.producer_id for one in aborted_transactions(found, 0, 3)] == [1]


def test_a_truncation_opens_a_transaction_again() -> None:
    log = two_transactions()
    log.truncate_to(6, NOW)
    assert aborted_transactions(log, 0, 10) == []
    assert log.last_stable_offset == 0
    assert log.producers.open_transactions() == [(1, 0), (2, 2)]


def test_a_marker_of_an_older_coordinator_or_producer_epoch_is_fenced() -> None:
    log = new_log()
    begin(log, 1, epoch=4)
    end(log, 1, ControlType.COMMIT, epoch=4, coordinator_epoch=6)
    for epoch, coordinator_epoch, code in ((4, 5, ErrorCode.TRANSACTION_COORDINATOR_FENCED), (3, 6, OLD)):
        with pytest.raises(LogError) as refused:
            end(log, 1, ControlType.ABORT, epoch=epoch, coordinator_epoch=coordinator_epoch)
        assert refused.value.code == code


def test_a_marker_of_a_higher_epoch_fences_the_producer_and_restarts_its_sequences() -> None:
    log = new_log()
    begin(log, 1)
    end(log, 1, ControlType.ABORT, epoch=1)
    with pytest.raises(LogError) as refused:
        begin(log, 1, sequence=2)
    assert refused.value.code == OLD
    begin(log, 1, epoch=1)
    assert log.last_stable_offset == 3


def test_a_marker_without_records_before_it_leaves_no_trace() -> None:
    log = new_log()
    end(log, 5, ControlType.ABORT)
    assert log.last_stable_offset == 1
    assert aborted_transactions(log, 0, 1) == []


def test_the_entries_of_a_transaction_index_survive_and_a_torn_one_ends_them() -> None:
    entries = [AbortedTxn(1, 2, 3, 4), AbortedTxn(5, 6, 7, 8)]
    data = encode_aborted(entries)
    assert len(data) == 68
    assert decode_aborted(data, "f") == entries
    assert decode_aborted(data[:-1], "f") == entries[:1]
    assert decode_aborted(data[:34] + b"\0\x01" + data[36:], "f") == entries[:1]
