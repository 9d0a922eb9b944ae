"""Group of a consumer as its core sees it: assignment, rebalances and commits; with or without a group.id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from moldau.client.consumer.commits import Commits, Offsets, OnCommit
from moldau.client.consumer.groupless_assignment import GrouplessAssignment
from moldau.client.consumer.membership.membership import GroupMembership, GroupMetadata
from moldau.client.consumer.offset_reset import CallbackDue
from moldau.client.consumer.subscription import Subscription
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import IllegalStateError, MoldauError
from moldau.client.metadata import ClusterMetadata
from moldau.client.network import Network
from moldau.client.settings import ClientSettings


class GroupBinding(Protocol):
    """What the core needs of a group. Owned by the event loop."""

    has_id: bool
    """Whether there is a group.id, so that offsets can be committed."""

    @property
    def failure(self) -> MoldauError | None:
        """The error that ended the membership; every poll raises it."""

    async def subscribed(self) -> None:
        """Act on a new subscription."""

    def metadata_changed(self, metadata: ClusterMetadata) -> None: ...

    def polled(self, now: float) -> CallbackDue | None:
        """Note that the application polls, start an automatic commit if one is due, and return a due callback."""

    def callback_done(self, due: CallbackDue, error: BaseException | None) -> None: ...

    async def before_leaving(self, deadline: float) -> CallbackDue | None:
        """Commit if enable.auto.commit is set, and return the callback to run before the consumer leaves."""

    async def leave(self, deadline: float) -> None: ...

    async def close(self, deadline: float) -> None: ...

    async def commit(self, offsets: Offsets | None, deadline: float) -> None: ...

    def commit_async(self, offsets: Offsets | None, on_commit: OnCommit | None) -> None: ...

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]: ...

    def group_metadata(self) -> GroupMetadata: ...


def group_of(
    network: Network, settings: ClientSettings, subscription: Subscription, changed: Callable[[], None]
) -> GroupBinding:
    """Return the group of group.id, or an `Ungrouped` if there is no group.id."""
    if settings["group.id"] is None:
        return Ungrouped(network, settings, subscription)
    return Grouped(network, settings, subscription, changed)


class Grouped:
    """A group.id. The consumer is a member after `subscribe`; before it, and with `assign`, it only commits offsets."""

    has_id = True

    def __init__(
        self, network: Network, settings: ClientSettings, subscription: Subscription, changed: Callable[[], None]
    ) -> None:
        self._subscription = subscription
        self._membership = GroupMembership(network, settings, subscription, on_change=changed)
        self._commits = Commits(network, settings, subscription, self._membership)
        self._membership.auto_commit = self._commits

    @property
    def failure(self) -> MoldauError | None:
        return self._membership.failure

    async def subscribed(self) -> None:
        await self._membership.start()

    def metadata_changed(self, metadata: ClusterMetadata) -> None:
        pass  # the membership gets metadata changes from the network itself

    def polled(self, now: float) -> CallbackDue | None:
        self._commits.poll(now)
        self._membership.polled(now)
        return self._membership.callback_due()

    def callback_done(self, due: CallbackDue, error: BaseException | None) -> None:
        self._membership.callback_done(due, error)

    async def before_leaving(self, deadline: float) -> CallbackDue | None:
        await self._commits.close(deadline)
        return self._membership.final_callback()

    async def leave(self, deadline: float) -> None:
        await self._membership.leave(deadline)

    async def close(self, deadline: float) -> None:
        try:
            await self._commits.close(deadline)
        finally:
            await self._membership.leave(deadline)

    async def commit(self, offsets: Offsets | None, deadline: float) -> None:
        await self._commits.commit(offsets, deadline)

    def commit_async(self, offsets: Offsets | None, on_commit: OnCommit | None) -> None:
        self._commits.commit_async(offsets, on_commit)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        return await self._commits.committed(partitions, deadline)

    def group_metadata(self) -> GroupMetadata:
        return self._membership.group_metadata()


class Ungrouped:
    """No group.id: this consumer reads all partitions of its topics, and cannot commit offsets."""

    has_id = False
    failure: MoldauError | None = None

    def __init__(self, network: Network, settings: ClientSettings, subscription: Subscription) -> None:
        self._network = network
        self._subscription = subscription
        self._topics = GrouplessAssignment(subscription, internal_too=not settings["exclude.internal.topics"])
        self._followed: tuple[str, ...] = ()

    async def subscribed(self) -> None:
        self._network.follow_all(self._subscription.pattern is not None)
        self._network.unfollow(self._followed)
        self._followed = () if self._subscription.pattern is not None else self._subscription.topics
        self._network.follow(self._followed)
        self.metadata_changed(self._network.metadata)

    def metadata_changed(self, metadata: ClusterMetadata) -> None:
        if self._subscription.uses_group:
            self._topics.assign(metadata)

    def polled(self, now: float) -> CallbackDue | None:
        return self._topics.callback_due()

    def callback_done(self, due: CallbackDue, error: BaseException | None) -> None:
        self._topics.callback_done(due)

    async def before_leaving(self, deadline: float) -> CallbackDue | None:
        return self._topics.final_callback()

    async def leave(self, deadline: float) -> None:
        self._network.follow_all(False)
        self._network.unfollow(self._followed)
        self._followed = ()

    async def close(self, deadline: float) -> None:
        pass

    async def commit(self, offsets: Offsets | None, deadline: float) -> None:
        raise no_group()

    def commit_async(self, offsets: Offsets | None, on_commit: OnCommit | None) -> None:
        raise no_group()

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        raise no_group()

    def group_metadata(self) -> GroupMetadata:
        raise no_group()


def no_group() -> MoldauError:
    """The error of calls that need a group.id."""
    return IllegalStateError("offsets are committed for a group, and this consumer has no group.id: set one")
