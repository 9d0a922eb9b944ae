"""Leader epochs: answers of OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest

from moldau.log.checkpoints import BadCheckpointError
from moldau.log.epochs import LeaderEpochs
from tests.unit.log.support import NOW, append_all, batch, flush, new_log

# Epochs 2, 3 and 6 began at 0, 10 and 30; the log ends at 50.
ENTRIES = [(2, 0), (3, 10), (6, 30)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 0)),
        (2, (2, 10)),
        (3, (3, 30)),
        (4, (3, 30)),
        (5, (3, 30)),
        (6, (6, 50)),
        (7, (-1, -1)),
    ],
    ids=["none", "before all", "first", "middle", "missing", "missing too", "the latest", "beyond all"],
)
def test_the_end_of_an_epoch(asked: int, answer: tuple[int, int]) -> None:
    assert LeaderEpochs.of(ENTRIES).end_offset(asked, 50) == answer


def test_an_empty_cache_knows_nothing() -> None:
    assert LeaderEpochs().end_offset(0, 5) == (-1, -1)
    assert LeaderEpochs().latest == -1
    assert LeaderEpochs().epoch_at(0) == -1


@pytest.mark.parametrize(("offset", "epoch"), [(0, 2), (9, 2), (10, 3), (29, 3), (30, 6), (1000, 6)])
def test_the_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert LeaderEpochs.of(ENTRIES).epoch_at(offset) == epoch


@pytest.mark.parametrize(
    ("epoch", "offset", "entries"),
    [
        (6, 40, ENTRIES),
        (7, 40, [*ENTRIES, (7, 40)]),
        (7, 30, [(2, 0), (3, 10), (7, 30)]),
        (7, 10, [(2, 0), (7, 10)]),
        (3, 20, [(2, 0), (3, 20)]),
        (9, 0, [(9, 0)]),
    ],
    ids=[
        "the same",
        "a new one",
        "replaces an empty one",
        "after a truncation",
        "an earlier one again",
        "replaces all",
    ],
)
def test_an_assignment_drops_contradicting_entries(epoch: int, offset: int, entries: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs.of(ENTRIES)
    epochs.assign(epoch, offset)
    assert epochs.entries() == entries
    assert epochs.dirty == (entries != ENTRIES)


@pytest.mark.parametrize(
    ("end", "entries"), [(50, ENTRIES), (31, ENTRIES), (30, ENTRIES[:2]), (5, ENTRIES[:1]), (0, [])]
)
def test_truncating_the_end_removes_epochs_that_begin_there(end: int, entries: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs.of(ENTRIES)
    epochs.truncate_end(end)
    assert epochs.entries() == entries


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (0, ENTRIES),
        (5, [(2, 5), (3, 10), (6, 30)]),
        (10, [(3, 10), (6, 30)]),
        (29, [(3, 29), (6, 30)]),
        (45, [(6, 45)]),
    ],
)
def test_truncating_the_start_keeps_the_epoch_of_the_new_start(start: int, entries: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs.of(ENTRIES)
    epochs.truncate_start(start)
    assert epochs.entries() == entries


def test_the_checkpoint_has_kafkas_text() -> None:
    epochs = LeaderEpochs.of(ENTRIES)
    assert epochs.encode() == b"0\n3\n2 0\n3 10\n6 30\n"
    assert LeaderEpochs.decode(epochs.encode()).entries() == ENTRIES


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\n", b"0\n2\n1 0\n", b"0\n1\n1\n", b"0\n1\nx y\n", b"0\n1\n-1 0\n"]
)
def test_a_malformed_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(BadCheckpointError):
        LeaderEpochs.decode(data)


def test_a_log_notes_the_epoch_of_its_leader_and_of_one_that_has_not_written_yet() -> None:
    log = new_log()
    append_all(log, 3)
    log.assign_epoch(4)
    assert log.latest_epoch == 4
    assert log.epoch_end_offset(0) == (0, 3)
    assert log.epoch_end_offset(4) == (4, 3)
    log.append(batch(), 5, NOW)
    assert log.epochs.entries() == [(0, 0), (5, 3)]


def test_the_checkpoint_is_on_disk_when_the_recovery_point_has_passed() -> None:
    log = new_log()
    log.append(batch(), 3, NOW)
    assert not log.data_dir.fs.exists(f"{log.directory}/leader-epoch-checkpoint")
    flush(log)
    assert log.data_dir.fs.read_bytes(f"{log.directory}/leader-epoch-checkpoint") == b"0\n1\n3 0\n"
