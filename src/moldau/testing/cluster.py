"""Cluster for tests: several brokers in this process, for tests of broker failures.

    with Cluster(3) as cluster:
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
        cluster.brokers[cluster.leader_of("orders", 0)].crash()

Each broker is a `moldau.testing.Broker` with its own thread, port, directory, time and faults. They replicate and elect
leaders as in production. Only the metadata store is in memory, and shared: it needs no ZooKeeper and outlives the
brokers. `brokers[i]` has the node id i.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from moldau.broker.broker import Broker as Served
from moldau.cluster.image import CONSUMER_OFFSETS, NO_LEADER, TRANSACTION_STATE, ClusterImage
from moldau.cluster.memory_store import MemoryStore, MemoryTree
from moldau.cluster.store import OpenStore
from moldau.security.acls import AclRule
from moldau.testing.broker import LOG_LEVEL, Broker, Setting
from moldau.testing.broker_thread import ANSWER_TIMEOUT_S, BrokerNotRunning, Hosted
from moldau.testing.security import Security
from moldau.wire.topic_partition import TopicPartition

T = TypeVar("T")
Beginning = tuple["ClusterBroker", Future[Served]]

BROKERS = 3
MAX_BROKERS = 100

WAIT_S = 30.0
LOOK_AGAIN_S = 0.005
"""Interval between two checks of an awaited condition."""

SETTINGS: Mapping[str, Setting] = {
    # So that every broker of a small cluster coordinates some groups and transactions.
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}
"""Settings that differ from those of a single test broker."""


class _Session(MemoryStore):
    """A broker's session, which a crash can leave open."""

    left_behind = False

    async def close(self) -> None:
        if not self.left_behind:
            await super().close()


class ClusterBroker(Broker):
    """A broker of a test cluster."""

    def __init__(
        self,
        node_id: int,
        tree: MemoryTree,
        settings: Mapping[str, Setting],
        *,
        data: str | os.PathLike[str] | None,
        log_level: int,
    ) -> None:
        super().__init__({**SETTINGS, **settings, "node.id": node_id}, data=data, log_level=log_level)
        self.node_id = node_id
        self._tree = tree
        self._session: _Session | None = None
        self._expiry: threading.Timer | None = None

    def __repr__(self) -> str:
        return super().__repr__().replace("<Broker", f"<Broker {self.node_id}", 1)

    def crash(self, noticed_after_s: float = 0) -> None:
        """Stop as `kill -9` would. The other brokers notice it at once, or after `noticed_after_s`, when its session
        with the metadata store expires, unless the broker is started again before that."""
        session = self._session
        if noticed_after_s and session is not None:
            session.left_behind = True
            self._tree.suspend(session)
        super().crash()
        if noticed_after_s and session is not None:
            self._expiry = threading.Timer(noticed_after_s, self._tree.end, (session,))
            self._expiry.daemon = True
            self._expiry.start()

    def expire_session(self) -> None:
        """Expire the broker's session in the metadata store, as after a long pause. The broker stops leading and
        registers again."""
        self._running()
        assert self._session is not None
        self._tree.expire(self._session)

    def lose_touch(self) -> None:
        """Disconnect the broker from the metadata store; its session does not expire there."""
        self._running()
        assert self._session is not None
        self._tree.suspend(self._session)

    def find_touch(self) -> None:
        """Reconnect the broker after `lose_touch`."""
        self._running()
        assert self._session is not None
        self._tree.resume(self._session)

    # -- used by the cluster ---------------------------------------------------------------------------------------

    @property
    def runs(self) -> bool:
        return self._life is not None

    def look(self, function: Callable[[Served], T]) -> T:
        """The result of a function of the broker, called in the broker's thread."""
        life = self._running()
        return life.call(function, life.broker)

    def carry_out(self, work: Callable[[Served], Coroutine[Any, Any, T]]) -> T:
        """The result of a coroutine of the broker, run in the broker's thread."""
        life = self._running()
        return life.run(work(life.broker))

    def forget_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry.join()
            self._expiry = None

    def _open_store(self) -> OpenStore:
        self.forget_expiry()

        async def open_session() -> _Session:
            self._session = _Session(self._tree)
            self._tree.join(self._session)
            return self._session

        return open_session


