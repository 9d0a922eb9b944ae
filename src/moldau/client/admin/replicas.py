"""Replica calls of the admin client: leader elections, and reassignments of partitions to other brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from moldau.client import arguments
from moldau.client.admin.calls import Calls, Fixed
from moldau.client.admin.outcome import Answers, checked, judged, settled
from moldau.client.admin.topics import broker_ids
from moldau.client.data_types import TopicPartition
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
from moldau.wire.topic_partition import by_topic

UNCLEAN_FROM = 1
"""The first version of ElectLeaders with unclean elections."""

FIXED_FACTOR_FROM = 1
"""The first version of AlterPartitionReassignments that can forbid a change of the replication factor."""


class ElectionType(IntEnum):
    """The replicas that an election may choose."""

    PREFERRED = 0
    """The first replica, if it is in sync. This balances the leaders over the brokers and loses no records."""
    UNCLEAN = 1
    """Any online replica, if no in-sync replica is online. Records that this replica does not have are lost."""


@dataclass(frozen=True)
class OngoingReassignment:
    """A partition that is being reassigned. `replicas` has the added and the removed replicas until it is complete."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(one for one in self.replicas if one not in self.removing)


# -- requests and responses --------------------------------------------------------------------------------------------


def elect_request(
    kind: ElectionType, partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> ElectLeadersRequest:
    topics = None
    if partitions is not None:
        topics = [
            ElectLeadersRequestTopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    return ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=timeout_ms)


def read_elected(response: ElectLeadersResponse) -> Answers[TopicPartition, bool]:
    """Return for each partition whether it has a new leader; False if no election was needed."""
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
        topics=[
            AlterPartitionReassignmentsRequestTopic(
                name=topic, partitions=[wanted(TopicPartition(topic, index)) for index in indexes]
            )
            for topic, indexes in by_topic(partitions).items()
        ],
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
        topics = [
            ListPartitionReassignmentsRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
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


# -- calls -------------------------------------------------------------------------------------------------------------


def _brokers_or_none(name: str, given: Sequence[int] | None) -> list[int] | None:
    return None if given is None else broker_ids(name, given)


class ReplicaCalls(Calls):
    """Admin calls about leaders and replicas."""

    async def elect_leaders(
        self,
        kind: ElectionType = ElectionType.PREFERRED,
        partitions: TopicPartition | Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders of these partitions, or of all.

        Return True for each partition that has a new leader, and False if no election was needed. Without `partitions`
        the result has only partitions with a new leader. An unclean election may lose acknowledged records: use it only
        if no in-sync replica can be started again.
        """
        deadline = self._deadline(timeout)
        arguments.instance("kind", kind, ElectionType, "ElectionType.PREFERRED")
        wanted = arguments.optional_partitions("partitions", partitions)
        lowest = 0 if kind is ElectionType.PREFERRED else UNCLEAN_FROM
        if wanted is None:
            request = elect_request(kind, None, self._broker_timeout_ms(deadline))
            return settled(
                await self._once(
                    CONTROLLER, request, read_elected, deadline=deadline, what="electing leaders", min_version=lowest
                )
            )
        return settled(
            await self._each(
                wanted,
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
        """Reassign partitions to other brokers: the broker ids per partition, preferred leader first.

        None instead of broker ids cancels a running reassignment. The call returns when the reassignments have started;
        `list_partition_reassignments` returns those that are not complete. Raises NoReassignmentInProgress if there is
        nothing to cancel, and InvalidReplicaAssignment for unknown brokers.
        """
        deadline = self._deadline(timeout)
        wanted = arguments.by_partition("targets", targets, _brokers_or_none)
        settled(
            await self._each(
                wanted,
                Fixed[TopicPartition](CONTROLLER),
                lambda some: reassign_request(
                    wanted, some, self._broker_timeout_ms(deadline), allow_replication_factor_change
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
        """Return the running reassignments of these partitions, or of all."""
        deadline = self._deadline(timeout)
        wanted = arguments.optional_partitions("partitions", partitions)
        return await self._once(
            CONTROLLER,
            reassignments_request(wanted, self._broker_timeout_ms(deadline)),
            read_reassignments,
            deadline=deadline,
            what="listing reassignments",
        )
