"""Fetch (1): read whole record batches, waiting for them if need be.

Versions 4-18. Full and incremental requests (sessions); by topic name, from 13 on by topic id.

* A batch that contains the offset is returned whole, and so is a first batch larger than every limit: a reader always
  gets on.
* Waits until `min_bytes` are there or `max_wait_ms` have passed; an error of a partition is told at once, except
  "unknown partition", which may be about to appear.
* What the page cache holds is read inside the read callback; anything else is read by a thread of the topic's lane, and
  only this reader waits.
* A response carries at most `RESPONSE_BYTES`, whatever the client allows: a larger one would keep the loop from
  everybody else.

Followers (replica_id, or the replica's state, >= 0) read up to the log's end, and by asking for an offset say that they
have all before it. One that waits is woken by what is appended, not by the high watermark, which it is told soon all
the same; its wait ends when its connection brings another fetch, so that what it wants can change while it waits.

Consumers may read from a follower (from version 11 on), up to the high watermark as the follower knows it; a leader
sends them there where `replica.selector.class` says so (KIP-392). Who asks a broker that does not lead hears who does,
and where (KIP-951).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from moldau.broker.delayed import HIGH_WATERMARK_NEWS_S, NEAR_READERS_NEWS_S, DelayedCopy, DelayedFetch
from moldau.broker.fetch_sessions import CopySession, FetchSession, Refused, WatchedPartition
from moldau.broker.redirects import MOVED, Leader, addresses, present_leader
from moldau.broker.registry import Answer, Body, Later, Reply, handles
from moldau.broker.session import Request
from moldau.log.errors import LogError, OffsetOutOfRange
from moldau.log.log import Log
from moldau.replication.partition import Partition
from moldau.replication.racks import nearest_replica
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.tuned.fetch import (
    NO_TAGS,
    TOPIC_IDS_FROM,
    FetchAnswer,
    FetchCall,
    FetchTarget,
    current_leader_tag,
    decode_fetch,
    diverging_epoch_tag,
    encode_fetch,
    node_endpoints_tag,
)

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

log = logging.getLogger(__name__)

RESPONSE_BYTES = 8 * 1024 * 1024
READ_COMMITTED = 1
FOLLOWERS_SERVE_FROM = 11
LEADERS_FROM = 12
ADDRESSES_FROM = 16
EMPTY = b""
WAITING_ERRORS = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Codes that do not end the wait: the partition may be about to appear."""


@handles(ApiKey.FETCH, raw=True)
def fetch(request: Request, body: memoryview) -> Answer:
    call = decode_fetch(body, request.version)
    broker = request.broker
    if call.replica_id >= 0:
        for waiting in request.session.waiting():
            if isinstance(waiting, Reading):
                waiting.hurry()
    try:
        session, watched, incremental = broker.fetch_sessions.open(
            call, request.version >= TOPIC_IDS_FROM, broker.loop.time()
        )
    except Refused as refused:
        return encode_fetch(request.version, refused.error, 0, [])
    reading = Reading(request, call, session, watched, incremental)
    reading.read_cached()
    if reading.cold or not reading.enough():
        return reading
    return reading.encode()


