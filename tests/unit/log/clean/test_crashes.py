"""Crashes at any step of a cleaning: the log has the old segments or the new ones, never a mix."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from moldau.host.fault_points import POINTS
from moldau.log import file_names
from moldau.log.log import Log
from moldau.records import peek_header
from tests.unit.log.clean.support import (
    NOW,
    Died,
    PersistentDirectory,
    batches,
    clean,
    committed,
    complete,
    end_transaction,
    flush,
    put,
)
from tests.unit.log.support import aborted_transactions

CLEANER_POINTS = sorted(name for name in POINTS if name.startswith(("clean.", "swap.")))


def written() -> PersistentDirectory:
    """A log with many segments, deletes, transactions and producers, which is cleaned in two or more groups."""
    directory = PersistentDirectory()
    for turn in range(6):
        put(
            directory.log,
            ("a", f"a{turn}" * 60),
            ("b", f"b{turn}"),
            producer_id=3,
            producer_epoch=0,
            base_sequence=turn * 2,
        )
        complete(directory.log)
        put(directory.log, (f"{turn}", "x" * 100), ("c", None if turn == 4 else "c"))
        transaction = {"producer_id": 7, "producer_epoch": 0, "base_sequence": turn, "transactional": True}
        put(directory.log, ("a" if turn % 2 else "d", "bad" if turn % 2 else "good"), **transaction)
        end_transaction(directory.log, 7, commit=not turn % 2)
        complete(directory.log)
    put(directory.log, ("last", "1"))
    flush(directory.log)
    return directory


def segments(log: Log) -> list[tuple[int, int]]:
    return [(segment.base_offset, segment.file.size) for segment in log._segments.segments]


def states_between() -> list[list[tuple[int, int]]]:
    """The allowed states of the segments: unchanged, or with the first, the first two ... groups replaced."""
    directory = written()
    found = [segments(directory.log)]
    clean(directory.log, between=lambda: found.append(segments(directory.log)))
    found.append(segments(directory.log))
    assert len({tuple(one) for one in found}) > 2, "the test needs more than one group"
    return found


def steps() -> int:
    directory = written()
    before = directory.mortal.changes
    clean(directory.log)
    return directory.mortal.changes - before


def check(directory: PersistentDirectory, expected: dict[bytes, bytes], allowed: list[list[tuple[int, int]]]) -> None:
    assert segments(directory.log) in allowed
    assert committed(directory.log) == expected
    assert directory.log.producers.producers[3].next_sequence == 12
    assert directory.log.producers.producers[7].next_sequence == 6
    assert not [
        name for name in directory.files() if name.endswith((file_names.CLEANED, file_names.SWAP, file_names.DELETED))
    ]
    positions = [peek_header(batch).base_offset for batch in batches(directory.log)]
    assert positions == sorted(positions)
    clean(directory.log, now_ms=NOW + 1)
    assert committed(directory.log) == expected


def die_at_every_change(restart: Callable[[PersistentDirectory], Log]) -> None:
    allowed = states_between()
    expected = committed(written().log)
    changes = steps()
    assert changes > 40
    for step in range(changes):
        directory = written()
        directory.mortal.dies_at = directory.mortal.changes + step
        with pytest.raises(Died):
            clean(directory.log)
        restart(directory)
        check(directory, expected, allowed)


def test_a_kill_at_any_change_of_the_disk_is_survived_when_all_is_read_again() -> None:
    die_at_every_change(lambda directory: directory.restart())


def test_a_kill_at_any_change_of_the_disk_is_survived_when_all_is_believed() -> None:
    die_at_every_change(lambda directory: directory.restart(recovery_point=directory.log.recovery_point))


def test_a_power_loss_at_any_change_of_the_disk_is_survived(count: Callable[[int, int], int]) -> None:
    for seed in range(count(2, 50)):
        die_at_every_change(lambda directory, seed=seed: directory.restart(power_loss=seed))  # type: ignore[misc]


def test_a_start_that_dies_as_well_is_finished_by_the_next_one(count: Callable[[int, int], int]) -> None:
    allowed = states_between()
    expected = committed(written().log)
    for step in range(steps()):
        for later in range(12):
            if (step + later) % count(6, 1):
                continue
            directory = written()
            directory.mortal.dies_at = directory.mortal.changes + step
            with pytest.raises(Died):
                clean(directory.log)
            directory.next_process_dies_at, believed = later, directory.log.recovery_point
            try:
                directory.restart(recovery_point=believed)
            except Died:
                directory.next_process_dies_at = None
                directory.restart(recovery_point=believed)
            # From the index alone: the log was not scanned, so a lost entry would show.
            assert len(aborted_transactions(directory.log, 0, directory.log.end_offset)) == 3
            check(directory, expected, allowed)


@pytest.mark.parametrize("name", CLEANER_POINTS)
def test_a_crash_at_every_fault_point_is_survived(name: str) -> None:
    allowed = states_between()
    directory = written()
    expected = committed(directory.log)

    def die() -> None:
        raise Died

    with ExitStack() as stack:
        stack.enter_context(POINTS[name].armed(die))
        with pytest.raises(Died):
            clean(directory.log)
    directory.restart()
    check(directory, expected, allowed)


def test_there_are_fault_points_on_both_sides_of_the_decision() -> None:
    assert {"clean.all-synced", "swap.before-decision", "swap.decided", "swap.in-place"} <= set(CLEANER_POINTS)
