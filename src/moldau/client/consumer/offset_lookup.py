"""Offset lookup at partition leaders: offsets by time (ListOffsets) and ends of epochs (OffsetForLeaderEpoch).

`attempt_…` methods send one request per leader, and return errors per partition. `list_offsets`, for calls of the
application, retries until its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from moldau.client.consumer.fetch_wire import ISOLATION
from moldau.client.data_types import NO_LEADER, TopicPartition
from moldau.client.errors import (
    STALE_METADATA,
    LeaderNotAvailable,
    MoldauError,
    error_for,
)
from moldau.client.network import Network
from moldau.client.pool import coordinator_node
from moldau.client.settings import ClientSettings
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from moldau.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)
from moldau.wire.topic_partition import by_topic

CONSUMER_REPLICA = -1


class OffsetAndTimestamp(NamedTuple):
    """Offset and timestamp of the first record that is not older than the time that was looked up."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


class EpochEnd(NamedTuple):
    """The offset after the last record of an epoch in a leader's log, or of the latest epoch before it."""

    epoch: int
    offset: int
    leader_epoch: int  # of the leader that answered


Q = TypeVar("Q")
A = TypeVar("A")
Outcome = tuple[dict[TopicPartition, A], dict[TopicPartition, MoldauError]]
"""Answers, and errors of the partitions without an answer."""


