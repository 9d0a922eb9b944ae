"""Who leads partitions and who holds them: elections, and reassignments that move partitions to other brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from moldau.client.admin.calls import Calls, Fixed
from moldau.client.admin.offsets import by_topic
from moldau.client.admin.outcome import Answers, checked, judged, listed, settled
from moldau.client.model import TopicPartition
from moldau.client.network import CONTROLLER
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
    AlterPartitionReassignmentsResponse,
)
from moldau.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
)
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestTopic,
    ListPartitionReassignmentsResponse,
)

UNCLEAN_FROM = 1
"""The version of ElectLeaders that knows more than preferred leaders."""

FIXED_FACTOR_FROM = 1
"""The version of AlterPartitionReassignments that can insist on the number of replicas."""


class ElectionType(IntEnum):
    """Whom an election may choose."""

    PREFERRED = 0
    """The first replica, if it is in sync: what balances the brokers, and loses nothing."""
    UNCLEAN = 1
    """Any replica that lives, where nobody who is in sync does: what that one does not have is lost."""


@dataclass(frozen=True)
class OngoingReassignment:
    """A partition that moves. `replicas` has those that come and those that go, until it is done."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """Who will hold the partition."""
        return tuple(one for one in self.replicas if one not in self.removing)


# What is sent, and what the answers mean ------------------------------------------------------------------------------


def elect_request(
    kind: ElectionType, partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> ElectLeadersRequest:
    topics = None
    if partitions is not None:
        topics = by_topic(
            partitions,
            lambda topic, some: ElectLeadersRequestTopicPartitions(
                topic=topic, partitions=[one.partition for one in some]
            ),
        )
    return ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=timeout_ms)


def read_elected(response: ElectLeadersResponse) -> Answers[TopicPartition, bool]:
    """Whether each has a new leader; False where it needed none."""
    checked(response.error_code, "electing leaders")
    return {
        TopicPartition(topic.topic, one.partition_id): False
        if one.error_code == ErrorCode.ELECTION_NOT_NEEDED
        else judged(one.error_code, f"electing a leader of {topic.topic}-{one.partition_id}", one.error_message) or True
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


def reassign_request(
    targets: Mapping[TopicPartition, Sequence[int] | None],
    partitions: Iterable[TopicPartition],
    timeout_ms: int,
    allow_factor_change: bool,
) -> AlterPartitionReassignmentsRequest:
    def wanted(one: TopicPartition) -> AlterPartitionReassignmentsRequestPartition:
        replicas = targets[one]
        return AlterPartitionReassignmentsRequestPartition(
            partition_index=one.partition, replicas=None if replicas is None else list(replicas)
        )

    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=allow_factor_change,
        topics=by_topic(
            partitions,
            lambda topic, some: AlterPartitionReassignmentsRequestTopic(name=topic, partitions=list(map(wanted, some))),
        ),
    )


def read_reassigned(response: AlterPartitionReassignmentsResponse) -> Answers[TopicPartition, None]:
    checked(response.error_code, "reassigning partitions", response.error_message)
    return {
        TopicPartition(topic.name, one.partition_index): judged(
            one.error_code, f"reassigning {topic.name}-{one.partition_index}", one.error_message
        )
        for topic in response.responses
        for one in topic.partitions
    }


def reassignments_request(
    partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> ListPartitionReassignmentsRequest:
    topics = None
    if partitions is not None:
        topics = by_topic(
            partitions,
            lambda topic, some: ListPartitionReassignmentsRequestTopic(
                name=topic, partition_indexes=[one.partition for one in some]
            ),
        )
    return ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)


def read_reassignments(response: ListPartitionReassignmentsResponse) -> dict[TopicPartition, OngoingReassignment]:
    checked(response.error_code, "listing reassignments", response.error_message)
    found = {
        TopicPartition(topic.name, one.partition_index): OngoingReassignment(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in response.topics
        for one in topic.partitions
    }
    return dict(sorted(found.items()))


# The calls ------------------------------------------------------------------------------------------------------------


class ReplicaCalls(Calls):
    """The admin's calls about leaders and replicas."""

    async def elect_leaders(
        self,
        kind: ElectionType = ElectionType.PREFERRED,
        partitions: TopicPartition | Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders of these partitions, or of all: whether each has a new one now, or needed none.

        Of all partitions, only those that got a new leader are told. An unclean election may lose records that were
        acknowledged; it is for partitions that nobody can lead any more otherwise.
        """
        deadline = self._deadline(timeout)
        lowest = 0 if kind is ElectionType.PREFERRED else UNCLEAN_FROM
        if partitions is None:
            request = elect_request(kind, None, self._broker_timeout_ms(deadline))
            return settled(
                await self._once(
                    CONTROLLER, request, read_elected, deadline=deadline, what="electing leaders", min_version=lowest
                )
            )
        return settled(
            await self._each(
                listed(partitions, TopicPartition),
                Fixed[TopicPartition](CONTROLLER),
                lambda some: elect_request(kind, some, self._broker_timeout_ms(deadline)),
                lambda response, _some: read_elected(response),
                deadline=deadline,
                what="electing a leader of",
                min_version=lowest,
            )
        )

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Have other brokers hold partitions, preferred leader first; None cancels what is under way.

        The call returns when the moves have begun. `list_partition_reassignments` tells which are not done yet.
        """
        deadline = self._deadline(timeout)
        settled(
            await self._each(
                targets,
                Fixed[TopicPartition](CONTROLLER),
                lambda some: reassign_request(
                    targets, some, self._broker_timeout_ms(deadline), allow_replication_factor_change
                ),
                lambda response, _some: read_reassigned(response),
                deadline=deadline,
                what="reassigning",
                min_version=0 if allow_replication_factor_change else FIXED_FACTOR_FROM,
            )
        )

    async def list_partition_reassignments(
        self,
        partitions: TopicPartition | Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OngoingReassignment]:
        """Those of these partitions, or of all, that are on their way to other brokers."""
        deadline = self._deadline(timeout)
        wanted = None if partitions is None else listed(partitions, TopicPartition)
        return await self._once(
            CONTROLLER,
            reassignments_request(wanted, self._broker_timeout_ms(deadline)),
            read_reassignments,
            deadline=deadline,
            what="listing reassignments",
        )