class Reading(Later):
    """One fetch request on its way: what was read so far, what is missing."""

    __slots__ = (
        "answers",
        "broker",
        "budget",
        "call",
        "cold",
        "delayed",
        "from_replica",
        "has_news",
        "incremental",
        "reply",
        "request",
        "session",
        "taken",
        "urgent",
        "watched",
    )

    def __init__(
        self,
        request: Request,
        call: FetchCall,
        session: FetchSession | None,
        watched: list[WatchedPartition],
        incremental: bool,
    ) -> None:
        self.request = request
        self.broker: Broker = request.broker
        self.call = call
        self.session = session
        self.watched = watched
        self.incremental = incremental
        self.answers: list[FetchAnswer] = []
        self.cold: list[int] = []  # places in `watched` that only a thread can read
        self.taken = 0
        self.urgent = False
        self.from_replica = call.replica_id >= 0
        self.has_news = False
        """A follower does not know the high watermark, or the start, of all that it copies."""
        self.delayed: DelayedFetch | None = None
        self.reply: Reply | None = None

    # -- reading ---------------------------------------------------------------------------------------------------

    def read_cached(self) -> None:
        """Read all that can be had without waiting."""
        self.answers = []
        self.cold = []
        self.taken = 0
        self.urgent = False
        self.has_news = False
        if isinstance(self.session, CopySession):
            # What has been found and not told yet, and where something has happened.
            self.watched = list({**dict.fromkeys(self.watched), **self.session.touched})
            self.session.touched = {}
        self.budget = max(0, min(self.call.max_bytes, self.broker.fetch_max_bytes, RESPONSE_BYTES))
        for place, watched in enumerate(self.watched):
            partition = watched.partition
            if partition is None or partition.failure:
                watched.found(self._find(watched))
                partition = watched.partition
            error = self._refusal(watched, partition)
            if error:
                self.answers.append(FetchAnswer(watched.target.partition, error, -1, -1, -1, self._no_aborts(), EMPTY))
                self.urgent |= error not in WAITING_ERRORS
                continue
            assert partition is not None
            self.answers.append(self._read(place, watched, partition))
        if isinstance(self.session, CopySession) and not self.cold:
            self._keep_what_is_new(self.session)

    def _keep_what_is_new(self, session: CopySession) -> None:
        """Of a follower's many partitions, forget those of which there is nothing to tell. Where there would be, but it
        may not be sent now (no room, a throttle), it is looked at again with the next request."""
        watched, answers = self.watched, self.answers
        if self.incremental:
            self.watched, self.answers = [], []
        for one, answer in zip(watched, answers, strict=True):
            told_all = answer.error_code or len(answer.records) or answer.tags is not NO_TAGS
            if not told_all and one.partition is not None and one.target.fetch_offset < one.partition.log.end_offset:
                session.touched[one] = None
            if self.incremental and (
                answer.tags is not NO_TAGS
                or one.would_be_news(
                    answer.error_code, answer.high_watermark, answer.log_start_offset, len(answer.records) > 0
                )
            ):
                self.watched.append(one)
                self.answers.append(answer)

    def _find(self, watched: WatchedPartition) -> Partition | None:
        return self.broker.replicas.find(watched.topic, watched.target.partition)

    def _refusal(self, watched: WatchedPartition, partition: Partition | None) -> ErrorCode:
        if partition is None:
            return self.broker.replicas.why_missing(watched.topic, watched.target.partition)
        if self.from_replica:
            if not self.request.authorized(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
                return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            error = self.broker.replicas.replica_error(partition, self.call.replica_id, self.call.replica_epoch)
        elif not self.request.authorized(Operation.READ, ResourceType.TOPIC, partition.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            error = partition.leader_error() if self.request.version < FOLLOWERS_SERVE_FROM else partition.failure
        return error or partition.epoch_error(watched.target.current_leader_epoch)

    def _read(self, place: int, watched: WatchedPartition, partition: Partition) -> FetchAnswer:
        target = watched.target
        log_ = partition.log
        offset = target.fetch_offset
        try:
            parting = partition.parting(offset, target.last_fetched_epoch)
        except OffsetOutOfRange:
            return self._out_of_range(partition, target)
        if parting is not None:
            self.urgent = True
            return self._answer(partition, EMPTY, self._no_aborts())._replace(tags=diverging_epoch_tag(*parting))
        if self.from_replica:
            if self.reply is None:  # not when it is looked at again: it has said so once
                self.broker.replicas.fetched(
                    partition, self.call.replica_id, offset, target.log_start_offset, self.call.replica_epoch
                )
            self.has_news |= self.session is not None and (
                partition.high_watermark != watched.told_high_watermark
                or log_.start_offset != watched.told_start_offset
            )
        elif self.call.rack_id and (elsewhere := self._nearer(partition, offset)) is not None:
            self.urgent = True
            return self._answer(partition, EMPTY, self._no_aborts())._replace(preferred_read_replica=elsewhere)
        records: bytes | bytearray | memoryview = EMPTY
        aborted = self._no_aborts()
        end = self._end(partition)
        if offset < end and (self.budget > 0 or not self.taken) and self._may_send(partition):
            try:
                limit = max(0, min(target.max_bytes, self.budget))
                if self.from_replica:
                    found = self.broker.replicas.shared_reads.read(log_, offset, limit, min_one=not self.taken)
                else:
                    found = log_.read(offset, limit, end, min_one=not self.taken, cached_only=True)
                if found is not None and len(found) and aborted is not None:
                    aborted = _aborted(log_, offset, end)
            except LogError as error:
                return self._unreadable(partition, offset, error)
            if found is None:
                self.cold.append(place)
            else:
                records = found
        self._took(len(records))
        return self._answer(partition, records, aborted)

    def _unreadable(self, partition: Partition, offset: int, error: LogError) -> FetchAnswer:
        where = {"topic": partition.topic, "partition": partition.index, "offset": offset}
        log.error("read failed", extra={**where, "reason": error.message})
        return self._failed(partition.index, error.code)

    def _may_send(self, partition: Partition) -> bool:
        return not self.from_replica or self.broker.replicas.throttles.may_send(partition, self.call.replica_id)

    def _end(self, partition: Partition) -> int:
        """Up to where this reader may read."""
        if self.from_replica:
            return partition.log.end_offset
        if self.call.isolation_level == READ_COMMITTED:
            return partition.log.stable_offset(partition.high_watermark)
        return partition.high_watermark

    def _answer(
        self, partition: Partition, records: bytes | bytearray | memoryview, aborted: list[tuple[int, int]] | None
    ) -> FetchAnswer:
        high_watermark = partition.high_watermark
        log_ = partition.log
        stable = log_.stable_offset(high_watermark)
        return FetchAnswer(partition.index, 0, high_watermark, stable, log_.start_offset, aborted, records)

    def _out_of_range(self, partition: Partition, target: FetchTarget) -> FetchAnswer:
        if self.from_replica:
            # It begins anew where our log does.
            answer = self._failed(target.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
            return answer._replace(log_start_offset=partition.log.start_offset)
        if not partition.leads and target.fetch_offset > partition.log.end_offset:
            return self._failed(target.partition, ErrorCode.OFFSET_NOT_AVAILABLE)  # it has not come here yet
        return self._failed(target.partition, ErrorCode.OFFSET_OUT_OF_RANGE)

    def _nearer(self, partition: Partition, offset: int) -> int | None:
        """The replica that this consumer should read from instead, if there is one."""
        broker = self.broker
        if not broker.reads_by_rack or partition.leadership is None:
            return None
        listener = self.request.session.listener.name
        racks = {one.id: one.rack for one in broker.image.brokers.values() if one.endpoint(listener) is not None}
        return nearest_replica(partition.leadership, broker.node_id, racks, self.call.rack_id, offset)

    def _took(self, size: int) -> None:
        self.taken += size
        self.budget -= size

    def _failed(self, index: int, error: ErrorCode) -> FetchAnswer:
        self.urgent = True
        return FetchAnswer(index, error, -1, -1, -1, self._no_aborts(), EMPTY)

    def _no_aborts(self) -> list[tuple[int, int]] | None:
        return [] if self.call.isolation_level == READ_COMMITTED else None

    # -- waiting ---------------------------------------------------------------------------------------------------

    def enough(self) -> bool:
        call = self.call
        return (
            self.taken >= min(call.min_bytes, call.max_bytes)
            or call.max_wait_ms <= 0
            or self.urgent
            or (not self.watched and not self.from_replica)
            or self.broker.stopping
        )

    def start(self, reply: Reply) -> None:
        self.reply = reply
        if self.cold:
            self.broker.spawn(self._read_cold())
        else:
            self._wait()

    def _wait(self) -> None:
        missing = min(self.call.min_bytes, self.call.max_bytes) - self.taken
        registry = self.broker.delayed_fetches
        news_s = NEAR_READERS_NEWS_S if self.broker.reads_by_rack else HIGH_WATERMARK_NEWS_S
        if isinstance(self.session, CopySession):
            self.delayed = DelayedCopy(registry, self.session, missing, self.look_again, news_s)
        else:
            partitions = [watched.partition for watched in self.watched if watched.partition is not None]
            self.delayed = DelayedFetch(registry, partitions, missing, self.look_again)
        wait_s = self.call.max_wait_ms / 1000
        self.delayed.start(min(wait_s, news_s) if self.has_news else wait_s)

    def hurry(self) -> None:
        """Its connection has something newer to ask."""
        if self.delayed is not None:
            self.delayed.wake()

    def abandon(self) -> None:
        if self.delayed is not None:
            self.delayed.abandon()

    def look_again(self, changed: bool) -> None:
        """Enough bytes came, the time is up, or a partition changed."""
        self.delayed = None
        if not changed:
            self.finish()  # with what was found at first
            return
        self.read_cached()
        if self.cold:
            self.broker.spawn(self._read_cold())
        else:
            self.finish()

    async def _read_cold(self) -> None:
        """The reads that must ask the disk, each in its topic's lane; no other reader waits for them."""
        self.broker.metrics.cold_reads += len(self.cold)
        places = self.cold
        results = await asyncio.gather(*(self._read_one_cold(place) for place in places))
        for place, answer in zip(places, results, strict=True):
            self.answers[place] = answer
            self._took(len(answer.records))
        if isinstance(self.session, CopySession):
            self._keep_what_is_new(self.session)
        self.finish()

    async def _read_one_cold(self, place: int) -> FetchAnswer:
        watched = self.watched[place]
        partition = watched.partition
        assert partition is not None
        target = watched.target
        answer = self.answers[place]
        log_ = partition.log
        committed_only = self.call.isolation_level == READ_COMMITTED and not self.from_replica
        end = answer.last_stable_offset if committed_only else answer.high_watermark
        if self.from_replica:
            end = log_.end_offset
        limit = max(0, min(target.max_bytes, self.budget // len(self.cold)))
        try:
            records = await self.broker.threads.run(
                f"read:{partition.topic}",
                lambda: log_.read(target.fetch_offset, limit, end, min_one=True, cached_only=False),
            )
            aborted = _aborted(log_, target.fetch_offset, end) if committed_only else None
        except LogError as error:
            return self._unreadable(partition, target.fetch_offset, error)
        return answer._replace(records=records or EMPTY, aborted=aborted)

    def finish(self) -> None:
        assert self.reply is not None
        self.reply(self.encode())

    # -- answering -------------------------------------------------------------------------------------------------

    def encode(self) -> Body:
        topics: list[tuple[str | bytes, list[FetchAnswer]]] = []
        leaders: list[Leader] = []
        for watched, answer in zip(self.watched, self.answers, strict=True):
            if answer.error_code in MOVED and self.request.version >= LEADERS_FROM:
                leader = present_leader(self.broker, watched.topic, answer.partition)
                if leader is not None:
                    leaders.append(leader)
                    answer = answer._replace(tags=current_leader_tag(*leader))
            has_records = len(answer.records) > 0
            if self.session is not None:
                news = watched.news(answer.error_code, answer.high_watermark, answer.log_start_offset, has_records)
                # Whoever is sent to another replica, and comes back from there, has to hear it again.
                sent_on = answer.preferred_read_replica >= 0
                if self.incremental and not news and not sent_on and answer.tags is NO_TAGS:
                    continue
                if has_records:
                    self.session.served(watched)
            if has_records and self.from_replica and watched.partition is not None:
                self.broker.replicas.throttles.sent(watched.partition, self.call.replica_id, len(answer.records))
            if topics and topics[-1][0] == watched.topic:
                topics[-1][1].append(answer)
            else:
                topics.append((watched.topic, [answer]))
        self.broker.metrics.bytes_out += self.taken
        session_id = self.session.id if self.session is not None else 0
        tags = NO_TAGS
        if leaders and self.request.version >= ADDRESSES_FROM:
            tags = node_endpoints_tag(addresses(self.broker, self.request.session.listener.name, leaders))
        return encode_fetch(self.request.version, 0, session_id, topics, tags=tags)


def _aborted(log_: Log, offset: int, end: int) -> list[tuple[int, int]]:
    """What a read_committed reader must skip, in the form that it travels in."""
    return [(one.producer_id, one.first_offset) for one in log_.aborted_transactions(offset, end)]
