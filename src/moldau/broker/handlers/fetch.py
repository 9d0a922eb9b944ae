"""Fetch (1): read whole record batches, waiting for them if necessary.

Versions 4-18. Full and incremental requests (fetch sessions). Topics are named, from version 13 on by id.

* A batch that contains the offset is returned whole. A first batch that is larger than all limits is returned, too, so
  that every reader makes progress.
* The response waits for `min_bytes` or `max_wait_ms`. An error of a partition ends the wait, except for an unknown
  partition, which may be about to be created.
* Records in the page cache are read inside the read callback. Other records are read by a thread, in the lane of the
  topic, and only this reader waits for them.
* A response has at most `RESPONSE_BYTES`, whatever the client allows. A larger one would block the loop for other
  clients.
* A client that has exceeded its byte rate gets an empty response, which says for how long it is throttled. The broker
  reads no further request from it meanwhile. Unlike Kafka, a response that exceeds the rate is sent: the client is
  throttled after it. So a batch that is larger than the rate allows can be read.

Followers (`replica_id` >= 0; from version 15 on in `replica_state`):

* They read up to the log end offset. The fetch offset tells the leader that they have all records below it.
* A waiting fetch is completed by appended records, and soon after the high watermark has moved.
* It is also completed when the next fetch arrives on its connection, so the follower can change its partitions at once.

Consumers:

* From version 11 on they may read from a follower, up to the high watermark that the follower knows.
* The leader sends them to a follower if `replica.selector.class` says so (KIP-392).
* A broker that is not the leader returns the leader and its address (KIP-951).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.broker.connection.session import Request
from moldau.broker.quotas.client_quotas import ClientLimits
from moldau.broker.quotas.request_time import throttle_time
from moldau.broker.requests.delayed_requests import (
    HIGH_WATERMARK_NEWS_S,
    NEAR_READERS_NEWS_S,
    DelayedCopy,
    DelayedFetch,
)
from moldau.broker.requests.fetch_sessions import (
    FULL_FETCH_FINAL,
    NO_SESSION,
    CopySession,
    FetchSession,
    FetchSessionError,
    WatchedPartition,
)
from moldau.broker.requests.handler_registry import Answer, Body, DeferredAnswer, Reply, handles
from moldau.broker.requests.leader_hints import MOVED, CurrentLeader, addresses, present_leader
from moldau.host.event_log import event_logger
from moldau.log.aborted import AbortedTxn
from moldau.log.errors import LogError, OffsetNotInLog
from moldau.log.log import Log
from moldau.replication.partition import Partition
from moldau.replication.replica_selector import nearest_replica
from moldau.security import Operation, ResourceType
from moldau.security.quota_entities import CONSUMER_BYTE_RATE
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

log = event_logger(__name__)

RESPONSE_BYTES = 8 * 1024 * 1024
READ_COMMITTED = 1
FOLLOWERS_SERVE_FROM = 11
LEADERS_FROM = 12
ADDRESSES_FROM = 16
EMPTY = b""
WAITING_ERRORS = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Errors that do not end the wait: the partition may be about to be created."""

READ, TOPIC = Operation.READ, ResourceType.TOPIC
"""Once, not per partition: the lookup of an enum's member takes a tenth of a microsecond."""


@handles(ApiKey.FETCH, raw=True)
def fetch(request: Request, body: memoryview) -> Answer:
    call = decode_fetch(body, request.version)
    broker = request.broker
    limits = None
    if broker.quotas.active:
        call, limits = _limited(request, call)
    if call.replica_id >= 0:
        if not request.authorized(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, audited=False):
            # Every partition will be refused. Without a session: a new one would end that of the real follower.
            call = call._replace(session_id=NO_SESSION, session_epoch=FULL_FETCH_FINAL)
        for waiting in request.session.waiting():
            if isinstance(waiting, FetchOperation):
                waiting.end_wait()
    try:
        session, watched, incremental = broker.fetch_sessions.open(
            call, request.version >= TOPIC_IDS_FROM, broker.loop.time()
        )
    except FetchSessionError as refused:
        return encode_fetch(request.version, refused.error, 0, [])
    operation = FetchOperation(request, call, session, watched, incremental, limits)
    if limits is not None and operation.is_throttled():
        return operation.throttled()
    unsent = request.session.unsent
    if unsent.in_use and not unsent.has_room(first=request.session.idle):
        return operation
    operation.read_cached()
    if operation.cold or not operation.enough():
        return operation
    return operation.encode()


