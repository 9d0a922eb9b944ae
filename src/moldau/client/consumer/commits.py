"""Offset commits of a consumer: manual and automatic commits, retries, and the lookup of committed offsets.

The coordinator accepts a commit only from the member that owns the partition: it refuses a member of an old generation.
A refused commit is retried only if the member has joined the next generation and has kept the partition all the time.
Otherwise the commit fails with `CommitFailed`, and the member that owns the partition now reads the records again.

Commits of one consumer are sent one after another, so an earlier commit never overwrites a later one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from moldau.client.consumer.membership.events import NO_GENERATION
from moldau.client.consumer.membership.membership import GroupMembership, GroupMetadata
from moldau.client.consumer.subscription import Subscription
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import (
    BrokerUnavailable,
    BufferFull,
    CommitFailed,
    IllegalStateError,
    MoldauError,
    RebalanceInProgress,
    TimedOut,
    error_for,
)
from moldau.client.network import CoordinatorKind, Network
from moldau.client.settings import ClientSettings
from moldau.host.event_log import event_logger
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from moldau.wire.topic_partition import by_topic

log = event_logger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
OnCommit = Callable[[Offsets, MoldauError | None], None]

BY_NAME_UNTIL: Final = 9
"""Version 10 identifies topics by id, and the id of a topic that is not in the metadata is unknown."""
EPOCHS_FROM: Final = 9
"""The first version with member epochs, for members of the consumer protocol (KIP-848)."""
STATIC_FROM: Final = 7
"""The first version of OffsetCommit with group.instance.id."""
STABLE_FROM: Final = 7
"""The first version of OffsetFetch that waits for open transactions to end (`require_stable`)."""

MAX_WAITING: Final = 10_000
"""Limit of asynchronous commits that wait for earlier ones."""

NO_EPOCH: Final = -1

COORDINATOR_MOVED: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT}
)
GENERATION_OVER: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,  # the group lost all members, this one too, and was deleted
    }
)


class Commits:
    """The offsets of one consumer's group. Without a membership (`assign`) commits have no member id."""

    def __init__(
        self, network: Network, settings: ClientSettings, subscription: Subscription, membership: GroupMembership | None
    ) -> None:
        self._network = network
        self._settings = settings
        self._subscription = subscription
        self._membership = membership
        self._group_id: str | None = settings["group.id"]
        self._new_protocol = settings["group.protocol"] == "consumer"
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Task[None]] = set()
        self._interval_s = settings.seconds("auto.commit.interval.ms")
        self._next_at: float | None = None
        self._auto: asyncio.Task[None] | None = None
        self.automatic: bool = settings["enable.auto.commit"] and self._group_id is not None

    # -- calls of the application ----------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None, deadline: float) -> None:
        """Commit these offsets, or the positions of all assigned partitions; retry until the deadline.

        Raises CommitFailed if the group has given the partitions to other members, and TimedOut after the deadline.
        """
        self._check_group()
        async with self._turn:
            await self._store(self._subscription.positions_to_commit() if offsets is None else dict(offsets), deadline)

    def commit_async(self, offsets: Offsets | None, on_commit: OnCommit | None = None) -> None:
        """Like `commit`, without waiting. It is not retried, because a retry could overwrite a later commit."""
        self._check_group()
        wanted = self._subscription.positions_to_commit() if offsets is None else dict(offsets)
        if len(self._waiting) >= MAX_WAITING:
            error = BufferFull(f"{MAX_WAITING} commits are already waiting; commit less often, or wait for them")
            _report(on_commit, wanted, error)
            return
        task = asyncio.get_running_loop().create_task(self._commit_once(wanted, on_commit))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def committed(
        self, partitions: Iterable[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset per partition, None for a partition without one."""
        group_id = self._check_group()
        wanted = [TopicPartition(*one) for one in partitions]
        if not wanted:
            return {}
        what = f"looking up what group {group_id!r} has committed"
        return await self._network.retrying(
            lambda: self._fetch(group_id, wanted, deadline, what), deadline=deadline, what=what
        )

    def _check_group(self) -> str:
        if self._group_id is None:
            raise IllegalStateError("offsets are committed for a group, and this consumer has no group.id: set one")
        return self._group_id

    # -- automatic commits -----------------------------------------------------------------------------------------

    def poll(self, now: float) -> None:
        """Start an automatic commit if one is due. The application polls, so it has processed the records before."""
        if not self.automatic:
            return
        if self._next_at is None:
            self._next_at = now + self._interval_s
        if now < self._next_at or self._auto is not None:
            return
        self._next_at = now + self._interval_s
        offsets = self._subscription.positions_to_commit()
        if offsets and self._may_commit():
            self._auto = asyncio.get_running_loop().create_task(self._commit_automatically(offsets))

    def _may_commit(self) -> bool:
        membership = self._membership
        return membership is None or not membership.active or membership.generation != NO_GENERATION

    async def _commit_automatically(self, offsets: Offsets) -> None:
        try:
            await self._commit_once(offsets, None)
        finally:
            self._auto = None

    def before_revocation(self) -> Awaitable[None] | None:
        """Commit positions before partitions are revoked, or return None if enable.auto.commit is not set.

        It may take at most half of max.poll.interval.ms, for which the group waits for this member.
        """
        if not self.automatic:
            return None
        offsets = self._subscription.positions_to_commit()
        if not offsets:
            return None
        patience_s = min(
            self._settings.seconds("max.poll.interval.ms") / 2, self._settings.seconds("default.api.timeout.ms")
        )
        return self.commit(offsets, asyncio.get_running_loop().time() + patience_s)

    async def last(self, deadline: float) -> None:
        """Make the last automatic commit, before the consumer leaves. An error is logged, not raised."""
        if not self.automatic or not self._may_commit():
            return
        try:
            await self.commit(None, deadline)
        except MoldauError as error:
            log.warning("last commit before leaving failed", extra={"group": self._group_id, "reason": str(error)})

    async def close(self, deadline: float) -> None:
        """Make the last automatic commit, and wait for pending commits until the deadline; then cancel them."""
        loop = asyncio.get_running_loop()
        try:
            await self.last(deadline)
            if self._waiting:
                await asyncio.wait(self._waiting, timeout=max(0.0, deadline - loop.time()))
        finally:
            left = [*self._waiting, *([self._auto] if self._auto is not None else [])]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    # -- sending commits -------------------------------------------------------------------------------------------

    async def _commit_once(self, offsets: Offsets, on_commit: OnCommit | None) -> None:
        error: MoldauError | None = None
        deadline = asyncio.get_running_loop().time() + self._settings.seconds("default.api.timeout.ms")
        try:
            async with self._turn:
                await self._attempt(offsets, self._identity(), deadline)
        except MoldauError as failure:
            error = failure
            if on_commit is None:
                log.warning("commit failed", extra={"group": self._group_id, "reason": str(failure)})
        _report(on_commit, offsets, error)

    async def _store(self, offsets: Offsets, deadline: float) -> None:
        if not offsets:
            return
        held = {one: self._subscription.assigned.get(one) for one in offsets}

        async def attempt() -> None:
            identity = self._identity()
            while True:  # until it is stored or refused, or `_ask` raises TimedOut
                try:
                    return await self._attempt(offsets, identity, deadline)
                except CommitFailed:
                    if not self._still_holds(held):
                        raise
                    identity = await self._next_identity(identity, deadline)
                except RebalanceInProgress:
                    # This member is in the new generation, and waits for its assignment.
                    membership = self._membership
                    if membership is None or not membership.rebalancing or not self._still_holds(held):
                        raise
                    await membership.next_step(deadline)
                    identity = self._identity()

        what = f"committing offsets of group {self._group_id!r}"
        await self._network.retrying(attempt, deadline=deadline, what=what)

    def _still_holds(self, held: Mapping[TopicPartition, Any]) -> bool:
        assigned = self._subscription.assigned
        return all(state is not None and assigned.get(one) is state for one, state in held.items())

    async def _next_identity(self, refused: GroupMetadata, deadline: float) -> GroupMetadata:
        """Wait for the next generation, and return this member's identity in it.

        Raises CommitFailed if no rebalance is under way. It does so too if the rebalance has to wait for a callback:
        the application waits for this commit, does not poll, and so cannot run the callback.
        """
        membership = self._membership
        loop = asyncio.get_running_loop()
        while membership is not None and loop.time() < deadline:
            now = membership.group_metadata()
            if now.generation_id == NO_GENERATION:
                break
            if now != refused:
                return now
            if not membership.rebalancing:
                break
            await membership.next_step(deadline)
        raise self._failed()

    def _identity(self) -> GroupMetadata:
        membership = self._membership
        assert self._group_id is not None
        if membership is None or not membership.active:
            return GroupMetadata(self._group_id)
        identity = membership.group_metadata()
        if identity.generation_id == NO_GENERATION:
            raise self._failed()
        return identity

    def _failed(self) -> CommitFailed:
        return CommitFailed(
            f"committing offsets of group {self._group_id!r}: this member is not in the group's current generation, "
            "and other members may own its partitions. Records since the last commit will be read again. Poll more "
            "often, raise max.poll.interval.ms, or lower max.poll.records",
            ErrorCode.ILLEGAL_GENERATION,
        )

    async def _attempt(self, offsets: Offsets, identity: GroupMetadata, deadline: float) -> None:
        """Send one OffsetCommit to the coordinator as far as it is known. Raises the first error in the response."""
        if not offsets:
            return
        what = f"committing offsets of group {identity.group_id!r}"
        response: OffsetCommitResponse = await self._ask(_commit_request(offsets, identity), identity, deadline, what)
        for topic in response.topics:
            for one in topic.partitions:
                code = ErrorCode.of(one.error_code)
                if code is not ErrorCode.NONE:
                    raise self._error(code, f"{what} ({topic.name}-{one.partition_index})")

    def _error(self, code: ErrorCode, what: str) -> MoldauError:
        if code in GENERATION_OVER:
            return self._failed()
        if code in COORDINATOR_MOVED:
            self._coordinator_gone()
        return error_for(code, what)

    async def _ask(self, request: Any, identity: GroupMetadata, deadline: float, what: str) -> Any:
        assert self._group_id is not None
        min_version = 0
        if self._new_protocol and identity.member_id:
            min_version = EPOCHS_FROM
        elif identity.group_instance_id is not None and isinstance(request, OffsetCommitRequest):
            min_version = STATIC_FROM
        elif isinstance(request, OffsetFetchRequest) and self._settings["isolation.level"] == "read_committed":
            min_version = STABLE_FROM
        try:
            node = await self._network.coordinator(CoordinatorKind.GROUP, self._group_id, deadline)
            return await self._network.call(
                node, request, deadline=deadline, min_version=min_version, max_version=BY_NAME_UNTIL, what=what
            )
        except (BrokerUnavailable, TimedOut):
            self._coordinator_gone()
            raise

    def _coordinator_gone(self) -> None:
        assert self._group_id is not None
        self._network.coordinator_gone(CoordinatorKind.GROUP, self._group_id)

    # -- looking up committed offsets ------------------------------------------------------------------------------

    async def _fetch(
        self, group_id: str, wanted: list[TopicPartition], deadline: float, what: str
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        membership = self._membership
        identity = GroupMetadata(group_id)
        if self._new_protocol and membership is not None and membership.generation != NO_GENERATION:
            identity = membership.group_metadata()
        response: OffsetFetchResponse = await self._ask(_fetch_request(wanted, identity), identity, deadline, what)
        code = ErrorCode.of(response.groups[0].error_code if response.groups else response.error_code)
        if code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            # The group has a new generation, which the next heartbeat reports. Offsets may be read without a member id.
            identity = GroupMetadata(group_id)
            response = await self._ask(_fetch_request(wanted, identity), identity, deadline, what)
            code = ErrorCode.of(response.groups[0].error_code if response.groups else response.error_code)
        if code is not ErrorCode.NONE:
            raise self._error(code, what)
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
        for topic in response.groups[0].topics if response.groups else response.topics:
            for one in topic.partitions:
                code = ErrorCode.of(one.error_code)
                if code is not ErrorCode.NONE:
                    raise self._error(code, f"{what} in {topic.name}-{one.partition_index}")
                if one.committed_offset >= 0:
                    epoch = None if one.committed_leader_epoch == NO_EPOCH else one.committed_leader_epoch
                    offset = OffsetAndMetadata(one.committed_offset, one.metadata or "", epoch)
                    found[TopicPartition(topic.name, one.partition_index)] = offset
        return found


def _commit_request(offsets: Offsets, identity: GroupMetadata) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=identity.group_id,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=(one := offsets[TopicPartition(topic, index)]).offset,
                        committed_leader_epoch=NO_EPOCH if one.leader_epoch is None else one.leader_epoch,
                        committed_metadata=one.metadata,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )


def _fetch_request(partitions: Iterable[TopicPartition], identity: GroupMetadata) -> OffsetFetchRequest:
    """With `require_stable` the coordinator returns a retriable error while a transaction may change an offset."""
    topics = by_topic(partitions)
    return OffsetFetchRequest(
        group_id=identity.group_id,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()],
        groups=[
            OffsetFetchRequestGroup(
                group_id=identity.group_id,
                member_id=identity.member_id or None,
                member_epoch=identity.generation_id,
                topics=[
                    OffsetFetchRequestGroupTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in topics.items()
                ],
            )
        ],
        require_stable=True,
    )


def _report(on_commit: OnCommit | None, offsets: Offsets, error: MoldauError | None) -> None:
    if on_commit is not None:
        on_commit(offsets, error)
