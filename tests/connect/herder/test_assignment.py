"""Assignment of connectors to workers: balanced, sticky, and one worker for each connector."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.herder.assignment import (
    AssignmentFormatError,
    TakeoverDelay,
    WorkerAssignment,
    WorkerMember,
    assign,
    distribute,
)

NAMES = st.sets(st.sampled_from([f"c{n}" for n in range(12)]))
RUNNING = st.dictionaries(st.sampled_from(["m1", "m2", "m3", "m4"]), NAMES, min_size=1)


def settle(connectors: set[str], running: dict[str, set[str]]) -> tuple[dict[str, set[str]], int]:
    """Rebalance until nothing moves any more. Workers stop what they no longer have, then run what they have."""
    for rounds in range(10):
        given_now = distribute(connectors, running)
        if given_now == running:
            return running, rounds
        running = given_now
    raise AssertionError("connectors move for ever")


@given(NAMES, RUNNING)
def test_no_connector_has_two_workers_and_none_is_taken_from_a_worker_that_has_not_stopped_it(
    connectors: set[str], running: dict[str, set[str]]
) -> None:
    given_now = distribute(connectors, running)
    everything = [one for mine in given_now.values() for one in mine]
    assert len(everything) == len(set(everything))
    for member, mine in given_now.items():
        for connector in mine:
            others = [other for other in running if other != member and connector in running[other]]
            # If two of them run it, then by a fault: one keeps it and the other stops it.
            assert connector in running[member] or not others


@given(NAMES, RUNNING)
def test_after_at_most_three_rebalances_everything_is_assigned_and_the_numbers_differ_by_one(
    connectors: set[str], running: dict[str, set[str]]
) -> None:
    settled, rounds = settle(connectors, running)
    assert {one for mine in settled.values() for one in mine} == connectors
    counts = sorted(map(len, settled.values()))
    assert counts[-1] - counts[0] <= 1
    assert rounds <= 3


@given(NAMES, st.sampled_from([2, 3, 4]))
def test_a_worker_that_leaves_moves_nothing_of_the_others_and_its_own_is_taken_over_at_once(
    connectors: set[str], workers: int
) -> None:
    settled, _ = settle(connectors, {f"m{n}": set() for n in range(workers)})
    del settled["m0"]
    given_now = distribute(connectors, settled)
    assert {one for mine in given_now.values() for one in mine} == connectors
    assert all(settled[member] <= mine for member, mine in given_now.items())


def test_a_new_worker_gets_its_share_after_the_others_have_stopped_it() -> None:
    connectors = {"a", "b", "c", "d"}
    running: dict[str, set[str]] = {"m1": set(connectors), "m2": set()}
    first = distribute(connectors, running)
    assert first == {"m1": {"a", "b"}, "m2": set()}
    assert distribute(connectors, first) == {"m1": {"a", "b"}, "m2": {"c", "d"}}


def test_the_last_worker_gets_everything_and_nobody_gets_nothing() -> None:
    assert distribute({"a", "b"}, {"m1": set()}) == {"m1": {"a", "b"}}
    assert distribute({"a"}, {}) == {}


def test_members_and_assignments_are_read_back() -> None:
    member = WorkerMember("http://127.0.0.1:8083", frozenset({"a", "ž"}))
    assert WorkerMember.decode(member.encode()) == member
    assignment = WorkerAssignment(member.url, 12, frozenset({"a"}), {"a": member.url}, 50)
    assert WorkerAssignment.decode(assignment.encode()) == assignment


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"format":2}', b"\x00\x01\x00"])
def test_bytes_of_another_version_are_refused_with_what_to_do(data: bytes) -> None:
    with pytest.raises(AssignmentFormatError, match="same version"):
        WorkerAssignment.decode(data)


def _members(**running: str) -> dict[str, WorkerMember]:
    return {
        one: WorkerMember(f"http://{one}", frozenset(filter(None, mine.split(",")))) for one, mine in running.items()
    }


def test_every_member_learns_who_leads_and_who_runs_what() -> None:
    found = assign(0.0, 7, {"a", "b"}, _members(m1="a", m2=""), "m1", TakeoverDelay(0))
    assert found["m2"] == WorkerAssignment(
        "http://m1", 7, frozenset({"b"}), {"a": "http://m1", "b": "http://m2"}, delay_ms=0
    )


def test_with_a_delay_the_connectors_of_a_lost_worker_wait_for_it() -> None:
    delay = TakeoverDelay(10)
    assign(0.0, 0, {"a", "b"}, _members(m1="a", m2="b"), "m1", delay)
    found = assign(5.0, 0, {"a", "b"}, _members(m1="a"), "m1", delay)
    assert found["m1"].connectors == {"a"}
    assert found["m1"].delay_ms == 10_000
    later = assign(15.0, 0, {"a", "b"}, _members(m1="a"), "m1", delay)
    assert later["m1"].connectors == {"a", "b"}
    assert later["m1"].delay_ms == 0


def test_with_a_delay_a_worker_that_comes_back_gets_its_connectors_at_once() -> None:
    delay = TakeoverDelay(10)
    assign(0.0, 0, {"a", "b"}, _members(m1="a", m2="b"), "m1", delay)
    assign(5.0, 0, {"a", "b"}, _members(m1="a"), "m1", delay)
    found = assign(6.0, 0, {"a", "b"}, _members(m1="a", m2=""), "m1", delay)
    assert found["m2"].connectors == {"b"}
    assert found["m1"].delay_ms == 0


def test_with_a_delay_a_new_connector_does_not_wait() -> None:
    delay = TakeoverDelay(10)
    assign(0.0, 0, {"a"}, _members(m1="a"), "m1", delay)
    assert assign(1.0, 0, {"a", "b"}, _members(m1="a"), "m1", delay)["m1"].connectors == {"a", "b"}


def test_the_rest_of_a_delay_is_never_rounded_to_nothing() -> None:
    delay = TakeoverDelay(10)
    assign(0.0, 0, {"a", "b"}, _members(m1="a", m2="b"), "m1", delay)
    times = [5.0, 10.0, 14.9999]
    found = [assign(now, 0, {"a", "b"}, _members(m1="a"), "m1", delay)["m1"].delay_ms for now in times]
    assert found[-1] == 1
    assert all(earlier > after for earlier, after in pairwise(found))
