"""Committed offsets: stored in order, retried while that is safe, and looked up again.

A commit counts only from whoever may read the partition: the coordinator refuses a member whose generation is over.
Such a commit is tried again only if the member has since gone on to the next generation with the partition in its
hands; else it is `CommitFailed`, and the records will be read again by whoever has the partition now.

Commits of one consumer are sent one after another, so an earlier one never overtakes a later one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from moldau.client.consumer.assignors.wire import by_topic
from moldau.client.consumer.membership.membership import GroupMetadata, Membership
from moldau.client.consumer.membership.model import NO_GENERATION
from moldau.client.consumer.subscription import Subscription
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
from moldau.client.model import OffsetAndMetadata, TopicPartition
from moldau.client.network import CoordinatorKind, Network
from moldau.client.settings import ClientSettings
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

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
OnCommit = Callable[[Offsets, MoldauError | None], None]

BY_NAME_UNTIL: Final = 9
"""From version 10 on topics have ids here, which a name that is not in the metadata does not have."""
EPOCHS_FROM: Final = 9
"""The version that a member of the new protocol has to speak."""
STATIC_FROM: Final = 7
STABLE_FROM: Final = 7
"""The version of OffsetFetch that waits for the offsets of open transactions."""

MAX_WAITING: Final = 10_000
"""Asynchronous commits that may wait for those before them."""

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
        ErrorCode.GROUP_ID_NOT_FOUND,  # nobody was left in it, not even us, and it was forgotten
    }
)


class Commits:
    """The offsets of one consumer's group. Without a membership (`assign`) it commits as nobody in particular."""

    def __init__(
        self, network: Network, settings: ClientSettings, subscription: Subscription, membership: Membership | None
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

    # -- what the application asks ---------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None, deadline: float) -> None:
        """Stores these, or the positions of all that was handed out; tried again until the deadline.

        Raises CommitFailed where the group has given the partitions to others, TimedOut where nobody could store them.
        """
        self._check_group()
        async with self._turn:
            await self._store(self._subscription.positions_to_commit() if offsets is None else dict(offsets), deadline)

    def commit_async(self, offsets: Offsets | None, on_commit: OnCommit | None = None) -> None:
        """As `commit`, but nobody waits; and what fails is not tried again, since a later commit may stand already."""
        self._check_group()
        wanted = self._subscription.positions_to_commit() if offsets is None else dict(offsets)
        if len(self._waiting) >= MAX_WAITING:
            error = BufferFull(f"{MAX_WAITING} commits are waiting already; commit less often, or wait for them")
            _report(on_commit, wanted, error)
            return
        task = asyncio.get_running_loop().create_task(self._commit_once(wanted, on_commit))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def committed(
        self, partitions: Iterable[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing."""
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
        """Called when the application polls: it is done with what it was handed before."""
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
        """Commits what was handed out of partitions that are about to be given up; not for longer than half the time
        that the group waits for us."""
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
        """The automatic commit before the consumer leaves."""
        if not self.automatic or not self._may_commit():
            return
        try:
            await self.commit(None, deadline)
        except MoldauError as error:
            logger.warning("the last commit failed: group=%s error=%s", self._group_id, error)

    async def close(self, deadline: float) -> None:
        """The last automatic commit, and the end of all that are under way."""
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

    # -- storing ---------------------------------------------------------------------------------------------------

    async def _commit_once(self, offsets: Offsets, on_commit: OnCommit | None) -> None:
        error: MoldauError | None = None
        deadline = asyncio.get_running_loop().time() + self._settings.seconds("default.api.timeout.ms")
        try:
            async with self._turn:
                await self._attempt(offsets, self._identity(), deadline)
        except MoldauError as failure:
            error = failure
            if on_commit is None:
                logger.warning("a commit failed: group=%s error=%s", self._group_id, failure)
        _report(on_commit, offsets, error)

    async def _store(self, offsets: Offsets, deadline: float) -> None:
        if not offsets:
            return
        held = {one: self._subscription.assigned.get(one) for one in offsets}

        async def attempt() -> None:
            identity = self._identity()
            while True:  # until it is stored, refused, or `_ask` finds that the deadline has passed
                try:
                    return await self._attempt(offsets, identity, deadline)
                except CommitFailed:
                    if not self._still_holds(held):
                        raise
                    identity = await self._next_identity(identity, deadline)
                except RebalanceInProgress:
                    # The generation is ours, and about to be complete.
                    membership = self._membership
                    if membership is None or not membership.rebalancing or not self._still_holds(held):
                        raise
                    await membership.moved(deadline)
                    identity = self._identity()

        what = f"committing offsets of group {self._group_id!r}"
        await self._network.retrying(attempt, deadline=deadline, what=what)

    def _still_holds(self, held: Mapping[TopicPartition, Any]) -> bool:
        assigned = self._subscription.assigned
        return all(state is not None and assigned.get(one) is state for one, state in held.items())

    async def _next_identity(self, refused: GroupMetadata, deadline: float) -> GroupMetadata:
        """Who we are in the generation after the one that is over; CommitFailed where nothing shows that there is one.

        Only while the group is on its way to it, and nothing is due that the application would have to hear first:
        it waits for this commit, and does not poll.
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
            await membership.moved(deadline)
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
            f"committing offsets of group {self._group_id!r}: this member is not, or no longer, in the group's present "
            "generation, and its partitions may be another's. What was read since the last commit will be read again. "
            "Poll more often, or raise max.poll.interval.ms, or lower max.poll.records",
            ErrorCode.ILLEGAL_GENERATION,
        )

    async def _attempt(self, offsets: Offsets, identity: GroupMetadata, deadline: float) -> None:
        """Once, to whom we believe to be the coordinator."""
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

    # -- looking up ------------------------------------------------------------------------------------------------

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
            # The group has gone on; the next heartbeat says so. Anybody may ask.
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
    """Offsets that an open transaction may still change are not told: the coordinator says to ask again."""
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
