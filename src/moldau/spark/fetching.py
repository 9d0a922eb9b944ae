"""Fetch client of a task: reads one range of offsets from the partition's leader, on the client's event loop.

Fetch requests name the topic by id (Fetch 13 and later), so a response always belongs to that topic. If the topic was
deleted and created again with the same name, the read fails, whatever the offsets of the new topic are.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from moldau.client.consumer.fetched_partition import FetchedPartition, nothing_whole
from moldau.client.data_types import NO_LEADER, TopicPartition
from moldau.client.errors import ErrorCode, MoldauError, TimedOut, error_for
from moldau.client.loop_thread import LoopThread
from moldau.client.metadata import NO_TOPIC_ID, PartitionMetadata
from moldau.client.network import Network
from moldau.client.settings import CONSUMER, ClientSettings
from moldau.spark.data_loss import Loss, gone_before
from moldau.spark.planning import OffsetRange
from moldau.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic, FetchResponsePartition
from moldau.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

MAX_CLIENTS = 4
"""The number of clients, each with its own settings, that a Python worker of Spark keeps between tasks."""

LOOKS_BEFORE_GONE = 3
"""The number of consecutive answers that must say that the topic does not exist: a broker that has just started does
not know any topic yet."""

NO_SESSION = 0
NO_SESSION_EPOCH = -1
EARLIEST = -2
CONSUMER_ID = -1
ISOLATION = {"read_uncommitted": 0, "read_committed": 1}

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)


class Gone(MoldauError):
    """The topic does not exist any more, or another topic has its name."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.text)
        self.loss = loss


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """The result of one fetch: batches, or a loss."""

    end: int
    """The offset after the range that this answer covers."""
    run: FetchedPartition | None = None
    lost: Loss | None = None


