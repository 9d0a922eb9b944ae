"""Offsets of groups, one row per partition, shared by our commands and the tools with Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.client.admin import GroupDescription, ListedOffset, MemberDescription, OffsetSpec, SomeFailed
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin


@dataclass(frozen=True)
class OffsetRow:
    """One partition of a group: its committed offset, its end, and the member that reads it."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


def rows(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, int],
) -> list[OffsetRow]:
    """The partitions of each member, followed by the partitions that no member reads."""
    found = []
    assigned: set[TopicPartition] = set()
    # The order of Kafka's tool: members with most partitions first. Members without partitions are left out.
    for member in sorted(group.members, key=lambda one: -len(one.assignment)):
        found += [OffsetRow(one, committed.get(one), ends.get(one), member) for one in member.assignment]
        assigned.update(member.assignment)
    found += [OffsetRow(one, committed[one], ends.get(one), None) for one in sorted(committed) if one not in assigned]
    return found


def offset_rows(admin: Admin, group: GroupDescription) -> list[OffsetRow]:
    """The current rows of one group."""
    committed = admin.list_group_offsets(group.id)
    assigned = {one for member in group.members for one in member.assignment}
    return rows(group, committed, end_offsets(admin, {*committed, *assigned}))


def end_offsets(admin: Admin, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    """The end offsets. Partitions that do not exist any more or have no leader are left out."""
    if not partitions:
        return {}
    topics = sorted({one.topic for one in partitions})
    try:
        described = admin.describe_topics(topics)
    except SomeFailed as some:
        described = dict(some.results)
    except MoldauError:
        if len(topics) > 1:
            raise
        described = {}
    led = {
        TopicPartition(topic.name, one.index)
        for topic in described.values()
        for one in topic.partitions
        if one.leader is not None
    }
    try:
        offsets: Mapping[TopicPartition, ListedOffset] = admin.list_offsets(
            dict.fromkeys(sorted(partitions & led), OffsetSpec.LATEST)
        )
    except SomeFailed as some:
        offsets = some.results
    return {partition: one.offset for partition, one in offsets.items()}
