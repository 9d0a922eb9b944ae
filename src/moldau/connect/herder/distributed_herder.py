"""Distributed worker: one of several that share the connectors of a group.

The group's coordinator is the broker. The leader of the group assigns the connectors (`assignment.py`) and is the only
writer of the config topic: it claims the topic when it becomes the leader, which fences the leader before it.

A worker keeps its connectors during a rebalance. A worker that has lost its membership, or was stopped for longer than
the session time-out, stops its connectors before it does anything else: `lost` is called as soon as the process knows.
Until then, and should it be stopped in the midst of a commit, the transactional fencing of the engine keeps it from
committing anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.aio import Admin
from moldau.client.errors import InconsistentGroupProtocol, MoldauError
from moldau.connect.herder import HerderError, NotAssignedError, NotLeaderError, RebalancingError
from moldau.connect.herder.assignment import (
    PROTOCOL,
    TakeoverDelay,
    WorkerAssignment,
    WorkerMember,
    assign,
    needs_rebalance,
)
from moldau.connect.herder.offset_requests import OffsetRequests
from moldau.connect.herder.record_log import Records
from moldau.connect.herder.stored_herder import RETRY_PAUSE_S, HerderParts, StoredHerder
from moldau.connect.stores.offset_store import OffsetState
from moldau.host.event_log import event_logger
from moldau.service.group_member import GroupAssignment, GroupMember, GroupView
from moldau.service.state_topic import Fenced, StateTopic

log = event_logger(__name__)

PROTOCOL_TYPE: Final = "connect"
REBALANCE_WAIT_S: Final = 10.0
"""How long a request waits for the end of a rebalance before it is answered with 409. Other members learn of a
rebalance with their next heartbeat, so that most of them end within `heartbeat.interval.ms`."""
SETTLE_POLL_S: Final = 0.02
WATCH_INTERVAL_S: Final = 0.5
REBALANCING: Final = "Request cannot be completed because a rebalance is expected"


@dataclass(frozen=True)
class StorageTopic:
    """One of the three topics that hold the state of the workers."""

    name: str
    partitions: int = 1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DistributedSettings:
    """The settings of a distributed worker that concern the herder."""

    client: Mapping[str, Any]
    """Settings of all clients: bootstrap.servers and security."""
    url: str
    """Where other workers reach the REST API of this one, without a slash at the end."""
    worker_id: str
    """`host:port` of the same address, as states show it."""
    group_id: str = "connect-cluster"
    config_topic: StorageTopic = StorageTopic("connect-configs")
    offset_topic: StorageTopic = StorageTopic("connect-offsets", 25)
    status_topic: StorageTopic = StorageTopic("connect-status", 5)
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    rebalance_delay_ms: int = 0
    """`scheduled.rebalance.max.delay.ms`. Kafka's default is five minutes; see docs/decisions."""
    track_topics: bool = True


def config_writer_id(group_id: str) -> str:
    """The transactional id of the leader, the same as that of Kafka Connect: leaders of both kinds fence each other."""
    return f"connect-cluster-{group_id}"


