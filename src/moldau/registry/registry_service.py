"""Registry over the topic `_schemas`: follows it, and writes to it while it is the leader.

Guarantees, also if the leader is killed, or stopped and continued after another one took over:

- No id is given twice. A leader claims the topic before its first write: that fences the leader before it and ends
  what that one had not committed, and then it reads the topic to its end. Each decision is made on the state after the
  one before, and its records are one transaction.
- An acknowledged write is stored (`acks=all`), and every registry sees it: reads at the leader need nothing, reads at
  other registries first ask the broker for the end of the topic and read to it (`fresh`).

A registry that cannot reach the brokers still answers reads with what it knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from moldau.client.errors import MoldauError, RecordTooLarge, TimedOut
from moldau.host.event_log import event_logger
from moldau.registry.operations import MAX_RECORD_BYTES, WriteDecision
from moldau.registry.records import RecordError
from moldau.registry.refusals import NotLeader, RegistryRefusal, schema_too_large, store_failed, store_timed_out
from moldau.registry.registry_group import RegistryGroup
from moldau.registry.stored_registry import RegistryRules, StoredRegistry
from moldau.service.http_settings import HttpAddress
from moldau.service.state_topic import Fenced, StateRecord, StateTopic

log = event_logger(__name__)

LEADER_WAIT_S: Final = 10.0
"""How long a write waits for a leader during a rebalance before it is refused."""
CLAIM_TRIES: Final = 3
"""How often a leader claims the topic for one write, if the group changes while it does."""
FRESH_TIMEOUT_S: Final = 5.0
"""How long a read waits for the end of the topic, before it sees what this registry knows."""
STALE_FOR_S: Final = 5.0
"""After a read that waited in vain, others do not wait for so long."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of one registry of a cluster."""

    client: Mapping[str, Any] = field(repr=False)
    """Settings of all clients: bootstrap.servers and security."""
    address: HttpAddress
    """Where the other registries reach this one."""
    group_id: str = "schema-registry"
    topic: str = "_schemas"
    replication_factor: int = 3
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    may_lead: bool = True
    write_timeout_s: float = 15.0
    start_timeout_s: float = 60.0
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    rules: RegistryRules = field(default_factory=RegistryRules)


def writer_id(topic: str) -> str:
    """The transactional id of the leader. All registries of a topic fence each other by it, whatever their group."""
    return f"schema-registry-{topic}"


