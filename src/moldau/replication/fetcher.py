"""Replica fetcher: copies partitions from one leader, with one task, one connection and a fetch session.

A request names only partitions that changed since the last request. The leader answers when it has records, or after
`replica.fetch.wait.max.ms`. A partition whose response was an error, or whose log must be flushed first, is removed
from the session for that time, so it does not delay other partitions.

If partitions are added while a response is outstanding, a second request is sent at once. The leader then ends the wait
of the first request. So a failover does not wait for an outstanding long poll. At most MAX_IN_FLIGHT requests are
outstanding. Each partition remembers the number of the request that carried its current fetch target, so that a
response to an earlier request is not mistaken for the current one.

Kafka uses several fetcher threads per leader (`num.replica.fetchers`). One task is enough here: all run on one loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from moldau.host.clock import Clock
from moldau.host.event_log import event_logger
from moldau.net.peer_connection import PeerConnection, PeerConnectionLost
from moldau.replication.follower_partition import FollowerPartition, Next
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
    FetchResponse,
)

log = event_logger(__name__)

VERSION: Final = 17
MAX_IN_FLIGHT: Final = 2
ANSWER_GRACE_S: Final = 30.0
"""How much longer than its maximum wait a response may take (Kafka's replica.socket.timeout.ms)."""

NO_SESSION: Final = 0
NEW_SESSION: Final = 0
MAX_SESSION_EPOCH: Final = 2**31 - 1
FIRST_RECONNECT_S: Final = 0.02
"""First delay before reconnecting; doubled with each failed attempt, up to `replica.fetch.backoff.ms`."""

THROTTLED_S: Final = 0.1
"""Delay before a throttled partition is checked again."""

Key = tuple[bytes, int]


class FetchLimits(NamedTuple):
    """The `replica.fetch.*` settings."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    back_off_ms: int = 1000


class Surroundings(NamedTuple):
    """The parts of the broker that a fetcher uses."""

    node_id: int
    broker_epoch: Callable[[], int]
    clock: Clock
    limits: Callable[[], FetchLimits]
    connect: Callable[[int], Awaitable[PeerConnection]]
    """Opens a connection to a broker; raises ExchangeLost if that fails."""
    appended: Callable[[Partition], None]
    """Called after an append; the records may have to be flushed."""
    throttled: Callable[[Partition], bool]
    """Whether a partition must wait, because the replication rate is used up."""
    copied: Callable[[Partition, int], None]
    """Called with the number of bytes copied."""


class ReplicaFetcher:
    """All partitions that are copied from one leader."""

    def __init__(self, leader_id: int, around: Surroundings) -> None:
        self.leader_id = leader_id
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._copies: dict[Key, FollowerPartition] = {}
        self._changed: dict[FollowerPartition, None] = {}
        """Copies whose fetch target the leader does not know yet."""
        self._left_out: dict[FollowerPartition, None] = {}
        """Copies that are not fetched now: after an error, or before a flush."""
        self._in_session: dict[Key, None] = {}
        """The partitions in the leader's fetch session."""
        self._forgotten: dict[Key, None] = {}
        """Partitions in the session that must be removed from it by the next request."""
        self._session_id = NO_SESSION
        self._session_epoch = NEW_SESSION
        self._no_room = False
        """The leader did not create a session: each request names all partitions."""
        self._number = 0
        self._happened = asyncio.Event()
        """Set when a response has arrived or a fetch target has changed."""
        self._exchange: PeerConnection | None = None
        self._reconnect_s = 0.0
        self._retry = asyncio.Event()

    def __len__(self) -> int:
        return len(self._copies)

    def __repr__(self) -> str:
        return f"ReplicaFetcher(from {self.leader_id}, {len(self._copies)} partitions)"

    # -- adding and removing partitions ----------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Copy a partition, from the end of its log. A partition that is already copied is fetched in its new epoch."""
        self.remove(partition)
        copy = FollowerPartition(partition, self)
        partition.copying = copy
        self._copies[copy.key] = copy
        if copy.cut_to_high_watermark(self._around.clock.now_ms()):
            self._ask(copy)
        else:
            self._back_off(copy, copy.next_back_off(self._around.limits().back_off_ms / 1000))

    def remove(self, partition: Partition) -> None:
        copy = self._copies.pop((partition.topic_id, partition.index), None)
        if copy is None:
            return
        self._leave_out(copy)
        del self._left_out[copy]
        copy.stop()
        if partition.copying is copy:
            partition.copying = None

    def flushed(self, copy: FollowerPartition) -> None:
        if copy in self._left_out and copy.timer is None and copy.is_flushed:
            self._ask(copy)

    def reconnect(self) -> None:
        """Drop the connection: the leader has restarted, so outstanding responses are useless."""
        self._reconnect_s = 0.0
        self._retry.set()
        if self._exchange is not None:
            self._exchange.close()

    def stop(self) -> None:
        for copy in self._copies.values():
            copy.stop()
        if self._exchange is not None:
            self._exchange.close()

    def _ask(self, copy: FollowerPartition) -> None:
        self._left_out.pop(copy, None)
        self._forgotten.pop(copy.key, None)
        self._changed[copy] = None
        self._happened.set()

    def _leave_out(self, copy: FollowerPartition) -> None:
        self._changed.pop(copy, None)
        self._left_out[copy] = None
        if copy.key in self._in_session:
            self._forgotten[copy.key] = None

    def _back_off(self, copy: FollowerPartition, delay_s: float) -> None:
        if copy.timer is None:
            self._leave_out(copy)
            copy.timer = self._loop.call_later(delay_s, self._again, copy)

    def _again(self, copy: FollowerPartition) -> None:
        copy.timer = None
        if copy.is_flushed:
            self._ask(copy)

    # -- task ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copy until cancelled."""
        while True:
            try:
                self._exchange = await self._around.connect(self.leader_id)
                await self._converse(self._exchange)
            except PeerConnectionLost as error:
                longest_s = self._around.limits().back_off_ms / 1000
                self._reconnect_s = min(max(2 * self._reconnect_s, FIRST_RECONNECT_S), longest_s)
                log.info("leader cannot be reached", extra={"leader": self.leader_id, "reason": str(error)})
            finally:
                if self._exchange is not None:
                    self._exchange.close()
                    self._exchange = None
            await self._rest()

    async def _rest(self) -> None:
        """Wait until the next attempt is due, or until `reconnect` is called."""
        self._retry.clear()
        try:
            async with asyncio.timeout(self._reconnect_s):
                await self._retry.wait()
        except TimeoutError:
            pass

    async def _converse(self, exchange: PeerConnection) -> None:
        """Send requests and apply responses on one connection until it is lost."""
        self._end_session()
        in_flight: deque[tuple[int, asyncio.Future[FetchResponse]]] = deque()
        try:
            while True:
                self._happened.clear()
                if in_flight and in_flight[0][1].done():
                    number, answer = in_flight.popleft()
                    if not self._take(number, answer.result()):
                        # The other outstanding requests belong to the same session, which has ended.
                        while in_flight:
                            await in_flight.popleft()[1]
                        self._end_session()
                elif self._may_send(len(in_flight)):
                    in_flight.append((self._number + 1, self._send(exchange)))
                else:
                    await self._happened.wait()
        finally:
            for _, unanswered in in_flight:
                unanswered.cancel()

    def _may_send(self, in_flight: int) -> bool:
        if in_flight == 0:
            return bool(self._changed or self._in_session)
        return bool(self._changed) and in_flight < MAX_IN_FLIGHT and self._session_id != NO_SESSION

    # -- sending ---------------------------------------------------------------------------------------------------

    def _end_session(self) -> None:
        """Forget the session: the next request names all partitions."""
        self._session_id = NO_SESSION
        self._session_epoch = NEW_SESSION
        self._in_session.clear()
        self._forgotten.clear()
        for copy in self._copies.values():
            if copy not in self._left_out:
                self._changed[copy] = None

    def _send(self, exchange: PeerConnection) -> asyncio.Future[FetchResponse]:
        limits = self._around.limits()
        self._number += 1
        for copy in [one for one in self._changed if self._around.throttled(one.partition)]:
            self._back_off(copy, THROTTLED_S)
        topics: dict[bytes, list[FetchRequestPartition]] = {}
        for copy in self._changed:
            copy.sent_in = self._number
            self._in_session[copy.key] = None
            topics.setdefault(copy.partition.topic_id, []).append(copy.target(limits.max_bytes))
        self._changed.clear()
        forgotten: dict[bytes, list[int]] = {}
        for key in self._forgotten:
            del self._in_session[key]
            forgotten.setdefault(key[0], []).append(key[1])
        self._forgotten.clear()
        new = self._session_id == NO_SESSION
        request = FetchRequest(
            replica_state=FetchRequestReplicaState(
                replica_id=self._around.node_id, replica_epoch=self._around.broker_epoch()
            ),
            # The first request must return at once: partitions can be added to an outstanding fetch only with a
            # session.
            max_wait_ms=0 if new and not self._no_room else limits.wait_max_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchRequestTopic(topic_id=one, partitions=targets) for one, targets in topics.items()],
            forgotten_topics_data=[
                FetchRequestForgottenTopic(topic_id=one, partitions=indexes) for one, indexes in forgotten.items()
            ],
        )
        if not new:
            self._session_epoch = 1 if self._session_epoch == MAX_SESSION_EPOCH else self._session_epoch + 1
        answer = exchange.asking(request, VERSION, timeout_s=limits.wait_max_ms / 1000 + ANSWER_GRACE_S)
        answer.add_done_callback(lambda _: self._happened.set())
        return answer

    # -- handling responses ----------------------------------------------------------------------------------------

    def _take(self, number: int, response: FetchResponse) -> bool:
        """Apply a response. False if a new session is needed."""
        self._reconnect_s = 0.0
        if response.error_code:
            log.info(
                "fetch session ends", extra={"leader": self.leader_id, "error": ErrorCode(response.error_code).name}
            )
            return False
        if self._session_id == NO_SESSION:
            self._session_id = response.session_id
            self._session_epoch = 1
        now_ms = self._around.clock.now_ms()
        for topic in response.responses:
            for answer in topic.partitions:
                copy = self._copies.get((topic.topic_id, answer.partition_index))
                if copy is None:
                    continue
                if copy in self._changed or copy in self._left_out or copy.sent_in > number:
                    copy.take_high_watermark(answer)
                    continue
                before = copy.partition.log.appended_bytes
                outcome = copy.take(answer, now_ms)
                grown = copy.partition.log.appended_bytes - before
                if grown > 0:
                    self._around.copied(copy.partition, grown)
                    self._around.appended(copy.partition)
                self._go_on(copy, outcome)
        self._no_room = self._session_id == NO_SESSION
        return not self._no_room

    def _go_on(self, copy: FollowerPartition, outcome: Next) -> None:
        if self._copies.get(copy.key) is not copy:
            return  # applying the response has removed it
        if outcome is Next.GO_ON:
            self._changed[copy] = None
        elif outcome is Next.FLUSH:
            self._leave_out(copy)
            self.flushed(copy)  # the flush may already be done
        elif outcome is Next.BACK_OFF:
            self._back_off(copy, copy.next_back_off(self._around.limits().back_off_ms / 1000))