def _limited(request: Request, call: FetchCall) -> tuple[FetchCall, ClientLimits | None]:
    """The limits of a consumer. Its response has few enough bytes to keep the rate even; one batch is always sent."""
    if call.replica_id >= 0:
        request.session.quota.do_not_count_time()
        return call, None
    limits = request.session.quota.limits(request.client_id)
    if limits.fetch is not None:
        call = call._replace(max_bytes=max(1, min(call.max_bytes, int(limits.fetch.portion))))
    return call, limits


class FetchOperation(DeferredAnswer):
    """One fetch request in progress: the records that were read so far, and those that are missing."""

    __slots__ = (
        "answers",
        "broker",
        "budget",
        "call",
        "cold",
        "delayed",
        "from_replica",
        "has_news",
        "held",
        "incremental",
        "limits",
        "reply",
        "request",
        "session",
        "taken",
        "unread",
        "urgent",
        "waited",
        "watched",
    )

    def __init__(
        self,
        request: Request,
        call: FetchCall,
        session: FetchSession | None,
        watched: list[WatchedPartition],
        incremental: bool,
        limits: ClientLimits | None = None,
    ) -> None:
        self.request = request
        self.limits = limits
        self.broker: Broker = request.broker
        self.call = call
        self.session = session
        self.watched = watched
        self.incremental = incremental
        self.answers: list[FetchAnswer] = []
        self.cold: list[int] = []  # indexes in `watched` that are not in the page cache
        self.taken = 0
        self.held = 0
        """Bytes that count as unsent: already read, or being read from disk."""
        self.urgent = False
        self.unread = True
        """Nothing was read yet: the connection had no room for a response."""
        self.waited = False
        """The wait has ended because something has changed. The next read is final."""
        self.from_replica = call.replica_id >= 0
        self.has_news = False
        """The follower does not know the current high watermark or log start offset of all its partitions."""
        self.delayed: DelayedFetch | None = None
        self.reply: Reply | None = None

    # -- reading ---------------------------------------------------------------------------------------------------

    def read_cached(self) -> None:
        """Read all records that are in the page cache."""
        self.answers = []
        self.cold = []
        self.taken = 0
        self.urgent = False
        self.has_news = False
        if isinstance(self.session, CopySession):
            # The partitions that were found earlier but not sent yet, and those with changes since.
            self.watched = list({**dict.fromkeys(self.watched), **self.session.touched})
            self.session.touched = {}
        self.budget = max(0, min(self.call.max_bytes, self.broker.fetch_max_bytes, RESPONSE_BYTES))
        if self.broker.reply_memory.is_full and not self.from_replica:
            self.budget = 0  # one batch: other clients do not read their responses, but this one must make progress
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
        self.unread = False
        if isinstance(self.session, CopySession) and not self.cold:
            self._keep_news(self.session)

    def _keep_news(self, session: CopySession) -> None:
        """Remove the unchanged partitions from a follower's response. A partition whose records may not be sent now
        (no room, a throttle) stays touched, so the next request reads it again."""
        watched, answers = self.watched, self.answers
        if self.incremental:
            self.watched, self.answers = [], []
        for one, answer in zip(watched, answers, strict=True):
            complete = answer.error_code or len(answer.records) or answer.tags is not NO_TAGS
            if not complete and one.partition is not None and one.target.fetch_offset < one.partition.log.end_offset:
                session.touched[one] = None
            if self.incremental and (
                answer.tags is not NO_TAGS
                or one.differs_from_sent(
                    answer.error_code, answer.high_watermark, answer.log_start_offset, len(answer.records) > 0
                )
            ):
                self.watched.append(one)
                self.answers.append(answer)

    def _find(self, watched: WatchedPartition) -> Partition | None:
        return self.broker.replicas.find(watched.topic, watched.target.partition)

    def _refusal(self, watched: WatchedPartition, partition: Partition | None) -> ErrorCode:
        if not self._authorized(watched, partition):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if partition is None:
            return self.broker.replicas.why_missing(watched.topic, watched.target.partition)
        if self.from_replica:
            error = self.broker.replicas.replica_error(partition, self.call.replica_id, self.call.replica_epoch)
        else:
            error = partition.leader_error() if self.request.version < FOLLOWERS_SERVE_FROM else partition.failure
        return error or partition.epoch_error(watched.target.current_leader_epoch)

    def _authorized(self, watched: WatchedPartition, partition: Partition | None) -> bool:
        if self.from_replica:
            return self.request.authorized(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        name = watched.topic if partition is None else partition.topic
        if isinstance(name, bytes):
            known = self.broker.image.topic_names_by_id.get(name)
            if known is None:
                return True  # the answer for an unknown id is the same for everyone
            name = known
        return self.request.authorized(READ, TOPIC, name)

    def _read(self, place: int, watched: WatchedPartition, partition: Partition) -> FetchAnswer:
        target = watched.target
        log_ = partition.log
        offset = target.fetch_offset
        try:
            diverging_epoch = partition.diverging_epoch(offset, target.last_fetched_epoch)
        except OffsetNotInLog:
            return self._out_of_range(partition, target)
        if diverging_epoch is not None:
            self.urgent = True
            return self._answer(partition, EMPTY, self._no_aborts())._replace(
                tags=diverging_epoch_tag(*diverging_epoch)
            )
        if self.from_replica:
            if self.unread:  # only once per request, not when it is read again
                self.broker.replicas.fetched(
                    partition, self.call.replica_id, offset, target.log_start_offset, self.call.replica_epoch
                )
            self.has_news |= self.session is not None and (
                partition.high_watermark != watched.sent_high_watermark
                or log_.start_offset != watched.sent_start_offset
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
                    known = log_.aborted_in_memory(offset, end)
                    if known is None:
                        found = None  # a thread reads the index of aborted transactions, and then the records again
                    else:
                        aborted = _aborted(known)
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
        """The end of the records that this reader may see."""
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
            # The follower truncates its log and starts at our log start offset.
            answer = self._failed(target.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
            return answer._replace(log_start_offset=partition.log.start_offset)
        if not partition.leads and target.fetch_offset > partition.log.end_offset:
            return self._failed(target.partition, ErrorCode.OFFSET_NOT_AVAILABLE)  # the leader may have it
        return self._failed(target.partition, ErrorCode.OFFSET_OUT_OF_RANGE)

    def _nearer(self, partition: Partition, offset: int) -> int | None:
        """The replica that this consumer should read from instead, or None."""
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
        if self.unread:
            self.resume()
        elif self.cold:
            self._start_cold_reads()
        else:
            self._wait()

    def resume(self) -> None:
        """Read if the connection has room for the response, otherwise wait for room."""
        session = self.request.session
        if not session.unsent.has_room(first=session.is_first(self)):
            self.answers = []
            session.unsent.wait(self)
            return
        self.read_cached()
        if self.cold:
            self._start_cold_reads()
        elif self.enough() or self.waited:
            self.finish()
        else:
            self._wait()

    def _hold(self, size: int) -> None:
        """Count `size` bytes of the response as unsent: they are in memory, or will be when they are read from disk."""
        if size != self.held:
            self.request.session.unsent.add(size - self.held)
            self.held = size

    def _wait(self) -> None:
        self._hold(self.taken)
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

    def end_wait(self) -> None:
        """End the wait: the connection has a newer request."""
        if self.delayed is not None:
            self.delayed.wake()

    def abandon(self) -> None:
        if self.delayed is not None:
            self.delayed.abandon()

    def look_again(self, changed: bool) -> None:
        """Continue after the wait: enough bytes were appended, the time is up, or a partition has changed."""
        if self.limits is not None and self.limits.request is not None:
            self.request.session.quota.run_timed(self._continue, changed)
        else:
            self._continue(changed)

    def _continue(self, changed: bool) -> None:
        self.delayed = None
        if not changed:
            self.finish()  # with the result of the first read
            return
        self._hold(0)
        self.waited = True
        self.resume()

    def _start_cold_reads(self) -> None:
        """Start to read from disk. The expected bytes count as unsent now, because later requests of the connection
        check for room before the task runs."""
        share = max(0, self.budget // len(self.cold))
        self._hold(self.taken + sum(max(0, min(self.watched[place].target.max_bytes, share)) for place in self.cold))
        self.broker.spawn(self._read_all_cold())

    async def _read_all_cold(self) -> None:
        """Read from disk, each partition in the lane of its topic. No other reader waits for these reads."""
        self.broker.metrics.cold_reads += len(self.cold)
        places = self.cold
        results = await asyncio.gather(*(self._read_one_cold(place) for place in places))
        for place, answer in zip(places, results, strict=True):
            self.answers[place] = answer
            self._took(len(answer.records))
        if isinstance(self.session, CopySession):
            self._keep_news(self.session)
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
            aborted = await self._read_aborted(log_, target.fetch_offset, end) if committed_only else None
        except LogError as error:
            return self._unreadable(partition, target.fetch_offset, error)
        return answer._replace(records=records or EMPTY, aborted=aborted)

    async def _read_aborted(self, log_: Log, offset: int, end: int) -> list[tuple[int, int]]:
        """The aborted transactions, read from disk by a thread where they are not in memory yet."""
        while (known := log_.aborted_in_memory(offset, end)) is None:
            for segment, entries in await self.broker.threads.run(f"read:{log_.topic}", log_.read_aborted, offset, end):
                segment.keep_aborted(entries)
        return _aborted(known)

    def finish(self) -> None:
        assert self.reply is not None
        self._hold(0)
        self.reply(self.encode())

    # -- quotas ----------------------------------------------------------------------------------------------------

    def is_throttled(self) -> bool:
        """Whether the client has used up its byte rate, perhaps by another connection.

        Not its time: this request has taken some already, and a client with a small share would never get records.
        """
        assert self.limits is not None
        limit = self.limits.fetch
        return limit is not None and self.request.session.quota.throttle(
            CONSUMER_BYTE_RATE, limit.pause(self.broker.loop.time())
        )

    def throttled(self) -> Body:
        """An empty response. As in Kafka, a new session does not begin with it: the client sends a full request again,
        because it learns nothing about its partitions from this response."""
        session_id = 0
        if self.session is not None:
            if self.incremental:
                session_id = self.session.id
            else:
                self.broker.fetch_sessions.drop(self.session.id)
        throttle_time(self.request)
        return encode_fetch(self.request.version, 0, session_id, [], self.request.session.quota.throttle_ms)

    def _count_bytes(self) -> int:
        """Count the records that are sent, and the time so far. Returns the throttle that follows, in milliseconds."""
        assert self.limits is not None
        quota = self.request.session.quota
        throttle_time(self.request)
        if self.limits.fetch is not None:
            quota.throttle(CONSUMER_BYTE_RATE, self.limits.fetch.charge(self.taken, self.broker.loop.time()))
        return quota.throttle_ms

    # -- response --------------------------------------------------------------------------------------------------

    def encode(self) -> Body:
        throttle_ms = 0
        if self.limits is not None:
            if self.is_throttled():
                return self.throttled()
            throttle_ms = self._count_bytes()
        topics: list[tuple[str | bytes, list[FetchAnswer]]] = []
        leaders: list[CurrentLeader] = []
        for watched, answer in zip(self.watched, self.answers, strict=True):
            if answer.error_code in MOVED and self.request.version >= LEADERS_FROM:
                leader = present_leader(self.broker.image, self.broker.node_id, watched.topic, answer.partition)
                if leader is not None:
                    leaders.append(leader)
                    answer = answer._replace(tags=current_leader_tag(*leader))
            has_records = len(answer.records) > 0
            if self.session is not None:
                differs = watched.take_difference(
                    answer.error_code, answer.high_watermark, answer.log_start_offset, has_records
                )
                # A consumer that returns from the preferred replica must be sent there again.
                redirected = answer.preferred_read_replica >= 0
                if self.incremental and not differs and not redirected and answer.tags is NO_TAGS:
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
            tags = node_endpoints_tag(addresses(self.broker.image, self.request.session.listener.name, leaders))
        return encode_fetch(self.request.version, 0, session_id, topics, throttle_ms, tags)


def _aborted(known: list[AbortedTxn]) -> list[tuple[int, int]]:
    """The aborted transactions that a read_committed reader must skip, as (producer id, first offset)."""
    return [(one.producer_id, one.first_offset) for one in known]
