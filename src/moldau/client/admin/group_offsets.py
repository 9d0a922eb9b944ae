"""Committed offsets of groups in the admin client: list, set, reset by a rule, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau.client import arguments
from moldau.client.admin import resets
from moldau.client.admin.calls import Coordinators
from moldau.client.admin.offsets import OffsetCalls, OffsetSpec
from moldau.client.admin.outcome import Answers, checked, judged, settled
from moldau.client.admin.resets import Reset, ResetOffset
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import error_for
from moldau.client.network import CoordinatorKind
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from moldau.wire.topic_partition import by_topic

LAST_VERSION_BY_NAME = 9
"""From version 10 on OffsetFetch and OffsetCommit use topic ids; the admin client has topic names."""

ALL_TOPICS_FROM = 2
LIVING = "the group has members that read this partition; stop them first"

_HAS_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.REBALANCE_IN_PROGRESS})
"""The codes with which a coordinator refuses a commit of a client that is not a member, if the group has members."""


def fetch_request(group: str, partitions: Sequence[TopicPartition] | None, require_stable: bool) -> OffsetFetchRequest:
    """Build the request with the fields of all versions: one group, and a list of groups. None means all partitions."""
    of_topic = None if partitions is None else by_topic(partitions).items()
    return OffsetFetchRequest(
        group_id=group,
        topics=None
        if of_topic is None
        else [OffsetFetchRequestTopic(name=topic, partition_indexes=indexes) for topic, indexes in of_topic],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=None
                if of_topic is None
                else [
                    OffsetFetchRequestGroupTopic(name=topic, partition_indexes=indexes) for topic, indexes in of_topic
                ],
            )
        ],
        require_stable=require_stable,
    )


def read_fetched(response: OffsetFetchResponse, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets, without partitions that have none."""
    what = f"listing the offsets of group '{group}'"
    answer: OffsetFetchResponse | OffsetFetchResponseGroup = response.groups[0] if response.groups else response
    checked(answer.error_code, what)
    found = {}
    for topic in answer.topics:
        for one in topic.partitions:
            checked(one.error_code, f"{what} in {topic.name}-{one.partition_index}")
            if one.committed_offset >= 0:
                epoch = None if one.committed_leader_epoch < 0 else one.committed_leader_epoch
                found[TopicPartition(topic.name, one.partition_index)] = OffsetAndMetadata(
                    one.committed_offset, one.metadata or "", epoch
                )
    return found


def commit_request(
    group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], partitions: Iterable[TopicPartition]
) -> OffsetCommitRequest:
    def partition(one: TopicPartition) -> OffsetCommitRequestPartition:
        offset, metadata, epoch = offsets[one]
        return OffsetCommitRequestPartition(
            partition_index=one.partition,
            committed_offset=offset,
            committed_leader_epoch=-1 if epoch is None else epoch,
            committed_metadata=metadata,
        )

    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic, partitions=[partition(TopicPartition(topic, index)) for index in indexes]
            )
            for topic, indexes in by_topic(partitions).items()
        ],
    )


def read_committed(response: OffsetCommitResponse, group: str) -> Answers[TopicPartition, None]:
    answers: Answers[TopicPartition, None] = {}
    for topic in response.topics:
        for one in topic.partitions:
            what = f"setting the offset of group '{group}' in {topic.name}-{one.partition_index}"
            code = ErrorCode.of(one.error_code)
            if code in _HAS_MEMBERS:
                answer = error_for(ErrorCode.NON_EMPTY_GROUP, what, LIVING)
                answers[TopicPartition(topic.name, one.partition_index)] = answer
            else:
                answers[TopicPartition(topic.name, one.partition_index)] = judged(one.error_code, what)
    return answers


def delete_request(group: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for topic, indexes in by_topic(partitions).items()
        ],
    )


def read_deleted(response: OffsetDeleteResponse, group: str) -> Answers[TopicPartition, None]:
    what = f"deleting the offsets of group '{group}'"
    checked(response.error_code, what)
    return {
        TopicPartition(topic.name, one.partition_index): judged(
            one.error_code, f"{what} in {topic.name}-{one.partition_index}"
        )
        for topic in response.topics
        for one in topic.partitions
    }


def _topics_or_partitions(given: Any) -> list[str | TopicPartition] | None:
    if given is None:
        return None
    if isinstance(given, str | TopicPartition):
        given = [given]
    found = arguments.several("partitions", given, _topic_or_partition, _WANTED)
    return list(dict.fromkeys(found))


_WANTED = 'names of topics, or partitions such as TopicPartition("orders", 0)'


def _topic_or_partition(name: str, given: Any) -> str | TopicPartition:
    return given if isinstance(given, str) else arguments.partition(name, given, _WANTED)


