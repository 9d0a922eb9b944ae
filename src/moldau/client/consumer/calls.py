"""Consumer calls that run no application code: positions, commits, offsets, topics; shared by both consumers.

`moldau.aio.Consumer` inherits these calls. The blocking `moldau.Consumer` runs the same ones on the loop thread while
its caller waits. Calls that may run a listener or a deserialiser (`subscribe`, `poll`, `close` and others) are not
here: each consumer runs that code in the application's own task or thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from moldau.client import arguments
from moldau.client.consumer.commits import OnCommit
from moldau.client.consumer.core import ConsumerCore
from moldau.client.consumer.group import no_group
from moldau.client.consumer.membership.membership import GroupMetadata
from moldau.client.consumer.offset_lookup import OffsetAndTimestamp
from moldau.client.consumer.options import Committable, chosen, each_of, offsets_of, seek_target
from moldau.client.consumer.queries import Queries
from moldau.client.consumer.single_owner import SingleOwner
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.metadata import PartitionMetadata
from moldau.client.settings import ClientSettings


class ConsumerCalls:
    """A core that starts with the first call, and the calls that need nothing else. Loop-owned, except `wakeup`."""

    def __init__(self, topics: tuple[str, ...], settings: ClientSettings, owner: SingleOwner) -> None:
        self._topics = topics
        self._settings = settings
        self._use = owner
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started_core: ConsumerCore | None = None

    async def start(self) -> None:
        """Start the consumer. Other calls do this when needed. Returns without waiting for a broker."""
        await self._core()

    async def _core(self) -> ConsumerCore:
        if self._started_core is None:
            self._loop = asyncio.get_running_loop()
            self._started_core = ConsumerCore(self._settings)
            await self._started_core.start()
            if self._topics:
                await self._started_core.subscribe(self._topics)
        return self._started_core

    def wakeup(self) -> None:
        """Interrupt the call that waits for records or for a position: it raises WakeupError.

        If no such call is waiting, the next one raises it. This is the only call that any thread or task may make at
        any time.
        """
        if self._started_core is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._started_core.wakeup)

    # -- subscription ----------------------------------------------------------------------------------------------

    def subscription(self) -> frozenset[str]:
        """Return the topics that this consumer is subscribed to; with a pattern, the topics that match it now.

        Empty after `assign`.
        """
        state = self._started_core.subscription if self._started_core is not None else None
        return frozenset(state.topics if state is not None and state.uses_group else ())

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are assigned to this consumer now, by its group or by `assign`."""
        return frozenset(self._started_core.subscription.assigned if self._started_core is not None else ())

    # -- positions -------------------------------------------------------------------------------------------------

    async def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata, *, epoch: int | None = None
    ) -> None:
        """Continue reading the partition at this offset, from the next poll on.

        `epoch` is the leader epoch of the record before the offset. With it the consumer detects a log that was
        truncated below the offset (KIP-320). An OffsetAndMetadata has its own `leader_epoch`.

        Raises IllegalStateError if the partition is not assigned to this consumer.
        """
        with self._use:
            core = await self._core()
            where, to = seek_target(partition, offset, epoch)
            core.seek(where, to.offset, to.leader_epoch)

    async def seek_to_beginning(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Continue reading at the first available record of these partitions; without arguments, of all assigned.

        Raises IllegalStateError if a partition is not assigned to this consumer.
        """
        with self._use:
            (await self._core()).seek_to_beginning(chosen(partitions))

    async def seek_to_end(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Continue reading after the last record of these partitions; without arguments, of all assigned.

        That is the high watermark or, with isolation.level=read_committed, the last stable offset. The next poll or
        `position` looks it up.

        Raises IllegalStateError if a partition is not assigned to this consumer.
        """
        with self._use:
            (await self._core()).seek_to_end(chosen(partitions))

    async def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """Return the offset of the next record that the application will get from the partition.

        A position that is not known yet is looked up, for at most `timeout` seconds (default.api.timeout.ms if None).

        Raises IllegalStateError if the partition is not assigned to this consumer, TimedOut if the position was not
        found in time, NoOffsetForPartition if there is no committed offset and auto.offset.reset is none, and
        WakeupError after `wakeup`.
        """
        with self._use:
            core = await self._core()
            return await core.position(arguments.partition("partition", partition), core.deadline(timeout))

    async def pause(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Return no records of these partitions until `resume`. The partitions stay assigned to this consumer.

        Raises IllegalStateError if a partition is not assigned to this consumer.
        """
        with self._use:
            (await self._core()).pause(each_of(partitions))

    async def resume(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Return records of these partitions again, from the position at which they were paused.

        Raises IllegalStateError if a partition is not assigned to this consumer.
        """
        with self._use:
            (await self._core()).pause(each_of(partitions), False)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions that are paused."""
        assigned = self._started_core.subscription.assigned if self._started_core is not None else {}
        return frozenset(partition for partition, state in assigned.items() if state.paused)

    # -- commits ---------------------------------------------------------------------------------------------------

    async def commit(self, what: Committable = None, *, timeout: float | None = None) -> None:
        """Commit offsets for the group, and wait until the coordinator has stored them.

        `what` is one of:

        - a record: this record and all before it in its partition are committed;
        - a mapping from partitions to offsets, each the offset of the next record to read;
        - None: all records that this consumer has returned to the application are committed.

        Errors that may pass are retried for `timeout` seconds (default.api.timeout.ms if None).

        Raises CommitFailed if the group has given the partitions to another member, TimedOut if the offsets were not
        stored in time, and IllegalStateError if the consumer has no group.id.
        """
        with self._use:
            core = await self._core()
            await core.commit(offsets_of(what), core.deadline(timeout))

    async def commit_async(self, what: Committable = None, on_commit: OnCommit | None = None) -> None:
        """Commit offsets like `commit`, without waiting and without retries.

        `on_commit(offsets, error)` is called on the event loop when the commit has succeeded (`error` is None) or
        failed. Without `on_commit` a failure is logged.

        Raises IllegalStateError if the consumer has no group.id.
        """
        with self._use:
            (await self._core()).commit_async(offsets_of(what), arguments.function("on_commit", on_commit))

    async def committed(
        self, *partitions: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of the group for these partitions; without arguments, for all assigned.

        The value is None for a partition that the group has committed nothing for.

        Raises TimedOut if the coordinator did not answer within `timeout` seconds (default.api.timeout.ms if None),
        and IllegalStateError if the consumer has no group.id.
        """
        with self._use:
            core = await self._core()
            wanted = chosen(partitions) or list(core.subscription.assigned)
            return dict(await core.committed(wanted, core.deadline(timeout)))

    def group_metadata(self) -> GroupMetadata:
        """Return the group id, generation and member id of this consumer, for `Producer.send_offsets`.

        Raises IllegalStateError if the consumer has no group.id.
        """
        if self._started_core is not None:
            return self._started_core.group_metadata()
        if self._settings["group.id"] is None:
            raise no_group()
        return GroupMetadata(self._settings["group.id"])

    # -- offsets, topics and metrics -------------------------------------------------------------------------------

    async def beginning_offsets(
        self, *partitions: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first available record of each partition; without arguments, of all assigned.

        Raises TimedOut if the leaders did not answer within `timeout` seconds (default.api.timeout.ms if None).
        """
        with self._use:
            core = await self._core()
            return await Queries(core).beginning_offsets(chosen(partitions), core.deadline(timeout))

    async def end_offsets(
        self, *partitions: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record of each partition; without arguments, of all assigned.

        That is the high watermark or, with isolation.level=read_committed, the last stable offset.

        Raises TimedOut if the leaders did not answer within `timeout` seconds (default.api.timeout.ms if None).
        """
        with self._use:
            core = await self._core()
            return await Queries(core).end_offsets(chosen(partitions), core.deadline(timeout))

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offset and timestamp of the first record of each partition that is not older than the given time.

        A time is a datetime with a time zone, or milliseconds since 1970. The value is None for a partition that has
        no such record.

        Raises TimedOut if the leaders did not answer within `timeout` seconds (default.api.timeout.ms if None).
        """
        with self._use:
            core = await self._core()
            return await Queries(core).offsets_for_times(times, core.deadline(timeout))

    async def lag(
        self, *partitions: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the difference between end offset and position of each partition; without arguments, of all assigned.

        Raises TimedOut if the leaders did not answer within `timeout` seconds (default.api.timeout.ms if None), and
        IllegalStateError if a partition is not assigned to this consumer.
        """
        with self._use:
            core = await self._core()
            return await Queries(core).lag(chosen(partitions), core.deadline(timeout))

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionMetadata]:
        """Return the partitions of a topic, with their leaders and replicas; an empty list if there is no such topic.

        Raises TimedOut if no broker answered within `timeout` seconds (default.api.timeout.ms if None).
        """
        with self._use:
            core = await self._core()
            return await Queries(core).partitions_for(topic, core.deadline(timeout))

    async def list_topics(self, *, timeout: float | None = None) -> dict[str, list[PartitionMetadata]]:
        """Return all topics that this consumer is authorised to describe, with their partitions.

        Raises TimedOut if no broker answered within `timeout` seconds (default.api.timeout.ms if None).
        """
        with self._use:
            core = await self._core()
            return await Queries(core).list_topics(core.deadline(timeout))

    def metrics(self) -> dict[str, float]:
        """Return counters since the start, the bytes in the fetch buffer, and the number of assigned partitions."""
        return {} if self._started_core is None else Queries(self._started_core).metrics()
