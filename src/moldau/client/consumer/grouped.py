"""A consumer that has a group: its membership while it subscribes, and its commits in any case."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from moldau.client.consumer.commits import Commits, Offsets, OnCommit
from moldau.client.consumer.membership import GroupMetadata, Membership
from moldau.client.consumer.model import CallbackDue
from moldau.client.consumer.subscription import Subscription
from moldau.client.errors import MoldauError
from moldau.client.metadata import ClusterMetadata
from moldau.client.model import OffsetAndMetadata, TopicPartition
from moldau.client.network import Network
from moldau.client.settings import ClientSettings


class Grouped:
    """What `group.Group` asks for, from the two that do the work."""

    has_id = True

    def __init__(
        self, network: Network, settings: ClientSettings, subscription: Subscription, changed: Callable[[], None]
    ) -> None:
        self._subscription = subscription
        self.membership = Membership(network, settings, subscription, on_change=changed)
        self.commits = Commits(network, settings, subscription, self.membership)
        self.membership.auto_commit = self.commits

    @property
    def failure(self) -> MoldauError | None:
        return self.membership.failure

    async def subscribed(self) -> None:
        await self.membership.start()

    def metadata_changed(self, metadata: ClusterMetadata) -> None:
        """The membership listens to the network itself."""

    def polled(self, now: float) -> CallbackDue | None:
        self.commits.poll(now)
        self.membership.polled(now)
        return self.membership.callback_due()

    def callback_done(self, due: CallbackDue, error: BaseException | None) -> None:
        self.membership.callback_done(due, error)

    async def farewell(self, deadline: float) -> CallbackDue | None:
        """Before leaving: commits if that is automatic, and says what the application should hear."""
        await self.commits.last(deadline)
        return self.membership.farewell()

    async def leave(self, deadline: float) -> None:
        await self.membership.leave(deadline)

    async def close(self, deadline: float) -> None:
        try:
            await self.commits.close(deadline)
        finally:
            await self.membership.leave(deadline)

    async def commit(self, offsets: Offsets, deadline: float) -> None:
        await self.commits.commit(offsets, deadline)

    def commit_async(self, offsets: Offsets, callback: OnCommit | None) -> None:
        self.commits.commit_async(offsets, callback)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        return await self.commits.committed(partitions, deadline)

    def group_metadata(self) -> GroupMetadata:
        return self.membership.group_metadata()