class WorkerClient:
    """The client of one worker process for one set of settings. Its connections and metadata outlive the tasks."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = ClientSettings.of(CONSUMER, settings, {})
        self._thread = LoopThread.acquire()
        self.network = self._thread.run(self._started())

    async def _started(self) -> Network:
        network = Network(self._settings)
        await network.start()
        return network

    def fetch(self, one: OffsetRange, position: int, timeout_s: float) -> Future[FetchedRange]:
        """Start a fetch. The caller waits for the future later."""
        return self._thread.submit(_fetch(self.network, self._settings, one, position, timeout_s))

    def close(self) -> None:
        try:
            self._thread.run(self.network.close())
        finally:
            self._thread.release()


_clients: dict[tuple[tuple[str, Any], ...], WorkerClient] = {}


def client_for(settings: dict[str, Any]) -> WorkerClient:
    """The client with these settings. A worker process runs one task at a time, so no other task uses it now."""
    key = tuple(sorted(settings.items()))
    client = _clients.pop(key, None)
    if client is None:
        while len(_clients) >= MAX_CLIENTS:
            _clients.pop(next(iter(_clients))).close()
        client = WorkerClient(settings)
    _clients[key] = client  # the least recently used client is closed first
    return client


def close_clients() -> None:
    """Close all clients before the process ends. Used by tests."""
    while _clients:
        _clients.popitem()[1].close()


async def _fetch(
    network: Network, settings: ClientSettings, one: OffsetRange, position: int, timeout_s: float
) -> FetchedRange:
    deadline = asyncio.get_running_loop().time() + timeout_s
    attempts = _LeaderAttempts(network, settings, one, position, deadline)
    what = f"reading {one.topic_partition} from offset {position}"
    answer = await network.retrying(attempts.attempt, deadline=deadline, what=what)
    while answer.end == position and answer.lost is None:
        # All offsets before `until` existed when the batch was planned, so a leader that does not have them yet is
        # lagging.
        if asyncio.get_running_loop().time() >= deadline:
            raise TimedOut(
                f"{what}: no record arrived in {timeout_s:.0f} s, although the partition should reach {one.until}; "
                "see the broker's log"
            )
        answer = await network.retrying(attempts.attempt, deadline=deadline, what=what)
    return answer


class _LeaderAttempts:
    """Repeated requests to the leader until it answers."""

    def __init__(
        self, network: Network, settings: ClientSettings, one: OffsetRange, position: int, deadline: float
    ) -> None:
        self._network = network
        self._settings = settings
        self._range = one
        self._position = position
        self._deadline = deadline
        self._unknown = 0

    async def attempt(self) -> FetchedRange:
        leader = await self._leader()
        response = await self._network.call(leader.leader, self._request(leader), deadline=self._deadline)
        if response.error_code:
            raise error_for(response.error_code, self._what)
        (topic,) = response.responses
        (found,) = topic.partitions
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return await self._lost(leader)
        if found.error_code in _UNKNOWN:
            await self._look_again()
        if found.error_code:
            raise error_for(found.error_code, self._what)
        return self._answer(found)

    @property
    def _what(self) -> str:
        return f"fetching {self._range.topic_partition} from offset {self._position}"

    async def _leader(self) -> PartitionMetadata:
        """The leader of the partition of the planned topic. The cached metadata may be older or newer than the plan."""
        name, index = self._range.topic_partition
        image = self._network.metadata
        topic = image.topics.get(name)
        if topic is None or topic.error or topic.id != self._wanted_id(topic.id):
            topic = await self._look_again()
        if index >= len(topic.partitions) or topic.partitions[index].leader == NO_LEADER:
            self._network.refresh_soon()
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, self._what)
        return topic.partitions[index]

    async def _look_again(self) -> Any:
        """The current metadata of the topic; raises Gone if it is not the planned topic."""
        name = self._range.topic
        self._network.follow([name])
        image = await self._network.refreshed(self._deadline)
        topic = image.topics.get(name)
        if topic is None or topic.error:
            self._unknown += 1
            if self._unknown >= LOOKS_BEFORE_GONE:
                raise Gone(self._gone(f"topic {name!r} does not exist any more"))
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self._what)
        if topic.id != self._wanted_id(topic.id):
            text = f"topic {name!r} was deleted and created again (id {self._range.topic_id}, now {topic.id.hex()})"
            raise Gone(self._gone(text))
        return topic

    def _gone(self, why: str) -> Loss:
        one = self._range
        text = f"{one.topic_partition}, offsets {self._position} to {one.until - 1}, cannot be read: {why}"
        return Loss(one.topic_partition, text)

    def _wanted_id(self, otherwise: bytes) -> bytes:
        """The id in the plan; `otherwise`, if the plan or the broker has no id."""
        planned = self._range.topic_id
        return bytes.fromhex(planned) if planned and otherwise != NO_TOPIC_ID else otherwise

    def _request(self, leader: PartitionMetadata) -> FetchRequest:
        name, index = self._range.topic_partition
        known = self._network.metadata.topics.get(name)
        partition = FetchRequestPartition(
            partition=index,
            current_leader_epoch=leader.leader_epoch,
            fetch_offset=self._position,
            partition_max_bytes=self._settings["max.partition.fetch.bytes"],
        )
        topic_id = self._wanted_id(known.id if known is not None else NO_TOPIC_ID)
        return FetchRequest(
            max_wait_ms=self._settings["fetch.max.wait.ms"],
            min_bytes=self._settings["fetch.min.bytes"],
            max_bytes=self._settings["fetch.max.bytes"],
            isolation_level=ISOLATION[self._settings["isolation.level"]],
            session_id=NO_SESSION,
            session_epoch=NO_SESSION_EPOCH,
            topics=[FetchRequestTopic(topic=name, topic_id=topic_id, partitions=[partition])],
        )

    def _answer(self, found: FetchResponsePartition) -> FetchedRange:
        partition = self._range.topic_partition
        records = found.records or b""
        aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
        run = FetchedPartition(
            partition,
            0,
            self._position,
            cast(bytes, records),
            aborted=aborted if self._settings["isolation.level"] == "read_committed" else None,
            check_crcs=self._settings["check.crcs"],
        )
        if len(records) and run.done:
            raise nothing_whole(partition, self._position, len(records))
        return FetchedRange(run.end, run)

    async def _lost(self, leader: PartitionMetadata) -> FetchedRange:
        """The answer for an offset that is out of range: the remaining records, if any, begin at the earliest
        offset."""
        one = self._range
        earliest = await self._earliest(leader)
        if earliest > self._position:
            end = min(earliest, one.until)
            loss = gone_before(one.between(self._position, one.until), earliest)
            return FetchedRange(end, lost=loss)
        loss = self._gone("the partition now ends before that")
        return FetchedRange(one.until, lost=loss)

    async def _earliest(self, leader: PartitionMetadata) -> int:
        name, index = self._range.topic_partition
        partition = ListOffsetsRequestPartition(
            partition_index=index, current_leader_epoch=leader.leader_epoch, timestamp=EARLIEST
        )
        request = ListOffsetsRequest(
            replica_id=CONSUMER_ID,
            isolation_level=ISOLATION["read_uncommitted"],
            topics=[ListOffsetsRequestTopic(name=name, partitions=[partition])],
        )
        response = await self._network.call(leader.leader, request, deadline=self._deadline, min_version=1)
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise error_for(found.error_code, f"looking for the beginning of {TopicPartition(name, index)}")
        return int(found.offset)
