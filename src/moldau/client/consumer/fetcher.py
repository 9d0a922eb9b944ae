"""Fetcher of a consumer: keeps the fetch buffer filled, with at most one Fetch request per broker at a time.

Only connecting is asynchronous. `pump` plans and sends requests. The callback of a response copies the records out of
the frame, adds them to the buffer and calls `pump` again. So the next response arrives while the application reads.

Bounds: a broker gets a request only if each of its partitions has at most max.partition.fetch.bytes in the buffer, and
all partitions together at most fetch.max.bytes. Waiting for the fullest partition keeps a long poll for idle partitions
from delaying busy ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from moldau.client.consumer import position_rules
from moldau.client.consumer.buffer import FetchBuffer
from moldau.client.consumer.fetch_plan import InFlight, Limits, plan
from moldau.client.consumer.fetch_session import SESSION_ERRORS, ClientFetchSession, WantedPartition
from moldau.client.consumer.fetch_wire import ISOLATION, TOPIC_IDS_FROM, answers, fetch_request
from moldau.client.consumer.fetched_partition import Failure, FetchedPartition, nothing_whole
from moldau.client.consumer.offset_reset import Reset
from moldau.client.consumer.subscription import AssignedPartition, Subscription
from moldau.client.data_types import Node, TopicPartition
from moldau.client.errors import STALE_METADATA, BrokerUnavailable, ClosedError, MoldauError, error_for
from moldau.client.metadata import NO_EPOCH, NO_TOPIC_ID, ClusterMetadata
from moldau.client.network import Network
from moldau.client.settings import ClientSettings
from moldau.host.event_log import event_logger
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode, WireError
from moldau.wire.messages.fetch import FetchResponse, FetchResponsePartition

log = event_logger(__name__)

K = TypeVar("K")

NEAR_REPLICA_PAUSE_S = 10.0
"""How long the consumer reads from leaders after a preferred read replica did not answer."""

RAISED_BY_POLL = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CORRUPT_MESSAGE})
"""Errors of a partition that a retry does not solve."""


class Fetcher:
    """Requests, sessions and responses. Owned by the event loop."""

    def __init__(
        self,
        network: Network,
        settings: ClientSettings,
        subscription: Subscription,
        buffer: FetchBuffer,
        *,
        policy: Reset,
        changed: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._network = network
        self._subscription = subscription
        self._buffer = buffer
        self._policy = policy
        self._changed = changed
        self._limits = Limits(settings["max.partition.fetch.bytes"], settings["fetch.max.bytes"])
        self._max_wait_ms: int = settings["fetch.max.wait.ms"]
        self._min_bytes: int = settings["fetch.min.bytes"]
        self._check_crcs: bool = settings["check.crcs"]
        self._committed_only = settings["isolation.level"] == "read_committed"
        self._isolation = ISOLATION[settings["isolation.level"]]
        self._rack: str = settings["client.rack"] or ""
        self._timeout_s = (settings["request.timeout.ms"] + self._max_wait_ms) / 1_000
        self._pause_s = settings["retry.backoff.ms"] / 1_000
        self._replica_s = settings["metadata.max.age.ms"] / 1_000
        self._sessions: dict[int, ClientFetchSession] = {}
        self._in_flight: dict[int, InFlight] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._resting: dict[int, float] = {}  # brokers that get no request before this time
        self._waiting: dict[TopicPartition, float] = {}  # the same for partitions; a newer leader epoch than
        self._failed_in: dict[TopicPartition, int] = {}  # this one ends the wait
        self._replicas: dict[TopicPartition, tuple[int, float]] = {}  # preferred read replica, and until when
        self._send_rack_at = 0.0
        self._served: dict[TopicPartition, int] = {}  # number of the last response with records: oldest go first
        self._answers = 0
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0  # uvloop's handle forgets its time once it is over
        self._closed = False
        self.error: MoldauError | None = None
        self.bytes_fetched = 0
        self.requests_sent = 0

    # -- requests --------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Send the requests that are needed now. Cheap if there are none; may be called at any time."""
        self._buffer.drained = False
        if self._closed:
            return
        now = self._loop.time()
        metadata = self._network.metadata
        if self._resting:
            _forget_past(self._resting, now)
        if self._waiting:
            self._end_waits(metadata, now)
        planned = plan(
            metadata,
            self._subscription.assigned,
            self._buffer,
            self._limits,
            busy=self._busy(),
            waiting=self._waiting,
            replicas={partition: node for partition, (node, until) in self._replicas.items() if until > now},
        )
        if planned.leaderless:
            self._network.refresh_soon()
        for node, wanted in planned.requests.items():
            self._ask(node, wanted, now)
        if self._resting or self._waiting:
            self._pump_at(min([*self._resting.values(), *self._waiting.values()]))

    def _busy(self) -> Collection[int]:
        """Return the brokers that get no request now: nearly always those with a request in flight."""
        if not self._connecting and not self._resting:
            return self._in_flight
        return self._in_flight.keys() | self._connecting.keys() | self._resting.keys()

    def _end_waits(self, metadata: ClusterMetadata, now: float) -> None:
        """End waits that are over, and waits of partitions with a new leader: the error was the old leader's."""
        for partition, until in list(self._waiting.items()):
            if until <= now or self._leader_epoch(metadata, partition) > self._failed_in[partition]:
                del self._waiting[partition]

    def _leader_epoch(self, metadata: ClusterMetadata, partition: TopicPartition) -> int:
        known = metadata.partition(*partition)
        return NO_EPOCH if known is None else known.leader_epoch

    def _ask(self, node: int, wanted: dict[TopicPartition, WantedPartition], now: float) -> None:
        connection = self._network.connected(node)
        if connection is None:
            task = self._loop.create_task(self._connect(node), name=f"consumer: connect to {node}")
            self._connecting[node] = task
            return
        nameless = any(want.topic_id == NO_TOPIC_ID for want in wanted.values())
        try:
            version = connection.version(ApiKey.FETCH, TOPIC_IDS_FROM - 1 if nameless else None)
        except MoldauError as error:
            self._give_up(node, error)
            return
        # Partitions that have waited longest first: a broker fills its response in the order of the request.
        wanted = dict(sorted(wanted.items(), key=lambda item: self._served.get(item[0], 0)))
        session = self._sessions.setdefault(node, ClientFetchSession()).begin(wanted)
        request = fetch_request(
            session,
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._limits.total_bytes,
            isolation=self._isolation,
            rack=self._rack if now >= self._send_rack_at else "",
        )
        assigned = self._subscription.assigned
        flight = InFlight(
            version,
            wanted,
            {partition: assigned[partition].version for partition in wanted},
            {want.topic_id: partition.topic for partition, want in wanted.items()},
            session.full,
        )
        self._in_flight[node] = flight
        self.requests_sent += 1
        on_reply = partial(self._answered, node, flight)
        connection.send(ApiKey.FETCH, version, (request.encode(version),), on_reply, now + self._timeout_s)

    async def _connect(self, node: int) -> None:
        try:
            await self._network.connection(node, self._loop.time() + self._timeout_s)
        except ClosedError:
            return
        except MoldauError as error:
            self._give_up(node, error)
        finally:
            self._connecting.pop(node, None)
        self.pump()

    def _give_up(self, node: int, error: MoldauError) -> None:
        """Pause requests to a broker after an error, and refresh the metadata: it may not be the leader any more."""
        if error.retriable:
            log.info("fetch failed, will try again", extra={"node": node, "reason": str(error)})
        elif self.error is None:
            self.error = error
            self._changed()
        if any(replica == node for replica, _ in self._replicas.values()):
            self._stay_with_leaders(node)
        self._network.refresh_soon()
        self._resting[node] = self._loop.time() + self._pause_s
        self._pump_at(self._resting[node])

    def _stay_with_leaders(self, node: int) -> None:
        """Read from leaders for a while, because a preferred read replica did not answer.

        A leader that gets client.rack in the request would return the same replica until it notices that the replica is
        gone. So requests have no rack during this time.
        """
        self._replicas = {key: value for key, value in self._replicas.items() if value[0] != node}
        self._send_rack_at = self._loop.time() + NEAR_REPLICA_PAUSE_S

    def _pump_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.pump()

    # -- responses -------------------------------------------------------------------------------------------------

    def _answered(self, node: int, flight: InFlight, view: memoryview | None, error: MoldauError | None) -> None:
        """Handle a response. Its memory is reused as soon as this returns, so records are copied."""
        self._in_flight.pop(node, None)
        if self._closed:
            return
        session = self._sessions[node]
        if view is None:
            session.failed()
            self._give_up(node, error or BrokerUnavailable(f"broker {node} did not answer"))
            return
        try:
            response = FetchResponse.decode(view, flight.version)
        except WireError as broken:
            session.failed()
            self._give_up(node, MoldauError(f"broker {node} sent an answer to Fetch that cannot be read: {broken}"))
            return
        code = ErrorCode.of(response.error_code)
        session.answered(code, response.session_id)
        if response.throttle_time_ms > 0:
            self._resting[node] = self._loop.time() + response.throttle_time_ms / 1_000
        if code is ErrorCode.NONE:
            self._answers += 1
            found = [one for one in answers(response, flight.version, flight.names) if one[0] in flight.wanted]
            for key, answer in found:
                self._take(node, key, flight, answer)
            self._note_leaders(response, found)
            self._changed()
        else:
            self._refused(node, flight, code)
        self.pump()

    def _note_leaders(
        self, response: FetchResponse, found: list[tuple[TopicPartition, FetchResponsePartition]]
    ) -> None:
        """Apply the new leaders that a broker returns for partitions it no longer leads (KIP-951), without Metadata."""
        leaders = {
            partition: (answer.current_leader.leader_id, answer.current_leader.leader_epoch)
            for partition, answer in found
            if answer.error_code and answer.current_leader is not None and answer.current_leader.leader_id >= 0
        }
        if leaders:
            nodes = [Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
            self._network.new_leaders(leaders, nodes)

    def _refused(self, node: int, flight: InFlight, code: ErrorCode) -> None:
        """Handle the error of a whole request. A lost session is replaced at once; other errors are retried later."""
        lost = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if code in lost and not flight.full:
            return
        error = error_for(code, f"fetching from broker {node}")
        if code in SESSION_ERRORS or error.retriable:
            log.info("fetch failed, will try again", extra={"node": node, "reason": str(error)})
        elif self.error is None:
            self.error = error
            self._changed()
        self._network.refresh_soon()
        self._resting[node] = self._loop.time() + self._pause_s

    def _take(self, node: int, partition: TopicPartition, flight: InFlight, answer: FetchResponsePartition) -> None:
        state = self._subscription.current(partition, flight.versions[partition])
        if state is None:
            return  # after a seek, a reset or a revocation
        wanted = flight.wanted[partition]
        if answer.error_code:
            self._partition_failed(node, state, wanted.offset, ErrorCode.of(answer.error_code))
            return
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica >= 0 and not answer.records:
            self._replicas[partition] = (answer.preferred_read_replica, self._loop.time() + self._replica_s)
        if not answer.records:
            return
        self._served[partition] = self._answers
        self.bytes_fetched += len(answer.records)
        self._store(state, wanted.offset, answer)

    def _store(self, state: AssignedPartition, offset: int, answer: FetchResponsePartition) -> None:
        assert answer.records is not None
        aborted = None
        if self._committed_only:
            aborted = [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()]
        _, epoch = self._buffer.next_offset(state)
        run = FetchedPartition(
            state.partition,
            state.version,
            offset,
            bytes(answer.records),
            epoch=epoch,
            aborted=aborted,
            check_crcs=self._check_crcs,
        )
        if run.done:
            self._fail(state, offset, nothing_whole(state.partition, offset, len(answer.records)))
        elif not self._buffer.add(run):
            log.debug(
                "fetched records do not continue the buffer, fetching again",
                extra={"partition": str(state.partition), "offset": offset},
            )

    def _partition_failed(self, node: int, state: AssignedPartition, offset: int, code: ErrorCode) -> None:
        partition = state.partition
        if self._replicas.pop(partition, None) is not None:
            # A follower returned the error; it may lag, be ahead, or not be a replica any more. Ask the leader at once.
            log.info(
                "reading from the leader again", extra={"partition": str(partition), "node": node, "reason": code.name}
            )
            return
        self._waiting[partition] = self._loop.time() + self._pause_s
        self._failed_in[partition] = self._leader_epoch(self._network.metadata, partition)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # A request ahead of the application's position: fetch again when the application has reached this offset.
            if state.position == offset:
                error = position_rules.after_out_of_range(state, self._policy)
                if error is not None:
                    self._fail(state, offset, error)
                self._changed()
            return
        error_here = error_for(code, f"fetching {partition} from broker {node} at offset {offset}")
        if code in RAISED_BY_POLL:
            self._fail(state, offset, error_here)
            return
        log.info(
            "fetch of a partition failed, will try again",
            extra={"partition": str(partition), "node": node, "offset": offset, "reason": str(error_here)},
        )
        if code in STALE_METADATA:
            self._network.refresh_soon()

    def _fail(self, state: AssignedPartition, offset: int, error: MoldauError) -> None:
        """Queue an error after the buffered records, which the application reads first."""
        self._buffer.add(Failure(state.partition, state.version, offset, state.epoch, error))

    # -- cleaning up -----------------------------------------------------------------------------------------------

    def forget_unassigned(self) -> None:
        """Forget partitions that are no longer assigned."""
        assigned = self._subscription.assigned
        for kept in (self._waiting, self._failed_in, self._replicas, self._served):
            for partition in [partition for partition in kept if partition not in assigned]:
                kept.pop(partition)
        self._buffer.drop_unassigned()

    def take_error(self) -> MoldauError | None:
        error, self.error = self.error, None
        return error

    async def close(self) -> None:
        """Stop sending requests, and close the fetch sessions of brokers that have no request in flight."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        if connecting:
            await asyncio.wait(connecting)
        for node, session in self._sessions.items():
            connection = self._network.connected(node)
            ending = session.end()
            # After a long poll the broker would read it half a second later; brokers also evict sessions by themselves.
            if ending is not None and connection is not None and node not in self._in_flight:
                request = fetch_request(ending, max_wait_ms=0, min_bytes=0, max_bytes=0, isolation=0, rack="")
                version = connection.version(ApiKey.FETCH)
                body = (request.encode(version),)
                connection.send(ApiKey.FETCH, version, body, lambda *_: None, self._loop.time() + self._timeout_s)


def _forget_past(waits: dict[K, float], now: float) -> None:
    for key in [key for key, until in waits.items() if until <= now]:
        del waits[key]
