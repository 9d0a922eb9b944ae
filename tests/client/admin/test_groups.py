"""Admin client: groups and their offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from moldau import Admin, OffsetAndMetadata, OffsetSpec, TopicPartition
from moldau.client.admin import (
    ByDuration,
    Reset,
    ShiftBy,
    SomeFailed,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTimestamp,
)
from moldau.client.errors import (
    GroupIdNotFound,
    GroupNotEmpty,
    GroupSubscribedToTopic,
    IllegalStateError,
    UnknownTopicOrPartition,
)
from tests.cli.prefixed_objects import Member
from tests.compat.wire import produced
from tests.support.raw import RawConnection

Name = Callable[[], str]
DAY_MS = 86_400_000


@pytest.fixture
def written(raw: RawConnection, new_topic: Callable[..., str]) -> str:
    """Two partitions with five old records each, and five new records in the first partition."""
    name = new_topic(partitions=2, configs={"retention.ms": "-1"})
    for index in range(2):
        produced(raw, name, *[b"old"] * 5, partition=index, timestamp=1_000_000_000_000)
    produced(raw, name, *[b"new"] * 5, partition=0)
    return name


@contextmanager
def member_of(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    connection = Member(bootstrap, group, topic)
    yield
    connection.close()


def test_offsets_are_set_listed_and_deleted(admin: Admin, written: str, unused_name: Name) -> None:
    group = unused_name()
    first, second = TopicPartition(written, 0), TopicPartition(written, 1)
    admin.alter_group_offsets(group, {first: 3, second: OffsetAndMetadata(4, "why", 0)})
    assert admin.list_group_offsets(group) == {
        first: OffsetAndMetadata(3),
        second: OffsetAndMetadata(4, "why", 0),
    }
    assert admin.list_group_offsets(group, first) == {first: OffsetAndMetadata(3)}
    assert admin.list_group_offsets(group, require_stable=True).keys() == {first, second}

    admin.delete_group_offsets(group, first)
    assert admin.list_group_offsets(group).keys() == {second}


def test_a_group_without_commits_has_no_offsets(admin: Admin, unused_name: Name) -> None:
    assert admin.list_group_offsets(unused_name()) == {}


def test_a_group_that_only_has_offsets_is_listed_described_and_deleted(
    admin: Admin, written: str, unused_name: Name
) -> None:
    group = unused_name()
    admin.alter_group_offsets(group, {TopicPartition(written, 0): 1})
    assert group in {one.id for one in admin.list_groups()}
    assert group in {one.id for one in admin.list_groups(states=["Empty"], types=["Classic"])}
    assert group not in {one.id for one in admin.list_groups(types=["Consumer"])}
    described = admin.describe_groups(group)[group]
    assert (described.state, described.members) == ("Empty", ())
    assert described.coordinator in {node.id for node in admin.describe_cluster().brokers}

    admin.delete_groups(group)
    with pytest.raises(GroupIdNotFound, match=group):
        admin.describe_groups(group)
    with pytest.raises(SomeFailed) as raised:
        admin.delete_groups([group, f"{group}-too"])
    assert all(isinstance(error, GroupIdNotFound) for error in raised.value.errors.values())


def test_a_group_with_a_member_is_described_and_cannot_be_deleted(
    admin: Admin, bootstrap: str, written: str, unused_name: Name
) -> None:
    group = unused_name()
    both = (TopicPartition(written, 0), TopicPartition(written, 1))
    with member_of(bootstrap, group, written):
        described = admin.describe_groups(group)[group]
        assert (described.type, described.state, described.assignor) == ("Consumer", "Stable", "uniform")
        (member,) = described.members
        assert member.assignment == member.target_assignment == both
        assert member.client_id == "member-of-live"
        with pytest.raises(GroupNotEmpty, match="stop them first"):
            admin.alter_group_offsets(group, {both[0]: 1})
        with pytest.raises(GroupNotEmpty):
            admin.delete_groups(group)
        with pytest.raises(GroupSubscribedToTopic):
            admin.delete_group_offsets(group, both[0])
        with pytest.raises(SomeFailed) as raised:
            admin.reset_group_offsets(group, ToEarliest(), written)
        assert all(isinstance(error, GroupNotEmpty) for error in raised.value.errors.values())


@pytest.mark.parametrize(
    ("rule", "after"),
    [
        (ToEarliest(), (0, 0)),
        (ToLatest(), (10, 5)),
        (ToCurrent(), (4, 4)),
        (ToOffset(2), (2, 2)),
        (ToOffset(7), (7, 5)),
        (ShiftBy(-1), (3, 3)),
        (ShiftBy(-100), (0, 0)),
        (ShiftBy(100), (10, 5)),
        (ToTimestamp(1_000_000_000_000), (0, 0)),
        (ToTimestamp(1_000_000_000_001), (5, 5)),
        (ByDuration(DAY_MS), (5, 5)),
    ],
    ids=str,
)
def test_offsets_are_reset_by_a_rule(
    admin: Admin, written: str, unused_name: Name, rule: Reset, after: tuple[int, int]
) -> None:
    group = unused_name()
    before = {TopicPartition(written, 0): 4, TopicPartition(written, 1): 4}
    admin.alter_group_offsets(group, before)
    planned = admin.reset_group_offsets(group, rule, dry_run=True)
    assert {one.offset for one in admin.list_group_offsets(group).values()} == {4}
    done = admin.reset_group_offsets(group, rule)
    assert done == planned
    assert [done[one].after for one in sorted(done)] == list(after)
    assert {one.before for one in done.values()} == {4}
    assert [one.offset for _, one in sorted(admin.list_group_offsets(group).items())] == list(after)


def test_a_group_that_is_new_is_reset_for_the_topics_and_partitions_that_are_named(
    admin: Admin, written: str, unused_name: Name
) -> None:
    group = unused_name()
    assert admin.reset_group_offsets(group, ToLatest()) == {}
    done = admin.reset_group_offsets(group, ToLatest(), TopicPartition(written, 1))
    assert {partition: new.after for partition, new in done.items()} == {TopicPartition(written, 1): 5}
    done = admin.reset_group_offsets(group, ToEarliest(), written)
    assert [(one.before, one.after) for one in done.values()] == [(None, 0), (5, 0)]
    wanted = {TopicPartition(written, 0): 6, TopicPartition(written, 1): 600}
    done = admin.reset_group_offsets(group, ToOffsets(wanted))
    assert [(one.after, one.asked) for one in done.values()] == [(6, None), (5, 600)]


def test_unknown_topics_cannot_be_reset(admin: Admin, written: str, unused_name: Name) -> None:
    with pytest.raises(IllegalStateError, match="cannot shift"):
        admin.reset_group_offsets(unused_name(), ShiftBy(1), written)
    with pytest.raises(UnknownTopicOrPartition):
        admin.reset_group_offsets(unused_name(), ToLatest(), f"{written}-not")


def test_offsets_of_partitions_are_listed_by_kind_and_by_time(admin: Admin, written: str) -> None:
    first, second = TopicPartition(written, 0), TopicPartition(written, 1)
    found = admin.list_offsets({first: OffsetSpec.LATEST, second: OffsetSpec.EARLIEST})
    assert (found[first].offset, found[second].offset) == (10, 0)
    found = admin.list_offsets({first: 1_000_000_000_001, second: 1_000_000_000_001})
    assert (found[first].offset, found[second].offset) == (5, -1)
    assert admin.list_offsets({first: OffsetSpec.MAX_TIMESTAMP})[first].offset >= 5
    assert admin.list_offsets({first: OffsetSpec.LATEST}, isolation_level="read_committed")[first].offset == 10


def test_offsets_of_an_unknown_partition_fail_at_once(admin: Admin, written: str) -> None:
    first, ninth = TopicPartition(written, 0), TopicPartition(written, 9)
    with pytest.raises(UnknownTopicOrPartition, match=f"{written}-9"):
        admin.list_offsets({ninth: OffsetSpec.LATEST})
    with pytest.raises(SomeFailed) as raised:
        admin.list_offsets({first: OffsetSpec.LATEST, ninth: OffsetSpec.LATEST})
    assert raised.value.results[first].offset == 10


def test_records_are_deleted_up_to_an_offset(admin: Admin, written: str) -> None:
    first, second = TopicPartition(written, 0), TopicPartition(written, 1)
    assert admin.delete_records({first: 3, second: -1}) == {first: 3, second: 5}
    found = admin.list_offsets(dict.fromkeys([first, second], OffsetSpec.EARLIEST))
    assert (found[first].offset, found[second].offset) == (3, 5)