class Cluster(Hosted):
    """Brokers that run from `with` (or `start`) to `close`. Each may be stopped, crashed and started again in
    between."""

    def __init__(
        self,
        brokers: int = BROKERS,
        settings: Mapping[str, Setting] | None = None,
        *,
        racks: Sequence[str] | None = None,
        data: str | os.PathLike[str] | None = None,
        log_level: int = LOG_LEVEL,
        security: Security | None = None,
    ) -> None:
        """`racks` has a rack for each broker; `data` is a directory to keep, with one directory per broker. With
        `security`, clients and brokers log in, and clients may do what the rules allow."""
        if not 1 <= brokers <= MAX_BROKERS:
            raise ValueError(f"a cluster of {brokers} brokers; 1 to {MAX_BROKERS} are possible")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        self._tree = MemoryTree()
        self._wanted_security = security
        self._security_files: tempfile.TemporaryDirectory[str] | None = None
        self.brokers: list[ClusterBroker] = []
        """The brokers, by node id."""
        for node_id in range(brokers):
            of_broker: dict[str, Setting] = dict(settings or {})
            if racks is not None:
                of_broker["broker.rack"] = racks[node_id]
            home = None if data is None else Path(data) / f"broker-{node_id}"
            self.brokers.append(ClusterBroker(node_id, self._tree, of_broker, data=home, log_level=log_level))

    def __repr__(self) -> str:
        return f"<Cluster of {self.brokers}>"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, running or not; stays the same after the first start."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def live(self) -> list[ClusterBroker]:
        """The brokers that are running."""
        return [broker for broker in self.brokers if broker.runs]

    # -- lifecycle -------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start all brokers that are not running, at the same time. Returns when all of them know each other."""
        self._finish_start(self._begin_start())
        return self

    def _begin_start(self) -> list[Beginning]:
        if self._wanted_security is not None and self._security_files is None:
            self._security_files = tempfile.TemporaryDirectory(prefix="moldau-security-")
            prepared = self._wanted_security.prepared(Path(self._security_files.name))
            for broker in self.brokers:
                broker._security = prepared
        return [(broker, broker._begin()) for broker in self.brokers if not broker.runs]

    def _finish_start(self, begun: list[Beginning]) -> None:
        errors = []
        for broker, future in begun:
            try:
                broker._on_started(future.result(ANSWER_TIMEOUT_S))
            except BaseException as error:  # noqa: BLE001 - raised again below, when the others have been waited for
                broker._on_start_failed()
                errors.append(error)
        if errors:
            raise errors[0]
        ids = {broker.node_id for broker in self.live}
        self.wait_until(lambda image: image.brokers.keys() == ids, "the brokers know of each other")

    def stop(self) -> None:
        """Stop all running brokers cleanly, at the same time."""
        ending = [(broker, broker._running().stop()) for broker in self.live]
        errors = []
        for broker, future in ending:
            try:
                broker._wait(future)
            except BaseException as error:  # noqa: BLE001 - raised again below, when the others have been waited for
                errors.append(error)
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Stop all brokers and delete temporary data."""
        try:
            self.stop()
        finally:
            for broker in self.brokers:
                broker.forget_expiry()
                broker.close()
            if self._security_files is not None:
                self._security_files.cleanup()
                self._security_files = None

    async def __aenter__(self) -> Self:
        begun = self._begin_start()
        try:
            await asyncio.wait([asyncio.wrap_future(future) for _, future in begun])
        finally:
            try:
                self._finish_start(begun)  # also after cancellation: no thread may be left
            except BaseException:
                self.close()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- security ----------------------------------------------------------------------------------------------------

    def client_settings(self, user: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """Settings for a client that logs in as this user, with the addresses of all brokers and with Kafka's names."""
        login = self.brokers[0].client_settings(user, mechanism)
        return {**login, "bootstrap.servers": self.bootstrap_servers}

    def add_rules(self, *rules: AclRule) -> None:
        """Add access control rules, made by `allow` and `deny`; in force on every broker when this returns."""
        self._anyone().add_rules(*rules)
        self.wait_until(lambda image: _has_rules(image, rules), "the rules are in force")

    def remove_rules(self, *rules: AclRule) -> None:
        """Remove rules that were added; rules that are not there are ignored."""
        self._anyone().remove_rules(*rules)
        self.wait_until(lambda image: not any(_has_rules(image, [rule]) for rule in rules), "the rules are removed")

    # -- topics ----------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, Setting] | None = None,
    ) -> None:
        """Create a topic, by default with up to three replicas; ValueError if it is refused. Returns when every broker
        knows the topic and every partition has a leader."""
        factor = min(BROKERS, len(self.live)) if replication_factor is None else replication_factor
        self._anyone()._create_topic(name, partitions, factor, configs)
        self.wait_until(
            lambda image: name in image.topics and all(one.leader >= 0 for one in image.topics[name].partitions),
            f"topic {name} has a leader for every partition",
        )

    def leader_of(self, topic: str, index: int = 0) -> int:
        """The id of the broker that leads a partition, as a live broker knows it; -1 if there is no leader."""
        return self._partition(topic, index)[0]

    def in_sync(self, topic: str, index: int = 0) -> tuple[int, ...]:
        """The ids of the brokers in the ISR, as a live broker knows them."""
        return self._partition(topic, index)[1]

    def move_leader(self, topic: str, index: int = 0) -> int:
        """Make another in-sync replica the leader of a partition, as when its leader is stopped; returns the id of that
        broker. If it is a coordinator's partition, the coordinator moves with it."""
        before = self.leader_of(topic, index)
        if len(self.in_sync(topic, index)) < 2 or before == NO_LEADER:
            raise ValueError(f"no other replica can lead {topic}-{index}")
        self.brokers[before].carry_out(
            lambda served: served.metadata.resign([TopicPartition(topic, index)], leave_isr=False)
        )

        def moved(image: ClusterImage) -> bool:
            state = image.partition(topic, index)
            return state is None or state.leader not in (before, NO_LEADER)

        self.wait_until(moved, f"{topic}-{index} is led by another broker")
        return self.leader_of(topic, index)

    def group_coordinator(self, group_id: str) -> int:
        """The id of the broker that coordinates a group; -1 if there is none, as before the first group is used."""
        return self._coordinator(CONSUMER_OFFSETS, group_id)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The id of the broker that coordinates a transactional id; -1 if there is none."""
        return self._coordinator(TRANSACTION_STATE, transactional_id)

    def coordinator_partition(self, topic: str, key: str) -> int:
        """The partition of an internal topic that stores a group or a transactional id; -1 if the topic does not
        exist."""

        def index(served: Served) -> int:
            coordination = served.groups.runtime if topic == CONSUMER_OFFSETS else served.transactions.runtime
            return coordination.index_of(key)

        return self._anyone().look(index)

    def wait_until(self, holds: Callable[[ClusterImage], bool], what: str = "", timeout: float = WAIT_S) -> None:
        """Wait until a condition holds for the image of every live broker.

        The condition is called in the caller's thread, so it may call the cluster and its brokers as well.
        """
        deadline = time.monotonic() + timeout
        for broker in self.live:
            while broker.runs and not holds(broker.look(lambda served: served.image)):
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"{broker!r} did not see within {timeout} s that {what or holds}")
                time.sleep(LOOK_AGAIN_S)

    def wait_in_sync(self, timeout: float = WAIT_S) -> None:
        """Wait until every replica on a live broker is in sync, and every partition has a leader."""
        live = frozenset(broker.node_id for broker in self.live)

        def holds(image: ClusterImage) -> bool:
            return all(
                one.leader in live and live.intersection(one.replicas) <= frozenset(one.isr)
                for topic in image.topics.values()
                for one in topic.partitions
            )

        self.wait_until(holds, "all replicas are in sync", timeout)

    # -- internals -------------------------------------------------------------------------------------------------

    def _anyone(self) -> ClusterBroker:
        for broker in self.brokers:
            if broker.runs:
                return broker
        raise BrokerNotRunning("no broker of the cluster is running: `start` one first")

    def _coordinator(self, topic: str, key: str) -> int:
        index = self.coordinator_partition(topic, key)
        return self.leader_of(topic, index) if index >= 0 else NO_LEADER

    def _partition(self, topic: str, index: int) -> tuple[int, tuple[int, ...]]:
        state = self._anyone().look(lambda served: served.image.partition(topic, index))
        if state is None:
            raise ValueError(f"there is no partition {topic}-{index}")
        return (state.leader, state.isr) if state.leader >= 0 else (NO_LEADER, state.isr)


def _has_rules(image: ClusterImage, rules: Sequence[AclRule]) -> bool:
    return all(rule.entry in image.security.acls.get(rule.pattern, ()) for rule in rules)
