"""Test driver for one group coordinator shard with a virtual clock.

It feeds events, collects replies, fires timers in order, and stores and replays records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.assignment.consumer_protocol import encode_assignment
from moldau.cluster.image import PartitionState, TopicImage
from moldau.coordinator.outcome import CoordinatorOutcome, StoredRecord, TimerFired, TxnProducer
from moldau.groups.config import GroupConfig, MemberTimes, same_times
from moldau.groups.events import (
    Commit,
    CommitOffsets,
    ConsumerGroupHeartbeat,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    MaySee,
    MembershipRequest,
    SyncGroup,
)
from moldau.groups.shard import GroupShard
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from moldau.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 30_000
MAX_TIMERS = 100_000

EVENTS: Mapping[type[Any], type[MembershipRequest[Any]]] = {
    JoinGroupRequest: JoinGroup,
    SyncGroupRequest: SyncGroup,
    HeartbeatRequest: Heartbeat,
    LeaveGroupRequest: LeaveGroup,
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeat,
}


def topic(name: str, partitions: int, id_: bytes | None = None) -> TopicImage:
    state = PartitionState((0,), (0,), 0, 0, 0)
    return TopicImage(name, id_ or name.encode().ljust(16, b"\x01"), (state,) * partitions)


def topics(**counts: int) -> dict[str, TopicImage]:
    return {name: topic(name, count) for name, count in counts.items()}


def subscription(
    *names: str, owned: Sequence[tuple[str, Sequence[int]]] = (), version: int = 1, user_data: bytes | None = None
) -> bytes:
    from moldau.wire.messages.consumer_protocol import ConsumerProtocolSubscriptionTopicPartitions

    message = ConsumerProtocolSubscription(
        topics=list(names),
        user_data=user_data,
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartitions(topic=name, partitions=list(indexes)) for name, indexes in owned
        ],
    )
    return version.to_bytes(2, "big") + message.encode(version)


class ShardDriver:
    """One shard, run like in a broker, with a clock that the test moves."""

    def __init__(self, config: GroupConfig | None = None, known: Mapping[str, TopicImage] | None = None) -> None:
        self.config = config or GroupConfig(initial_rebalance_delay_ms=0)
        self.known = dict(topics(t=10) if known is None else known)
        self.now = START_MS
        self.log: list[tuple[TxnProducer | None, StoredRecord] | tuple[int, bool]] = []
        self.timers: dict[Any, int] = {}
        self.answers: dict[Any, Any] = {}
        self.waiting: set[int] = set()
        self.broken = False
        """While true, storing fails."""
        self._ids = 0
        self._tickets = 0
        self.times: dict[str, MemberTimes] = {}
        """The times of groups that override the settings."""
        self.may_see: MaySee | None = None
        """The topics that the clients of the next requests may know of."""
        self.shard = self._new_shard()
        self._carry_out(self.shard.loaded(self.now))

    def _new_shard(self) -> GroupShard:
        common = same_times(self.config)
        return GroupShard(self.config, self._new_id, self.known, lambda one: self.times.get(one) or common(one))

    def _new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    # -- running ---------------------------------------------------------------------------------------------------

    def feed(self, event: Any) -> CoordinatorOutcome:
        outcome = self.shard.step(self.now, event)
        self._carry_out(outcome, event)
        return outcome

    def ask(self, event_type: Any, *arguments: Any, **keywords: Any) -> Any:
        """Feed an event and return its answer, which must come at once."""
        ticket = self._ticket()
        self.feed(event_type(ticket, *arguments, **keywords))
        return self.answers.pop(ticket)

    def _ticket(self) -> int:
        self._tickets += 1
        self.waiting.add(self._tickets)
        return self._tickets

    def _carry_out(self, outcome: CoordinatorOutcome, event: Any = None) -> None:
        failed = self.broken and bool(outcome.records)
        if not failed:
            for record in outcome.records:
                self.log.append((outcome.producer, record))
                if outcome.producer is None:
                    self.shard.replay(*record)
                else:
                    self.shard.replay_pending(outcome.producer.id, *record)
        for key, at_ms in outcome.timers:
            if at_ms is not None:
                self.timers[key] = at_ms
            elif not failed:
                self.timers.pop(key, None)
        for ticket, answer in outcome.replies:
            assert ticket in self.waiting, "answered twice"
            self.waiting.remove(ticket)
            self.answers[ticket] = ErrorCode.COORDINATOR_NOT_AVAILABLE if failed else answer
        if failed and isinstance(event, TimerFired):
            self.timers[event.key] = self.now + 1_000

    def marker(self, producer_id: int, committed: bool) -> None:
        self.log.append((producer_id, committed))
        self.shard.replay_marker(producer_id, committed)

    def advance(self, milliseconds: int) -> None:
        """Move the clock. Every timer fires at its time."""
        end = self.now + milliseconds
        for _ in range(MAX_TIMERS):
            due = min(self.timers.items(), key=lambda item: item[1], default=None)
            if due is None or due[1] > end:
                break
            key, at_ms = due
            del self.timers[key]
            self.now = max(self.now, at_ms)
            self.feed(TimerFired(key))
        else:
            raise AssertionError("the timers do not come to an end")
        self.now = end

    def reload(self) -> None:
        """Restart the coordinator: a new shard replays the stored records."""
        self.shard = self._new_shard()
        self.timers.clear()
        self.waiting.clear()
        for entry in self.log:
            if isinstance(entry[0], int):
                self.shard.replay_marker(*entry)  # type: ignore[arg-type]
                continue
            producer, record = entry  # type: ignore[assignment]
            if producer is None:
                self.shard.replay(*record)
            else:
                self.shard.replay_pending(producer.id, *record)
        self._carry_out(self.shard.loaded(self.now))

    # -- classic protocol ------------------------------------------------------------------------------------------

    def call(self, message: Any, version: int, client_id: str = "app") -> int:
        ticket = self._ticket()
        self.feed(EVENTS[type(message)](ticket, message, version, client_id, "/127.0.0.1", self.may_see))
        return ticket

    def answer(self, ticket: int) -> Any:
        return self.answers.pop(ticket, None)

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = 9,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] | None = None,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
    ) -> int:
        chosen = [("range", subscription("t"))] if protocols is None else protocols
        message = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in chosen],
        )
        return self.call(message, version)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol: str | None = None,
    ) -> int:
        message = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=data) for one, data in (assignments or {}).items()
            ],
        )
        return self.call(message, 5)

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> ErrorCode:
        message = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return ErrorCode(self.answer(self.call(message, 4)).error_code)

    def leave(self, *members: str | tuple[str, str], group: str = "g") -> list[ErrorCode]:
        message = LeaveGroupRequest(
            group_id=group,
            members=[
                LeaveGroupRequestMember(member_id=one)
                if isinstance(one, str)
                else LeaveGroupRequestMember(member_id=one[0], group_instance_id=one[1])
                for one in members
            ],
        )
        response = self.answer(self.call(message, 5))
        if isinstance(response, ErrorCode):
            return [response]
        return [ErrorCode(one.error_code) for one in response.members] or [ErrorCode(response.error_code)]

    def member_id(self, **keywords: Any) -> str:
        """Join as a new dynamic member and return the id from MEMBER_ID_REQUIRED."""
        response = self.answer(self.join(**keywords))
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return str(response.member_id)

    def stable_group(self, count: int = 1, **keywords: Any) -> list[str]:
        """Form a group of generation 1. The assignment of each member is its member id."""
        members = [self.member_id(**keywords) for _ in range(count)]
        joins = [self.join(member, **keywords) for member in members]
        self.advance(0)
        self._sync_all([self.answer(one) for one in joins])
        return members

    def _sync_all(self, responses: list[Any]) -> None:
        leader = next(one for one in responses if one.member_id == one.leader)
        assignments = {member.member_id: member.member_id.encode() for member in leader.members}
        for one in sorted(responses, key=lambda response: response.member_id == leader.member_id):
            self.sync(one.member_id, one.generation_id, assignments if one is leader else None)
        self.answers.clear()

    # -- offsets ---------------------------------------------------------------------------------------------------

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        instance: str | None = None,
        producer: TxnProducer | None = None,
        metadata: str = "",
        retention_ms: int = -1,
    ) -> ErrorCode:
        commits = [Commit(topic, partition, offset, 3, metadata)]
        (code,) = self.ask(CommitOffsets, group, member_id, generation, instance, commits, retention_ms, producer)
        return ErrorCode(code)

    def committed(self, *, group: str = "g", topic: str = "t", partition: int = 0, require_stable: bool = False) -> Any:
        code, found = self.ask(FetchOffsets, group, [(topic, [partition])], require_stable)
        assert code == ErrorCode.NONE
        return found[0][1][0]

    # -- consumer protocol -----------------------------------------------------------------------------------------

    def consumer_heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = "g",
        names: Sequence[str] | None = None,
        regex: str | None = None,
        owned: Mapping[str, Sequence[int]] | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
        version: int = 1,
    ) -> Any:
        """Send a ConsumerGroupHeartbeat. With epoch 0 it has all fields that a join needs."""
        if epoch == 0:
            rebalance_ms = REBALANCE_MS if rebalance_ms == -1 else rebalance_ms
            names = ["t"] if names is None and regex is None else names
            owned = {} if owned is None else owned
        message = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if names is None else list(names),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=self.known[name].id, partitions=list(indexes))
                for name, indexes in owned.items()
            ],
        )
        return self.answer(self.call(message, version))

    def assigned(self, response: Any) -> dict[str, list[int]] | None:
        if response.assignment is None:
            return None
        by_id = {image.id: name for name, image in self.known.items()}
        return {by_id[one.topic_id]: list(one.partitions) for one in response.assignment.topic_partitions}


def assignment(**partitions: Sequence[int]) -> bytes:
    return encode_assignment(sorted(partitions.items()), 1)
