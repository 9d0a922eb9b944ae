"""Group calls of the admin client: list, describe and delete groups of both protocols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from moldau.assignment.consumer_protocol import CONSUMER_PROTOCOL, parse_assignment
from moldau.client import arguments
from moldau.client.admin.calls import Calls, Coordinators, bounded
from moldau.client.admin.outcome import Answers, checked, judged, settled
from moldau.client.data_types import TopicPartition
from moldau.client.errors import BrokerError, UnsupportedByBroker, error_for
from moldau.client.network import CoordinatorKind
from moldau.client.pool import real_node
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseMember,
)
from moldau.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from moldau.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseMember,
)
from moldau.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

UNKNOWN = "Unknown"


@dataclass(frozen=True)
class GroupListing:
    """A group in the result of `list_groups`."""

    id: str
    type: str
    """The group protocol: `Classic` or `Consumer`."""
    state: str
    """Kafka's name of the state: `Empty`, `Stable`, `PreparingRebalance`, `Assigning` …"""
    protocol_type: str


@dataclass(frozen=True)
class MemberDescription:
    """One member of a group, and its assigned partitions."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    """The partitions that it gets when other members have released them; None in a classic group."""
    epoch: int | None = None
    upgraded: bool | None = None
    """In a consumer group: whether the member uses the new protocol."""


@dataclass(frozen=True)
class GroupDescription:
    """A group, its state and its members."""

    id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    target_assignment_epoch: int | None = None
    coordinator: int | None = None
    """The id of the group coordinator."""


# -- requests and responses --------------------------------------------------------------------------------------------


def read_listing(response: ListGroupsResponse) -> list[GroupListing]:
    checked(response.error_code, "listing groups")
    return [
        GroupListing(group.group_id, group.group_type or UNKNOWN, group.group_state or UNKNOWN, group.protocol_type)
        for group in response.groups
    ]


def read_consumer_groups(response: ConsumerGroupDescribeResponse) -> Answers[str, GroupDescription]:
    return {
        group.group_id: judged(group.error_code, f"describing group '{group.group_id}'", group.error_message)
        or GroupDescription(
            group.group_id,
            "Consumer",
            group.group_state,
            CONSUMER_PROTOCOL,
            group.assignor_name,
            tuple(_consumer_member(member) for member in group.members),
            group.group_epoch,
            group.assignment_epoch,
        )
        for group in response.groups
    }


def _consumer_member(member: ConsumerGroupDescribeResponseMember) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _assignment(member.assignment),
        _assignment(member.target_assignment),
        member.member_epoch,
        None if member.member_type < 0 else member.member_type == 1,
    )


def _assignment(assignment: ConsumerGroupDescribeResponseAssignment | None) -> tuple[TopicPartition, ...]:
    if assignment is None:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


def read_classic_groups(response: DescribeGroupsResponse) -> Answers[str, GroupDescription]:
    answers: Answers[str, GroupDescription] = {}
    for group in response.groups:
        what = f"describing group '{group.group_id}'"
        if group.error_code:
            answers[group.group_id] = error_for(group.error_code, what, group.error_message)
        elif group.group_state == "Dead":
            # Brokers before DescribeGroups version 6 answer this for a group that does not exist.
            answers[group.group_id] = error_for(ErrorCode.GROUP_ID_NOT_FOUND, what)
        else:
            readable = group.protocol_type in (CONSUMER_PROTOCOL, "")
            answers[group.group_id] = GroupDescription(
                group.group_id,
                "Classic",
                group.group_state,
                group.protocol_type,
                group.protocol_data,
                tuple(_classic_member(member, readable) for member in group.members),
            )
    return answers


def _classic_member(member: DescribeGroupsResponseMember, readable: bool) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        decode_assignment(member.member_assignment) if readable else (),
    )


def decode_assignment(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a classic consumer's assignment; empty if the bytes are not one."""
    found = parse_assignment(assignment)
    return tuple(sorted(TopicPartition(topic, index) for topic, indexes in found for index in indexes))


def read_deleted(response: DeleteGroupsResponse) -> Answers[str, None]:
    return {
        result.group_id: judged(result.error_code, f"deleting group '{result.group_id}'") for result in response.results
    }


def is_of_other_protocol(answer: object) -> bool:
    """Whether a group that was requested as a consumer group must be requested as a classic one."""
    return isinstance(answer, UnsupportedByBroker) or (
        isinstance(answer, BrokerError) and answer.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
    )


# -- calls -------------------------------------------------------------------------------------------------------------


class GroupCalls(Calls):
    """Admin calls about groups."""

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocol_types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """Return all groups that the client may see, sorted by id.

        `states`, `types` (`Classic`, `Consumer`) and `protocol_types` restrict the result.
        """
        deadline = self._deadline(timeout)
        request = ListGroupsRequest(
            states_filter=arguments.texts("states", states), types_filter=arguments.texts("types", types)
        )
        wanted = set(arguments.texts("protocol_types", protocol_types))
        answers = await bounded(
            [
                partial(
                    self._once,
                    node,
                    request,
                    read_listing,
                    deadline=deadline,
                    what="listing groups",
                    min_version=5 if request.types_filter else 4 if request.states_filter else 0,
                )
                for node in await self._nodes(deadline)
            ]
        )
        found = {group.id: group for groups in answers for group in groups}
        return [found[name] for name in sorted(found) if not wanted or found[name].protocol_type in wanted]

    async def describe_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Return groups of both protocols with their members and assignments.

        Raises GroupIdNotFound if a group does not exist.
        """
        return settled(await self._described(arguments.texts("groups", groups), self._deadline(timeout)))

    async def _described(self, names: Sequence[str], deadline: float) -> Answers[str, GroupDescription]:
        network = await self._ready()
        route = Coordinators[str](network, CoordinatorKind.GROUP)
        found: Answers[str, GroupDescription] = await self._each(
            names,
            route,
            lambda some: ConsumerGroupDescribeRequest(group_ids=some),
            lambda response, _some: read_consumer_groups(response),
            deadline=deadline,
            what="describing group",
        )
        classic = [name for name, answer in found.items() if is_of_other_protocol(answer)]
        found |= await self._each(
            classic,
            route,
            lambda some: DescribeGroupsRequest(groups=some),
            lambda response, _some: read_classic_groups(response),
            deadline=deadline,
            what="describing group",
        )
        coordinators = await route.targets(names, deadline)
        for name, answer in found.items():
            node = coordinators[name]
            if isinstance(answer, GroupDescription) and isinstance(node, int):
                found[name] = replace(answer, coordinator=real_node(node))
        return found

    async def delete_groups(self, groups: str | Iterable[str], *, timeout: float | None = None) -> None:
        """Delete groups with their committed offsets. Raises GroupNotEmpty if a group has members."""
        wanted = arguments.texts("groups", groups)
        network = await self._ready()
        settled(
            await self._each(
                wanted,
                Coordinators[str](network, CoordinatorKind.GROUP),
                lambda some: DeleteGroupsRequest(groups_names=some),
                lambda response, _some: read_deleted(response),
                deadline=self._deadline(timeout),
                what="deleting group",
            )
        )
