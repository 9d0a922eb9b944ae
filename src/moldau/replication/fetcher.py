"""Copies partitions from one leader: one task, one connection, Kafka's Fetch with an incremental session.

A request names only what has changed since the last; the leader answers when there is something, at the latest after
`replica.fetch.wait.max.ms`. A partition whose answer was an error, or whose log must be flushed first, is taken out of
the session for that time: it holds up nobody.

When partitions come while an answer is awaited, a second request is sent at once: the leader ends the wait of the first
when it sees the second. So a failover does not wait for a poll that is out. At most MAX_IN_FLIGHT are under way; each
answer is held against the number of the request that carried a partition's present target, so that one to an earlier
request is not taken for it.

One task a leader does what Kafka's `num.replica.fetchers` does with several: the loop is one anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from moldau.host.clock import Clock
from moldau.net.exchange import Exchange, ExchangeLost
from moldau.replication.copy import Copy, Next
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

log = logging.getLogger(__name__)

VERSION: Final = 17
MAX_IN_FLIGHT: Final = 2
ANSWER_GRACE_S: Final = 30.0
"""How much longer than it may wait an answer may take (Kafka's replica.socket.timeout.ms)."""

NO_SESSION: Final = 0
NEW_SESSION: Final = 0
MAX_SESSION_EPOCH: Final = 2**31 - 1
FIRST_RECONNECT_S: Final = 0.02
"""Doubled with each attempt that fails, up to `replica.fetch.backoff.ms`."""

THROTTLED_S: Final = 0.1
"""After how long a throttled partition is looked at again."""

Key = tuple[bytes, int]


class FetchLimits(NamedTuple):
    """`replica.fetch.*` of the settings."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    back_off_ms: int = 1000


class Surroundings(NamedTuple):
    """What a fetcher needs of the broker that it runs in."""

    node_id: int
    broker_epoch: Callable[[], int]
    clock: Clock
    limits: Callable[[], FetchLimits]
    connect: Callable[[int], Awaitable[Exchange]]
    """Opens a connection to a broker; ExchangeLost where that is not possible."""
    appended: Callable[[Partition], None]
    """Records were appended and may have to be flushed."""
    throttled: Callable[[Partition], bool]
    """Whether a partition must wait, since what may be copied in this second has been."""
    copied: Callable[[Partition, int], None]
    """So many bytes of a partition were copied."""


class ReplicaFetcher:
    """All partitions that are copied from one leader."""

    def __init__(self, leader_id: int, around: Surroundings) -> None:
        self.leader_id = leader_id
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._copies: dict[Key, Copy] = {}
        self._changed: dict[Copy, None] = {}
        """Those whose target the leader does not know yet."""
        self._left_out: dict[Copy, None] = {}
        """Those that are not to be asked for now: after an error, or before a flush."""
        self._in_session: dict[Key, None] = {}
        """What the leader believes that we want."""
        self._forgotten: dict[Key, None] = {}
        """What of that we do not."""
        self._session_id = NO_SESSION
        self._session_epoch = NEW_SESSION
        self._no_room = False
        """The leader keeps no session for us: each request names everything."""
        self._number = 0
        self._happened = asyncio.Event()
        """An answer is there, or something new to ask."""
        self._exchange: Exchange | None = None
        self._reconnect_s = 0.0
        self._retry = asyncio.Event()

    def __len__(self) -> int:
        return len(self._copies)

    def __repr__(self) -> str:
        return f"ReplicaFetcher(from {self.leader_id}, {len(self._copies)} partitions)"

    # -- what is copied --------------------------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Copy a partition, from where its log ends; one that is copied already is asked for in its new epoch."""
        self.remove(partition)
        copy = Copy(partition, self)
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

    def flushed(self, copy: Copy) -> None:
        if copy in self._left_out and copy.timer is None and copy.is_flushed:
            self._ask(copy)

    def reconnect(self) -> None:
        """The leader has begun a new life: what the old connection still brings is of no use."""
        self._reconnect_s = 0.0
        self._retry.set()
        if self._exchange is not None:
            self._exchange.close()

    def stop(self) -> None:
        for copy in self._copies.values():
            copy.stop()
        if self._exchange is not None:
            self._exchange.close()

    def _ask(self, copy: Copy) -> None:
        self._left_out.pop(copy, None)
        self._forgotten.pop(copy.key, None)
        self._changed[copy] = None
        self._happened.set()

    def _leave_out(self, copy: Copy) -> None:
        self._changed.pop(copy, None)
        self._left_out[copy] = None
        if copy.key in self._in_session:
            self._forgotten[copy.key] = None

    def _back_off(self, copy: Copy, delay_s: float) -> None:
        if copy.timer is None:
            self._leave_out(copy)
            copy.timer = self._loop.call_later(delay_s, self._again, copy)

    def _again(self, copy: Copy) -> None:
        copy.timer = None
        if copy.is_flushed:
            self._ask(copy)

    # -- the task --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copies until it is cancelled."""
        while True:
            try:
                self._exchange = await self._around.connect(self.leader_id)
                await self._converse(self._exchange)
            except ExchangeLost as error:
                longest_s = self._around.limits().back_off_ms / 1000
                self._reconnect_s = min(max(2 * self._reconnect_s, FIRST_RECONNECT_S), longest_s)
                log.info("leader cannot be reached", extra={"leader": self.leader_id, "reason": str(error)})
            finally:
                if self._exchange is not None:
                    self._exchange.close()
                    self._exchange = None
            await self._rest()

    async def _rest(self) -> None:
        """Until the next attempt is due, or there is reason to hope."""
        self._retry.clear()
        try:
            async with asyncio.timeout(self._reconnect_s):
                await self._retry.wait()
        except TimeoutError:
            pass

    async def _converse(self, exchange: Exchange) -> None:
        """Ask and take answers on one connection until it is lost."""
        self._end_session()
        in_flight: deque[tuple[int, asyncio.Future[FetchResponse]]] = deque()
        try:
            while True:
                self._happened.clear()
                if in_flight and in_flight[0][1].done():
                    number, answer = in_flight.popleft()
                    if not self._take(number, answer.result()):
                        # What else is under way belongs to the same session.
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
        """The next request names everything."""
        self._session_id = NO_SESSION
        self._session_epoch = NEW_SESSION
        self._in_session.clear()
        self._forgotten.clear()
        for copy in self._copies.values():
            if copy not in self._left_out:
                self._changed[copy] = None

    def _send(self, exchange: Exchange) -> asyncio.Future[FetchResponse]:
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
            # A new session is wanted soon: only with one can partitions be added while an answer is awaited.
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

    # -- answers ---------------------------------------------------------------------------------------------------

    def _take(self, number: int, response: FetchResponse) -> bool:
        """False where the session must begin anew."""
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

    def _go_on(self, copy: Copy, outcome: Next) -> None:
        if self._copies.get(copy.key) is not copy:
            return  # what was done with the answer has taken it away
        if outcome is Next.GO_ON:
            self._changed[copy] = None
        elif outcome is Next.FLUSH:
            self._leave_out(copy)
            self.flushed(copy)  # it may be done already
        elif outcome is Next.BACK_OFF:
            self._back_off(copy, copy.next_back_off(self._around.limits().back_off_ms / 1000))