class OffsetLookup:
    """Sends the requests to the leaders. Owned by the event loop."""

    def __init__(self, network: Network, settings: ClientSettings) -> None:
        self._network = network
        self._timeout_s = settings["request.timeout.ms"] / 1_000
        self._isolation = ISOLATION[settings["isolation.level"]]

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], deadline: float, what: str
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offset for each timestamp, which may be one of the special ones (-1 latest, -2 earliest).

        Raises the error of a partition if it cannot be retried, and TimedOut after the deadline.
        """
        found: dict[TopicPartition, OffsetAndTimestamp] = {}

        async def attempt() -> None:
            left = {partition: time for partition, time in wanted.items() if partition not in found}
            answers, errors = await self.attempt_offsets(left, deadline)
            found.update(answers)
            for error in errors.values():
                raise error

        for topic in by_topic(wanted):
            await self._network.topic(topic, deadline)
        await self._network.retrying(attempt, deadline=deadline, what=what)
        return found

    async def attempt_offsets(
        self, wanted: Mapping[TopicPartition, int], deadline: float | None = None
    ) -> Outcome[OffsetAndTimestamp]:
        return await self._by_leader(wanted, self._ask_offsets, deadline)

    async def attempt_epoch_ends(self, wanted: Mapping[TopicPartition, int]) -> Outcome[EpochEnd]:
        """Look up the ends of these epochs, one per partition."""
        return await self._by_leader(wanted, self._ask_epochs, None)

    # -- requests, one per leader ----------------------------------------------------------------------------------

    async def _by_leader(
        self,
        wanted: Mapping[TopicPartition, Q],
        ask: Callable[[int, Mapping[TopicPartition, Q], float], Coroutine[Any, Any, Outcome[A]]],
        deadline: float | None,
    ) -> Outcome[A]:
        until = asyncio.get_running_loop().time() + self._timeout_s
        if deadline is not None:
            until = min(until, deadline)
        answers: dict[TopicPartition, A] = {}
        errors: dict[TopicPartition, MoldauError] = {}
        leaders: dict[int, dict[TopicPartition, Q]] = {}
        for partition, question in wanted.items():
            leader = self._network.metadata.leader(partition)
            if leader == NO_LEADER:
                errors[partition] = _no_leader(partition)
            else:
                leaders.setdefault(leader, {})[partition] = question
        outcomes = await asyncio.gather(*(self._one(ask, leader, part, until) for leader, part in leaders.items()))
        for answered, failed in outcomes:
            answers |= answered
            errors |= failed
        if any(_stale(error) for error in errors.values()):
            self._network.refresh_soon()
        return answers, errors

    async def _one(
        self,
        ask: Callable[[int, Mapping[TopicPartition, Q], float], Coroutine[Any, Any, Outcome[A]]],
        leader: int,
        wanted: Mapping[TopicPartition, Q],
        deadline: float,
    ) -> Outcome[A]:
        try:
            return await ask(self._idle_connection(leader), wanted, deadline)
        except MoldauError as error:
            return {}, dict.fromkeys(wanted, error)

    def _idle_connection(self, leader: int) -> int:
        """Choose a connection without a pending request: the response would come after that of a Fetch that waits."""
        connection = self._network.connected(leader)
        return leader if connection is None or connection.in_flight == 0 else coordinator_node(leader)

    async def _ask_offsets(
        self, leader: int, wanted: Mapping[TopicPartition, int], deadline: float
    ) -> Outcome[OffsetAndTimestamp]:
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA,
            isolation_level=self._isolation,
            timeout_ms=max(int((deadline - asyncio.get_running_loop().time()) * 1_000), 0),
            topics=[
                ListOffsetsRequestTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsRequestPartition(
                            partition_index=index,
                            current_leader_epoch=self._epoch(partition := TopicPartition(topic, index)),
                            timestamp=wanted[partition],
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )
        response = await self._network.call(leader, request, deadline=deadline, what="looking up offsets")
        assert isinstance(response, ListOffsetsResponse)
        answers: dict[TopicPartition, OffsetAndTimestamp] = {}
        errors: dict[TopicPartition, MoldauError] = {}
        for topic in response.topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.name, one.partition_index)
                if one.error_code:
                    errors[partition] = error_for(one.error_code, f"looking up offsets of {partition}")
                else:
                    epoch = None if one.leader_epoch < 0 else one.leader_epoch
                    answers[partition] = OffsetAndTimestamp(one.offset, one.timestamp, epoch)
        return answers, errors | _unanswered(wanted, answers, errors)

    async def _ask_epochs(
        self, leader: int, wanted: Mapping[TopicPartition, int], deadline: float
    ) -> Outcome[EpochEnd]:
        asked_of = {partition: self._epoch(partition) for partition in wanted}
        request = OffsetForLeaderEpochRequest(
            replica_id=CONSUMER_REPLICA,
            topics=[
                OffsetForLeaderEpochRequestTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderEpochRequestPartition(
                            partition=index,
                            current_leader_epoch=asked_of[partition := TopicPartition(topic, index)],
                            leader_epoch=wanted[partition],
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )
        response = await self._network.call(leader, request, deadline=deadline, what="looking for the end of an epoch")
        assert isinstance(response, OffsetForLeaderEpochResponse)
        answers: dict[TopicPartition, EpochEnd] = {}
        errors: dict[TopicPartition, MoldauError] = {}
        for topic in response.topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.topic, one.partition)
                if one.error_code:
                    errors[partition] = error_for(one.error_code, f"looking for the end of an epoch of {partition}")
                elif partition in asked_of:
                    answers[partition] = EpochEnd(one.leader_epoch, one.end_offset, asked_of[partition])
        return answers, errors | _unanswered(wanted, answers, errors)

    def _epoch(self, partition: TopicPartition) -> int:
        known = self._network.metadata.partition(partition.topic, partition.partition)
        return -1 if known is None else known.leader_epoch


def _no_leader(partition: TopicPartition) -> MoldauError:
    return LeaderNotAvailable(
        f"{partition} has no leader at the moment, or does not exist", ErrorCode.LEADER_NOT_AVAILABLE
    )


def _unanswered(
    wanted: Iterable[TopicPartition], answers: Mapping[TopicPartition, object], errors: Mapping[TopicPartition, object]
) -> dict[TopicPartition, MoldauError]:
    return {
        partition: error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"asking about {partition}")
        for partition in wanted
        if partition not in answers and partition not in errors
    }


def _stale(error: MoldauError) -> bool:
    code = getattr(error, "code", None)
    return code in STALE_METADATA or (code is None and error.retriable)
