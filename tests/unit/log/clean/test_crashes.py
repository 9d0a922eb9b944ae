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
    Room,
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


def written() -> Room:
    """A log with many segments, deletes, transactions and producers, which is cleaned in two or more groups."""
    room = Room()
    for turn in range(6):
        put(
            room.log, ("a", f"a{turn}" * 60), ("b", f"b{turn}"), producer_id=3, producer_epoch=0, base_sequence=turn * 2
        )
        complete(room.log)
        put(room.log, (f"{turn}", "x" * 100), ("c", None if turn == 4 else "c"))
        transaction = {"producer_id": 7, "producer_epoch": 0, "base_sequence": turn, "transactional": True}
        put(room.log, ("a" if turn % 2 else "d", "bad" if turn % 2 else "good"), **transaction)
        end_transaction(room.log, 7, commit=not turn % 2)
        complete(room.log)
    put(room.log, ("last", "1"))
    flush(room.log)
    return room


def segments(log: Log) -> list[tuple[int, int]]:
    return [(segment.base_offset, segment.file.size) for segment in log._segments.segments]


def states_between() -> list[list[tuple[int, int]]]:
    """The allowed states of the segments: unchanged, or with the first, the first two ... groups replaced."""
    room = written()
    found = [segments(room.log)]
    clean(room.log, between=lambda: found.append(segments(room.log)))
    found.append(segments(room.log))
    assert len({tuple(one) for one in found}) > 2, "the test needs more than one group"
    return found


def steps() -> int:
    room = written()
    before = room.mortal.changes
    clean(room.log)
    return room.mortal.changes - before


def check(room: Room, expected: dict[bytes, bytes], allowed: list[list[tuple[int, int]]]) -> None:
    assert segments(room.log) in allowed
    assert committed(room.log) == expected
    assert room.log.producers.producers[3].next_sequence == 12
    assert room.log.producers.producers[7].next_sequence == 6
    assert not [
        name for name in room.files() if name.endswith((file_names.CLEANED, file_names.SWAP, file_names.DELETED))
    ]
    positions = [peek_header(batch).base_offset for batch in batches(room.log)]
    assert positions == sorted(positions)
    clean(room.log, now_ms=NOW + 1)
    assert committed(room.log) == expected


def die_at_every_change(restart: Callable[[Room], Log]) -> None:
    allowed = states_between()
    expected = committed(written().log)
    changes = steps()
    assert changes > 40
    for step in range(changes):
        room = written()
        room.mortal.dies_at = room.mortal.changes + step
        with pytest.raises(Died):
            clean(room.log)
        restart(room)
        check(room, expected, allowed)


def test_a_kill_at_any_change_of_the_disk_is_survived_when_all_is_read_again() -> None:
    die_at_every_change(lambda room: room.restart())


def test_a_kill_at_any_change_of_the_disk_is_survived_when_all_is_believed() -> None:
    die_at_every_change(lambda room: room.restart(recovery_point=room.log.recovery_point))


def test_a_power_loss_at_any_change_of_the_disk_is_survived(count: Callable[[int, int], int]) -> None:
    for seed in range(count(2, 50)):
        die_at_every_change(lambda room, seed=seed: room.restart(power_loss=seed))  # type: ignore[misc]


def test_a_start_that_dies_as_well_is_finished_by_the_next_one(count: Callable[[int, int], int]) -> None:
    allowed = states_between()
    expected = committed(written().log)
    for step in range(steps()):
        for later in range(12):
            if (step + later) % count(6, 1):
                continue
            room = written()
            room.mortal.dies_at = room.mortal.changes + step
            with pytest.raises(Died):
                clean(room.log)
            room.next_life_ends_at, believed = later, room.log.recovery_point
            try:
                room.restart(recovery_point=believed)
            except Died:
                room.next_life_ends_at = None
                room.restart(recovery_point=believed)
            # From the index alone: the log was not scanned, so a lost entry would show.
            assert len(aborted_transactions(room.log, 0, room.log.end_offset)) == 3
            check(room, expected, allowed)


@pytest.mark.parametrize("name", CLEANER_POINTS)
def test_every_fault_point_may_be_the_last(name: str) -> None:
    allowed = states_between()
    room = written()
    expected = committed(room.log)

    def die() -> None:
        raise Died

    with ExitStack() as stack:
        stack.enter_context(POINTS[name].armed(die))
        with pytest.raises(Died):
            clean(room.log)
    room.restart()
    check(room, expected, allowed)


def test_there_are_fault_points_on_both_sides_of_the_decision() -> None:
    assert {"clean.all-synced", "swap.before-decision", "swap.decided", "swap.in-place"} <= set(CLEANER_POINTS)