class GroupOffsetCalls(OffsetCalls):
    """Admin calls about the committed offsets of groups."""

    async def list_group_offsets(
        self,
        group: str,
        partitions: TopicPartition | Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group, for these partitions or for all.

        Partitions without a committed offset are left out. With `require_stable` the call waits for transactions that
        have offsets of these partitions.
        """
        arguments.text("group", group)
        wanted = arguments.optional_partitions("partitions", partitions)
        network = await self._ready()
        found = settled(
            await self._each(
                [group],
                Coordinators[str](network, CoordinatorKind.GROUP),
                lambda _groups: fetch_request(group, wanted, require_stable),
                lambda response, _groups: {group: read_fetched(response, group)},
                deadline=self._deadline(timeout),
                what="listing the offsets of group",
                min_version=7 if require_stable else ALL_TOPICS_FROM,
                max_version=LAST_VERSION_BY_NAME,
            )
        )
        return found[group]

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit these offsets for a group without members. A group that does not exist is created.

        Raises GroupNotEmpty if members of the group read the partitions.
        """
        arguments.text("group", group)
        wanted = arguments.offsets("offsets", offsets)
        network = await self._ready()
        settled(
            await self._each(
                wanted,
                Coordinators[TopicPartition](network, CoordinatorKind.GROUP, lambda _partition: group),
                lambda some: commit_request(group, wanted, some),
                lambda response, _some: read_committed(response, group),
                deadline=self._deadline(timeout),
                what=f"setting the offset of group '{group}' in",
                max_version=LAST_VERSION_BY_NAME,
            )
        )

    async def delete_group_offsets(
        self, group: str, partitions: TopicPartition | Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None:
        """Delete the committed offsets of a group for these partitions.

        Raises GroupSubscribedToTopic if members of the group read the topic.
        """
        arguments.text("group", group)
        wanted = arguments.partitions("partitions", partitions)
        network = await self._ready()
        settled(
            await self._each(
                wanted,
                Coordinators[TopicPartition](network, CoordinatorKind.GROUP, lambda _partition: group),
                lambda some: delete_request(group, some),
                lambda response, _some: read_deleted(response, group),
                deadline=self._deadline(timeout),
                what=f"deleting the offset of group '{group}' in",
            )
        )

    async def reset_group_offsets(
        self,
        group: str,
        to: Reset,
        partitions: str | TopicPartition | Iterable[str | TopicPartition] | None = None,
        *,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, ResetOffset]:
        """Reset the committed offsets of a group without members by a rule (`ToEarliest()`, `ShiftBy(-10)` …).

        `partitions` names partitions or whole topics; None means all partitions for which the group has a committed
        offset. Return the old and the new offset of each partition. With `dry_run` nothing is committed.
        """
        deadline = self._deadline(timeout)
        to = resets.checked_reset(to)
        given = _topics_or_partitions(partitions)
        committed = await self.list_group_offsets(group, timeout=self._left(deadline))
        chosen = await self._chosen(to, given, committed, deadline)
        found: dict[int, dict[TopicPartition, int]] = {}
        for spec in resets.specs_needed(to, self._clock.now_ms()):
            listed_offsets = settled(await self._listed_offsets(dict.fromkeys(chosen, spec), deadline))
            found[spec] = {partition: one.offset for partition, one in listed_offsets.items()}
        plan = resets.plan(
            to,
            chosen,
            {partition: one.offset for partition, one in committed.items()},
            earliest=found.get(OffsetSpec.EARLIEST, {}),
            latest=found[OffsetSpec.LATEST],
            at_time=next((offsets for spec, offsets in found.items() if spec >= 0), {}),
        )
        if plan and not dry_run:
            wanted = {one: new.after for one, new in plan.items()}
            await self.alter_group_offsets(group, wanted, timeout=self._left(deadline))
        return plan

    async def _chosen(
        self,
        to: Reset,
        given: list[str | TopicPartition] | None,
        committed: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: float,
    ) -> list[TopicPartition]:
        if isinstance(to, resets.ToOffsets):
            return sorted(to.offsets)
        if given is None:
            return sorted(committed)
        topics = [one for one in given if isinstance(one, str)]
        chosen = {one for one in given if isinstance(one, TopicPartition)}
        if topics:
            network = await self._ready()
            response = await network.retrying(
                lambda: self._metadata(topics, deadline), deadline=deadline, what="looking up topics"
            )
            for topic in response.topics:
                checked(topic.error_code, f"looking up topic '{topic.name}'")
                chosen |= {TopicPartition(topic.name or "", one.partition_index) for one in topic.partitions}
        return sorted(chosen)
