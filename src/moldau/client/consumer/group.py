"""What a consumer's core asks of its group: who reads what, and what was committed. Or of there being none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from moldau.client.consumer.grouped import Grouped
from moldau.client.consumer.model import CallbackDue
from moldau.client.consumer.subscription import Mode, Subscription
from moldau.client.consumer.whole_topics import WholeTopics
from moldau.client.errors import InvalidGroupId, MoldauError
from moldau.client.metadata import ClusterMetadata
from moldau.client.model import OffsetAndMetadata, TopicPartition
from moldau.client.network import Network
from moldau.client.settings import ClientSettings
from moldau.wire.errors import ErrorCode

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, MoldauError | None], None]


class Group(Protocol):
    """Loop-owned, as the core that calls it."""

    has_id: bool
    """Whether there is a group to commit to."""

    @property
    def failure(self) -> MoldauError | None:
        """Why this consumer cannot go on; every poll raises it."""

    async def subscribed(self) -> None:
        """The application has subscribed to something else."""

    def metadata_changed(self, metadata: ClusterMetadata) -> None: ...

    def polled(self, now: float) -> CallbackDue | None:
        """The application is here, waiting for records: time for what is due to it, and for automatic commits."""

    def callback_done(self, due: CallbackDue, error: BaseException | None) -> None: ...

    async def farewell(self, deadline: float) -> CallbackDue | None:
        """Before `leave` or `close`: the last automatic commit, and what the application should then hear."""

    async def leave(self, deadline: float) -> None: ...

    async def close(self, deadline: float) -> None: ...

    async def commit(self, offsets: Offsets, deadline: float) -> None: ...

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None: ...

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]: ...

    def group_metadata(self) -> object: ...


def group_of(
    network: Network, settings: ClientSettings, subscription: Subscription, changed: Callable[[], None]
) -> Group:
    """The group that the settings name, or none."""
    if settings["group.id"] is None:
        return Ungrouped(network, subscription)
    return Grouped(network, settings, subscription, changed)


class Ungrouped:
    """No group: what is subscribed to is read whole, and nothing can be committed."""

    has_id = False
    failure: MoldauError | None = None

    def __init__(self, network: Network, subscription: Subscription) -> None:
        self._network = network
        self._subscription = subscription
        self._topics = WholeTopics(subscription)

    async def subscribed(self) -> None:
        self.metadata_changed(self._network.metadata)

    def metadata_changed(self, metadata: ClusterMetadata) -> None:
        if self._subscription.mode in (Mode.TOPICS, Mode.PATTERN):
            self._topics.assign(metadata)

    def polled(self, now: float) -> CallbackDue | None:
        return self._topics.callback_due()

    def callback_done(self, due: CallbackDue, error: BaseException | None) -> None:
        self._topics.callback_done(due)

    async def farewell(self, deadline: float) -> CallbackDue | None:
        return None

    async def leave(self, deadline: float) -> None:
        pass

    async def close(self, deadline: float) -> None:
        pass

    async def commit(self, offsets: Offsets, deadline: float) -> None:
        raise no_group("commit")

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        raise no_group("commit")

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        raise no_group("committed")

    def group_metadata(self) -> object:
        raise no_group("group_metadata")


def no_group(call: str) -> MoldauError:
    return InvalidGroupId(f"{call}: this consumer is in no group; give it a group.id", ErrorCode.INVALID_GROUP_ID)
