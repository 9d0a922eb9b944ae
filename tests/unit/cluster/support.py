"""Brokers, rules, and stores that can be opened again, for tests of cluster metadata."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import hypothesis

from moldau.cluster.configs import Alteration, ConfigOperation, ConfigResourceType, ConfigRules
from moldau.cluster.controller import Rebalance
from moldau.cluster.errors import Refusal
from moldau.cluster.image import BrokerImage, ClusterImage, Endpoint, TopicImage
from moldau.cluster.memory_store import MemoryStore, MemoryTree
from moldau.cluster.metadata import Metadata, MetadataRules
from moldau.cluster.sqlite_store import SqliteStore
from moldau.cluster.store import Operation, Store
from moldau.cluster.topics import TopicDefaults
from moldau.cluster.zookeeper_store import ZookeeperStore
from moldau.host.clock import SeededRandomness
from moldau.host.threads import Threads
from moldau.testing.simulation.ensemble import SimulatedEnsemble
from moldau.wire.errors import ErrorCode

T = TypeVar("T")


def examples(percent: int) -> hypothesis.settings:
    """A part of the examples of this run, for properties that are slow to check."""
    return hypothesis.settings(max_examples=hypothesis.settings().max_examples * percent // 100)


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(scenario, timeout=60))


class Engine(Protocol):
    """A kind of store, which is tested against the rules of all stores."""

    async def open(self) -> Store:
        """A new session with the same tree."""
        ...

    async def dispose(self) -> None: ...


class MemoryEngine:
    def __init__(self, _directory: Path) -> None:
        self.tree = MemoryTree()

    async def open(self) -> Store:
        return self.tree.session()

    async def dispose(self) -> None:
        pass


class SqliteEngine:
    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "metadata.db")
        self.threads = Threads(threads=2)

    async def open(self) -> SqliteStore:
        return await SqliteStore.open(self.path, self.threads)

    async def dispose(self) -> None:
        await self.threads.close()


class ZookeeperEngine:
    """A subtree of a real server that no other test uses."""

    def __init__(self, connect: str) -> None:
        self.connect = f"{connect}/engine-{uuid.uuid4().hex}"

    async def open(self, session_timeout_s: float = 20.0) -> ZookeeperStore:
        return await ZookeeperStore.open(self.connect, session_timeout_s=session_timeout_s, connection_timeout_s=20)

    async def dispose(self) -> None:
        pass


class SimulatedEngine:
    """The store of the simulation, without faults."""

    def __init__(self, _directory: Path) -> None:
        self.ensemble = SimulatedEnsemble(seed=1)

    async def open(self) -> Store:
        return await self.ensemble.open()

    async def dispose(self) -> None:
        pass


ENGINES: Mapping[str, Callable[[Path], Engine]] = {
    "memory": MemoryEngine,
    "simulated": SimulatedEngine,
    "sqlite": SqliteEngine,
}


def broker(broker_id: int, rack: str | None = None) -> BrokerImage:
    endpoint = Endpoint("PLAINTEXT", f"host-{broker_id}", 9092, "PLAINTEXT")
    return BrokerImage(broker_id, (endpoint,), rack)


def cluster(brokers: int = 1) -> ClusterImage:
    return ClusterImage("a-cluster", 0).with_brokers(broker(index) for index in range(brokers))


LISTS = {"cleanup.policy": "delete", "leader.throttled": ""}
NUMBERS = {"retention.ms": "604800000", "segment.bytes": "1073741824"}


def _check(configs: Mapping[str, str]) -> str | None:
    """Check two lists and two numbers: they exist, and the numbers are valid."""
    for name, value in configs.items():
        if name not in LISTS and name not in NUMBERS:
            return f"Unknown setting {name}."
        if name in NUMBERS and not value.lstrip("-").isdigit():
            return f"{name} must be a number, not {value}."
    return None


RULES = ConfigRules(check=_check, is_list=LISTS.__contains__, default=(LISTS | NUMBERS).get)


_seeds = itertools.count(1)


def new_metadata(
    store: Store | MemoryTree,
    broker_id: int = 0,
    *,
    partitions: int = 3,
    factor: int = 1,
    seed: int | None = None,
    min_isr: int = 1,
    unclean: Container[str] = (),
    rebalance: Rebalance | None = None,
) -> Metadata:
    """Metadata with one session, or with as many sessions of a tree as it needs."""

    async def the_only_one() -> Store:
        assert isinstance(store, Store)
        return store

    rules = MetadataRules(
        TopicDefaults(num_partitions=partitions, replication_factor=factor),
        RULES,
        RULES,
        RULES,
        min_insync_replicas=lambda _topic: min_isr,
        unclean_election=lambda topic: topic.name in unclean,
        rebalance=lambda: rebalance or Rebalance(enabled=False),
    )
    open_store = store.open if isinstance(store, MemoryTree) else the_only_one
    return Metadata(broker_id, open_store, SeededRandomness(next(_seeds) if seed is None else seed), rules)


def topic_of(answer: TopicImage | Refusal) -> TopicImage:
    assert isinstance(answer, TopicImage), answer
    return answer


def code_of(answer: object) -> ErrorCode:
    assert isinstance(answer, Refusal), answer
    return answer.code


async def started(store: Store, broker_id: int = 0) -> Metadata:
    metadata = new_metadata(store, broker_id)
    await metadata.open()
    await metadata.register(broker(broker_id))
    return metadata


def retention(topic: str, value: str) -> Alteration:
    return Alteration(ConfigResourceType.TOPIC, topic, (("retention.ms", ConfigOperation.SET, value),))


class Interposed(MemoryStore):
    """A session in which `before_commit` is called before each commit and may raise."""

    before_commit: Callable[[Sequence[Operation]], None] = staticmethod(lambda _operations: None)

    async def commit(self, operations: Sequence[Operation]) -> None:
        self.before_commit(operations)
        await super().commit(operations)


def interposed() -> tuple[MemoryTree, Interposed]:
    tree = MemoryTree()
    session = Interposed(tree)
    tree.join(session)
    return tree, session
