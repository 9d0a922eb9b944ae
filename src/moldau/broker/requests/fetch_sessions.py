"""Incremental fetch sessions: a client names its partitions once, and then only changes.

The number of sessions is limited by `max.incremental.fetch.session.cache.slots`. A new session replaces one that was
not used for `EVICTABLE_AFTER_S`, or one with fewer partitions, which saves less. Otherwise the client is served without
a session. A follower has one session at a time. It replaces a consumer's session and is never evicted for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.wire.errors import ErrorCode
from moldau.wire.tuned.fetch import FetchCall, FetchTarget

if TYPE_CHECKING:
    from moldau.host.clock import Randomness
    from moldau.replication.partition import CopyWaiter, Partition

NO_SESSION = 0
FULL_FETCH_NEW = 0
FULL_FETCH_FINAL = -1
MAX_EPOCH = 2**31 - 1
EVICTABLE_AFTER_S = 120.0
LOOK_AT_ALL_S = 0.5
"""Interval at which all partitions of a follower's session are processed, not only those with changes."""

TopicKey = str | bytes
"""A topic as in the request: its name, or from version 13 on its id."""


class WatchedPartition:
    """One partition of a fetch request, and the values that were last sent for it in its session."""

    __slots__ = ("partition", "sent_error", "sent_high_watermark", "sent_start_offset", "target", "topic")

    def __init__(self, topic: TopicKey, target: FetchTarget) -> None:
        self.topic = topic
        self.target = target
        self.partition: Partition | None = None  # looked up at the first read, and again after it was removed
        self.sent_high_watermark = -1
        self.sent_start_offset = -1
        self.sent_error = 0

    def found(self, partition: Partition | None) -> None:
        """Set the partition; None if it does not exist."""
        self.partition = partition

    def differs_from_sent(self, error: int, high_watermark: int, start_offset: int, has_records: bool) -> bool:
        """Whether an incremental response must mention this partition."""
        return (
            has_records
            or error != 0
            or error != self.sent_error
            or high_watermark != self.sent_high_watermark
            or start_offset != self.sent_start_offset
        )

    def take_difference(self, error: int, high_watermark: int, start_offset: int, has_records: bool) -> bool:
        """Whether an incremental response must mention this partition. Remembers the values as sent."""
        changed = self.differs_from_sent(error, high_watermark, start_offset, has_records)
        self.sent_error, self.sent_high_watermark, self.sent_start_offset = error, high_watermark, start_offset
        return changed


class FetchSession:
    __slots__ = ("epoch", "id", "last_used", "partitions", "replica_id", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now: float, replica_id: int = -1) -> None:
        self.id = session_id
        self.replica_id = replica_id
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.last_used = now
        self.partitions: dict[tuple[TopicKey, int], WatchedPartition] = {}

    def begin(self, watched: list[WatchedPartition]) -> list[WatchedPartition]:
        """Set the partitions of the session. Returns those to read."""
        self.partitions = {(entry.topic, entry.target.partition): entry for entry in watched}
        return watched

    def close(self) -> None:
        """End the session."""

    def update(self, call: FetchCall) -> list[WatchedPartition]:
        """Apply the changes of a request. Returns the partitions to read."""
        for topic, indexes in call.forgotten:
            for index in indexes:
                self.partitions.pop((topic, index), None)
        for watched in watched_partitions(call):
            key = (watched.topic, watched.target.partition)
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = watched
            else:
                known.target = watched.target
        return list(self.partitions.values())

    def served(self, watched: WatchedPartition) -> None:
        """Move a partition that got records to the end, so that it does not starve the others."""
        key = (watched.topic, watched.target.partition)
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = watched

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1


class CopiedPartition(WatchedPartition):
    """A partition of a follower's session. Changes of the partition mark it as touched, so the next response reads
    it."""

    __slots__ = ("session",)

    def __init__(self, topic: TopicKey, target: FetchTarget, session: CopySession) -> None:
        super().__init__(topic, target)
        self.session = session

    def found(self, partition: Partition | None) -> None:
        if self.partition is not None:
            self.partition.forget_copier(self)
        self.partition = partition
        if partition is not None:
            partition.await_copy(self)

    def bytes_arrived(self, count: int) -> None:
        self.session.touched[self] = None
        if self.session.waiting is not None:
            self.session.waiting.bytes_arrived(count)

    def high_watermark_moved(self) -> None:
        self.session.touched[self] = None
        if self.session.waiting is not None:
            self.session.waiting.high_watermark_moved()

    def partition_changed(self) -> None:
        self.session.touched[self] = None
        if self.session.waiting is not None:
            self.session.waiting.partition_changed()