class DistributedHerder(StoredHerder):
    """The herder of one worker of a group."""

    def __init__(self, settings: DistributedSettings, parts: HerderParts) -> None:
        super().__init__(settings.worker_id, parts, track_topics=settings.track_topics)
        self._settings = settings
        self._config_topic = self._topic(
            settings.config_topic, self._config_record, transactional_id=config_writer_id(settings.group_id)
        )
        self._status_topic = self._topic(settings.status_topic, self._status_record)
        stored = OffsetState()
        self._offset_topic = self._topic(settings.offset_topic, stored.apply)
        self._config_log, self._status_log = self._config_topic, self._status_topic
        self._offsets = OffsetRequests(self._offset_topic, stored, settings.client)
        self._delay = TakeoverDelay(settings.rebalance_delay_ms / 1_000)
        self._timer: asyncio.TimerHandle | None = None
        self._assignment: WorkerAssignment | None = None
        self._urls: list[str] = []
        self._held: frozenset[str] = frozenset()
        self._claimed = False
        self._rejoining = False
        self._leaving: asyncio.Task[None] | None = None
        self._member = GroupMember(
            settings.client,
            group_id=settings.group_id,
            protocol_type=PROTOCOL_TYPE,
            protocols={PROTOCOL: self._metadata},
            assign=self._assign,
            listener=self,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
        )

    def _topic(self, topic: StorageTopic, on_record: Any, transactional_id: str | None = None) -> StateTopic:
        return StateTopic(
            topic.name,
            self._settings.client,
            on_record=on_record,
            on_failure=self._store_failed,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            fewer_replicas=True,
            topic_configs=topic.configs,
            transactional_id=transactional_id,
        )

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        async with Admin(self._settings.client) as admin:
            self._cluster_id = (await admin.describe_cluster()).cluster_id or ""
        await asyncio.gather(self._config_topic.start(), self._status_topic.start(), self._offset_topic.start())
        self._begin()
        self._tasks.append(asyncio.get_running_loop().create_task(self._watch(), name="membership watch"))
        await self._member.start()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._end()
        if self._leaving is not None:
            await self._leaving
        await self._member.stop()
        await asyncio.gather(self._config_topic.close(), self._status_topic.close(), self._offset_topic.close())

    # -- who leads, who runs what -------------------------------------------------------------------------------------

    @property
    def _joined(self) -> bool:
        """Whether this worker has a valid assignment, perhaps one that a rebalance is about to replace."""
        return self._assignment is not None and self._member.valid

    @property
    def _rebalancing(self) -> bool:
        return self._rejoining or self._member.rebalancing

    @property
    def leads(self) -> bool:
        # Also during a rebalance. If it ends with another leader, that one claims the config topic, and what this one
        # writes after that is not stored.
        held = self._member.assignment
        return self._joined and held is not None and held.leads

    async def _settled(self, *, owners: bool = False) -> None:
        deadline = asyncio.get_running_loop().time() + REBALANCE_WAIT_S
        while not self._joined or (owners and self._rebalancing):
            if self._failure is not None:
                raise HerderError(f"This worker has stopped its connectors: {self._failure}")
            if asyncio.get_running_loop().time() >= deadline:
                raise RebalancingError(REBALANCING)
            await asyncio.sleep(SETTLE_POLL_S)

    def _require_leader(self, message: str) -> None:
        if not self.leads:
            raise NotLeaderError(message, None if self._assignment is None else self._assignment.leader_url)

    def _require_owner(self, name: str, message: str) -> None:
        if name not in self._runner.running:
            owners = {} if self._assignment is None else self._assignment.owners
            if owners.get(name) == self._settings.url:
                raise RebalancingError(REBALANCING)  # assigned here a moment ago, and not started yet
            raise NotAssignedError(message, owners.get(name))

    async def _prepare_write(self) -> None:
        """Claim the config topic, once in each time of leading. It fences the leader before, and reads to the end."""
        if not self.leads:
            raise RebalancingError(REBALANCING)
        if not self._claimed:
            await self._config_topic.claim()
            # Another worker may have become the leader meanwhile: then that one has claimed the topic again, or will.
            if not self.leads:
                raise RebalancingError(REBALANCING)
            self._claimed = True

    async def _write_configs(self, entries: Records) -> None:
        """Write as the leader. A leader that was fenced has written nothing; it claims the topic again if the group
        still lets it lead."""
        await self._prepare_write()
        try:
            await self._config_topic.write_all(entries)
        except Fenced as error:
            log.warning("fenced from the config topic", extra={"topic": self._config_topic.topic})
            self._claimed = False
            raise RebalancingError(REBALANCING) from error
        except BaseException:
            self._claimed = False  # the transaction is open: the next claim ends it
            raise

    async def _lead(self) -> None:
        await super()._lead()
        waiting = [name for name in self.configs.connectors if name not in self._held]
        owners = {} if self._assignment is None else self._assignment.owners
        if not self._rebalancing and needs_rebalance(waiting, owners, self._urls):
            self._rejoin("connectors were created or deleted")

    def _rejoin(self, reason: str) -> None:
        self._rejoining = True
        self._member.rejoin(reason)

    # -- group --------------------------------------------------------------------------------------------------------

    def _metadata(self) -> bytes:
        return WorkerMember(self._settings.url, frozenset(self._runner.running)).encode()

    async def _assign(self, view: GroupView) -> Mapping[str, bytes]:
        """The leader's part of a rebalance."""
        await self._config_topic.read_to_end()
        members = {member_id: WorkerMember.decode(data) for member_id, data in view.members.items()}
        now = self._clock.monotonic()
        names = list(self.configs.connectors)
        found = assign(now, self.configs.offset, names, members, view.leader_id, self._delay)
        self._urls = sorted(member.url for member in members.values())
        self._held = frozenset(self._delay.held(now, names, {one.url: one.connectors for one in members.values()}))
        return {member_id: one.encode() for member_id, one in found.items()}

    async def revoked(self, old: GroupAssignment) -> None:
        """A rebalance has begun: the connectors run on."""

    async def assigned(self, new: GroupAssignment) -> None:
        try:
            await self._follow(new)
        except MoldauError as error:
            # Without the config topic, or with a leader of another version, it is not known what to run here.
            log.warning("assignment not followed, joining again", extra={"reason": str(error)})
            self._abandon()
            self._set_timer(RETRY_PAUSE_S, "the assignment could not be followed")

    async def _follow(self, new: GroupAssignment) -> None:
        assignment = WorkerAssignment.decode(new.assignment)
        if self.configs.offset < assignment.config_offset:
            await self._config_topic.read_to_end()
        if not self._live:
            return
        self._claimed = self._claimed and new.leads
        self._assignment = assignment
        self._rejoining = False
        self._delay.assigned(assignment.owners)
        runner = self._runner
        runner.generation = new.generation
        runner.assigned = assignment.connectors
        moved = {name for name in runner.running if name not in assignment.connectors} & self.configs.connectors.keys()
        log.info(
            "connectors assigned",
            extra={"generation": new.generation, "connectors": len(assignment.connectors), "leader": new.leads},
        )
        await runner.follow()
        if moved:
            self._rejoin("connectors that move have stopped")
        self._changed.set()
        self._set_timer(assignment.delay_ms / 1_000, "connectors of a lost worker need not wait any longer")

    def _set_timer(self, delay_s: float, reason: str) -> None:
        """Rebalance again after this time; 0: not at all."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if delay_s > 0:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._rejoin, reason)

    async def _watch(self) -> None:
        """Stop the connectors as soon as the membership is over by this process's clock.

        `lost` comes as well, but after a call of `assigned` that still waits for a connector to stop. A process that
        was stopped and continued gets here first: the timer has run out long ago.
        """
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            if self._assignment is not None and not self._member.valid:
                log.warning("session time-out has passed, connectors stopped", extra={"group": self._settings.group_id})
                self._abandon()

    def _abandon(self) -> None:
        self._claimed = False
        self._assignment = None
        self._runner.abandon()

    async def lost(self, old: GroupAssignment) -> None:
        log.warning("membership lost, connectors stopped", extra={"generation": old.generation})
        self._abandon()

    def failed(self, error: MoldauError) -> None:
        if isinstance(error, InconsistentGroupProtocol):
            error = HerderError(
                f"group {self._settings.group_id!r} has members of another kind, such as workers of Apache Kafka "
                "Connect; stop them and start this worker again, or give it another group.id"
            )
        self._store_failed(error)

    def _store_failed(self, error: MoldauError) -> None:
        super()._store_failed(error)
        self._assignment = None
        # Another worker may still be able to read the topics: it gets the connectors of this one.
        self._leaving = asyncio.get_running_loop().create_task(self._member.stop(), name="leaving the group")
