"""Server-side assignors: complete, balanced and sticky assignments that respect subscriptions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.groups.assignors import ASSIGNORS, Assignor, Subscriber, range_assignor, uniform_assignor
from moldau.groups.consumer_group import Assignment, partitions_of

A, B, C = (bytes([letter]) * 16 for letter in b"abc")


def subscribers(count: int, *topics: bytes) -> dict[str, Subscriber]:
    return {f"m{index}": Subscriber(frozenset(topics), {}) for index in range(count)}


def sizes(assignment: dict[str, Assignment]) -> list[int]:
    return sorted(sum(map(len, one.values())) for one in assignment.values())


@st.composite
def inputs(draw: st.DrawFn) -> tuple[dict[str, Subscriber], dict[bytes, int]]:
    topics = {topic: draw(st.integers(1, 8)) for topic in draw(st.lists(st.sampled_from([A, B, C]), unique=True))}
    names = draw(st.lists(st.sampled_from([f"m{index}" for index in range(6)]), unique=True))
    subsets = st.sets(st.sampled_from([A, B, C])).map(frozenset)
    has = st.dictionaries(st.sampled_from([A, B, C]), st.sets(st.integers(0, 9), min_size=1).map(frozenset))
    return {name: Subscriber(draw(subsets), draw(has)) for name in names}, topics


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS.keys())
@given(given_input=inputs())
def test_every_partition_is_assigned_to_one_of_its_subscribers(
    assign: Assignor, given_input: tuple[dict[str, Subscriber], dict[bytes, int]]
) -> None:
    members, topics = given_input
    result = assign(members, topics)
    assert result.keys() == members.keys()
    owners = Counter(one for assignment in result.values() for one in partitions_of(assignment))
    expected = {
        (topic, index)
        for topic, count in topics.items()
        for index in range(count)
        if any(topic in member.topics for member in members.values())
    }
    assert owners == dict.fromkeys(expected, 1)
    for name, assignment in result.items():
        assert assignment.keys() <= members[name].topics
        assert all(assignment.values()), "no topic without partitions"


@given(given_input=inputs())
def test_uniform_is_balanced_if_all_members_read_the_same_topics(
    given_input: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, topics = given_input
    same = {name: member._replace(topics=frozenset([A, B])) for name, member in members.items()}
    found = sizes(uniform_assignor(same, topics))
    assert not found or found[-1] - found[0] <= 1


@given(given_input=inputs())
def test_uniform_does_not_change_a_balanced_assignment(
    given_input: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, topics = given_input
    once = uniform_assignor(members, topics)
    again = {name: member._replace(has=once[name]) for name, member in members.items()}
    assert uniform_assignor(again, topics) == once


@given(given_input=inputs())
def test_the_result_does_not_depend_on_the_order_of_the_input(
    given_input: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, topics = given_input
    for assign in ASSIGNORS.values():
        reordered = assign(dict(reversed(members.items())), dict(reversed(topics.items())))
        assert reordered == assign(members, topics)


def test_uniform_moves_five_of_ten_partitions_to_a_second_member() -> None:
    first = uniform_assignor(subscribers(1, A), {A: 10})
    assert sizes(first) == [10]
    joined = {"m0": Subscriber(frozenset([A]), first["m0"]), "m1": Subscriber(frozenset([A]), {})}
    second = uniform_assignor(joined, {A: 10})
    assert sizes(second) == [5, 5]
    assert second["m0"][A] < first["m0"][A]


def test_uniform_moves_only_the_partitions_of_a_member_that_left() -> None:
    before = uniform_assignor(subscribers(3, A), {A: 9})
    left = {name: Subscriber(frozenset([A]), before[name]) for name in ("m0", "m1")}
    after = uniform_assignor(left, {A: 9})
    assert all(before[name][A] < after[name][A] for name in left)


def test_uniform_is_balanced_if_one_member_reads_fewer_topics() -> None:
    members = {"both": Subscriber(frozenset([A, B]), {}), "one": Subscriber(frozenset([A]), {})}
    assert sizes(uniform_assignor(members, {A: 4, B: 4})) == [4, 4]


def test_range_assigns_adjacent_partitions_and_more_to_the_first_members() -> None:
    result = range_assignor(subscribers(3, A, B), {A: 5, B: 5})
    assert result["m0"] == {A: frozenset([0, 1]), B: frozenset([0, 1])}
    assert result["m2"] == {A: frozenset([4]), B: frozenset([4])}


def test_range_assigns_a_static_member_the_same_partitions_after_a_restart() -> None:
    def static(name: str) -> Subscriber:
        return Subscriber(frozenset([A]), {}, name)

    before = range_assignor({"x": static("one"), "y": static("two")}, {A: 2})
    after = range_assignor({"z": static("one"), "y": static("two")}, {A: 2})
    assert before["x"] == after["z"]
    assert before["y"] == after["y"]