class CopySession(FetchSession):
    """The session of a follower. It may have many thousand partitions, so a response reads only those with changes.
    Every `LOOK_AT_ALL_S` it reads all, because the leader uses these reads to see that its followers are alive."""

    __slots__ = ("all_looked_at", "touched", "waiting")

    def __init__(self, session_id: int, uses_topic_ids: bool, now: float, replica_id: int) -> None:
        super().__init__(session_id, uses_topic_ids, now, replica_id)
        self.touched: dict[WatchedPartition, None] = {}
        self.waiting: CopyWaiter | None = None
        """The fetch that waits for changes."""
        self.all_looked_at = now

    def begin(self, watched: list[WatchedPartition]) -> list[WatchedPartition]:
        return super().begin([CopiedPartition(entry.topic, entry.target, self) for entry in watched])

    def close(self) -> None:
        for watched in self.partitions.values():
            watched.found(None)
        self.touched.clear()

    def update(self, call: FetchCall) -> list[WatchedPartition]:
        for topic, indexes in call.forgotten:
            for index in indexes:
                gone = self.partitions.pop((topic, index), None)
                if gone is not None:
                    gone.found(None)
                    self.touched.pop(gone, None)
        for topic, targets in call.topics:
            for target in targets:
                known = self.partitions.get((topic, target.partition))
                if known is None:
                    known = self.partitions[topic, target.partition] = CopiedPartition(topic, target, self)
                elif known.target.current_leader_epoch != target.current_leader_epoch:
                    known.sent_high_watermark = -1  # it may not have received the last response: send it again
                known.target = target
                self.touched[known] = None
        if self.last_used - self.all_looked_at >= LOOK_AT_ALL_S:
            self.all_looked_at = self.last_used
            self.touched.update(dict.fromkeys(self.partitions.values()))
        return []  # the reader takes them from `touched`


class FetchSessionError(Exception):
    """The session of a request cannot be used. `error` is the reason."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class FetchSessions:
    __slots__ = ("_by_id", "_random", "evicted", "slots")

    def __init__(self, slots: int, randomness: Randomness) -> None:
        self.slots = slots
        self.evicted = 0
        self._by_id: dict[int, FetchSession] = {}
        self._random = randomness

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: int) -> FetchSession | None:
        return self._by_id.get(session_id)

    def open(
        self, call: FetchCall, uses_topic_ids: bool, now: float
    ) -> tuple[FetchSession | None, list[WatchedPartition], bool]:
        """The session of this request, the partitions to read, and whether the response is incremental.

        Raises FetchSessionError.
        """
        if call.session_epoch in (FULL_FETCH_FINAL, FULL_FETCH_NEW):
            if call.session_id != NO_SESSION:
                self.drop(call.session_id)
            watched = list(watched_partitions(call))
            session = None
            if call.session_epoch == FULL_FETCH_NEW and watched:
                session = self._create(len(watched), uses_topic_ids, now, call.replica_id)
                if session is not None:
                    watched = session.begin(watched)
            return session, watched, False
        session = self._by_id.get(call.session_id)
        if session is None:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != call.session_epoch:
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.last_used = now
        watched = session.update(call)
        session.next_epoch()
        return session, watched, True

    def _create(self, partitions: int, uses_topic_ids: bool, now: float, replica_id: int) -> FetchSession | None:
        if replica_id >= 0:
            for former in [one.id for one in self._by_id.values() if one.replica_id == replica_id]:
                self.drop(former)
        if len(self._by_id) >= self.slots and not self._evict(partitions, now, replica_id >= 0):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._by_id:
            session_id = int(self._random.random() * (2**31 - 1)) + 1
        kind = FetchSession if replica_id < 0 else CopySession
        session = kind(session_id, uses_topic_ids, now, replica_id)
        self._by_id[session_id] = session
        return session

    def drop(self, session_id: int) -> None:
        """End a session, if it exists."""
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.close()

    def _evict(self, newcomer_size: int, now: float, for_replica: bool) -> bool:
        consumers = [session for session in self._by_id.values() if session.replica_id < 0]
        if not consumers:
            return False
        victim = min(consumers, key=lambda session: session.last_used)
        if now - victim.last_used < EVICTABLE_AFTER_S and not for_replica:
            victim = min(consumers, key=lambda session: len(session.partitions))
            if len(victim.partitions) >= newcomer_size:
                return False
        del self._by_id[victim.id]
        self.evicted += 1
        return True


def watched_partitions(call: FetchCall) -> Iterable[WatchedPartition]:
    for topic, targets in call.topics:
        for target in targets:
            yield WatchedPartition(topic, target)