class TopicRegistry(StoredRegistry):
    """One registry of a cluster. Used from one event loop."""

    def __init__(self, settings: ServiceSettings) -> None:
        super().__init__(settings.rules)
        self._settings = settings
        self._topic = StateTopic(
            settings.topic,
            settings.client,
            on_record=self._on_record,
            on_failure=lambda error: self._changed.set(),
            replication_factor=settings.replication_factor,
            fewer_replicas=True,
            topic_configs=settings.topic_configs,
            transactional_id=writer_id(settings.topic),
        )
        self._group = RegistryGroup(
            settings.client,
            settings.group_id,
            settings.address,
            may_lead=settings.may_lead,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            on_change=self._group_changed,
        )
        self._started = False
        self._writing = asyncio.Lock()
        self._claimed: int | None = None
        """The generation of the group in which this registry has claimed the topic; None: not, or not for sure."""
        self._changed = asyncio.Event()
        self._stale_until = 0.0
        self._claiming: asyncio.Task[None] | None = None

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the topic to its end, and begin to join the group. Raises MoldauError if the topic cannot be used."""
        await self._topic.start(self._settings.start_timeout_s)
        self._started = True
        await self._group.start()

    async def close(self) -> None:
        """Leave the group, so that another registry can lead at once, and stop following the topic."""
        await self._group.stop()
        if self._claiming is not None:
            self._claiming.cancel()
            await asyncio.wait([self._claiming])
        await self._topic.close()

    @property
    def leads(self) -> bool:
        return self._started and self._group.leads

    @property
    def leader_url(self) -> str | None:
        return self._group.leader_url

    @property
    def problem(self) -> str | None:
        if not self._started:
            return f"the registry has not read the topic {self._settings.topic} yet"
        if self._topic.failure is not None:
            return str(self._topic.failure)
        return self._group.failure

    # -- reading -------------------------------------------------------------------------------------------------------

    async def fresh(self) -> None:
        await self._read_to_end()

    async def _read_to_end(self) -> bool:
        """Whether this registry has every write that was acknowledged before the call."""
        if self._has_claimed:
            return True
        now = asyncio.get_running_loop().time()
        if not self._started or now < self._stale_until:
            return False
        try:
            await self._topic.read_to_end(FRESH_TIMEOUT_S)
        except MoldauError as error:
            self._stale_until = asyncio.get_running_loop().time() + STALE_FOR_S
            log.warning("reads may miss the newest writes", extra={"topic": self._topic.topic, "reason": str(error)})
            return False
        return True

    def _on_record(self, record: StateRecord) -> None:
        try:
            self._apply(record.key, record.value)
        except RecordError as error:
            # One bad record must not keep all schemas from being served. Confluent's registry skips it too.
            log.error("record ignored", extra={"offset": record.offset, "reason": str(error)})

    # -- writing -------------------------------------------------------------------------------------------------------

    @property
    def _has_claimed(self) -> bool:
        """Whether this registry is the only writer, and has applied every write: all of them are its own."""
        return self._claimed == self._group.generation and self.leads

    async def _commit(self, decide: Callable[[], WriteDecision[Answer]]) -> Answer:
        await self._settled()
        if not self.leads:
            return await self._answer_without_write(decide)
        async with self._writing:
            for last_try in (False, True):
                await self._claim()
                decision = decide()
                if not decision.entries or await self._write(decision):
                    return decision.answer
                if last_try or not self.leads:
                    break
        raise NotLeader(self.leader_url)

    async def _settled(self) -> None:
        """Wait until there is a leader. RegistryRefusal or NotLeader if there is none in time."""
        try:
            async with asyncio.timeout(LEADER_WAIT_S):
                while not self.leads and self.leader_url is None:
                    if self.problem is not None:
                        raise store_failed(self.problem)
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise NotLeader(None) from None

    async def _answer_without_write(self, decide: Callable[[], WriteDecision[Answer]]) -> Answer:
        """The answer of a registry that does not lead, if nothing has to be written: the schema is registered already,
        or the request is refused. Otherwise NotLeader."""
        if not await self._read_to_end():
            raise NotLeader(self.leader_url)
        decision = decide()
        if decision.entries:
            raise NotLeader(self.leader_url)
        return decision.answer

    async def _claim(self) -> None:
        """Claim the topic, once in each time of leading. `_writing` is held."""
        for _ in range(CLAIM_TRIES):
            if self._has_claimed:
                return
            generation = self._group.generation
            try:
                await self._topic.claim(self._settings.write_timeout_s)
            except MoldauError as error:
                raise self._failed("claiming the topic", error) from error
            # Another registry may have led meanwhile: then that one has claimed the topic again, or will.
            if self.leads and self._group.generation == generation:
                self._claimed = generation
                log.info("topic claimed", extra={"topic": self._topic.topic, "generation": generation})
                return
            if not self.leads:
                break
        raise NotLeader(self.leader_url)

    async def _write(self, decision: WriteDecision[Any]) -> bool:
        """Whether the records are stored and applied; False: another registry has claimed the topic, nothing is."""
        try:
            await self._topic.write_all(decision.entries, timeout_s=self._settings.write_timeout_s)
        except Fenced:
            log.warning("fenced from the topic", extra={"topic": self._topic.topic})
            self._claimed = None
            return False
        except RecordTooLarge as error:
            self._claimed = None
            size = max(len(key) + len(value or b"") for key, value in decision.entries)
            raise schema_too_large(size, MAX_RECORD_BYTES) from error
        except MoldauError as error:
            self._claimed = None  # the outcome is not known: the next claim ends the transaction
            raise self._failed("writing", error) from error
        except BaseException:
            self._claimed = None
            raise
        return True

    def _failed(self, doing: str, error: MoldauError) -> RegistryRefusal:
        log.warning("write failed", extra={"topic": self._topic.topic, "doing": doing, "reason": str(error)})
        refusal = store_timed_out if isinstance(error, TimedOut) else store_failed
        return refusal(f"{doing} failed; the write may have been stored or not: {error}")

    # -- group ---------------------------------------------------------------------------------------------------------

    def _group_changed(self) -> None:
        self._changed.set()
        if self.leads and not self._has_claimed and (self._claiming is None or self._claiming.done()):
            self._claiming = asyncio.get_running_loop().create_task(self._claim_early(), name="claiming the topic")

    async def _claim_early(self) -> None:
        """Claim the topic as soon as this registry leads: the first write need not wait for it."""
        try:
            async with self._writing:
                if self.leads:
                    await self._claim()
        except (RegistryRefusal, NotLeader) as error:
            log.info("the topic is claimed with the next write", extra={"reason": str(error)})
