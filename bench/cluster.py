"""Cluster for benchmarks: ZooKeeper and brokers as processes, and a watch for partitions without a leader.

All of them run on this one machine and share its cores, so the times are those of a loaded machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from bench import frames
from bench.harness import HOST, Broker, Context
from moldau import Admin
from moldau.cli.zookeeper.server import ZooKeeperEnsemble
from moldau.wire.messages.metadata import MetadataResponse

BROKERS = 3
READY_TIMEOUT_S = 120
LOOK_EVERY_S = 0.01
ASK_ALL_EVERY_S = 0.2
"""Interval between two Metadata requests for all partitions: thousands of partitions from three brokers are costly."""


class Cluster:
    """Three brokers and their ZooKeeper. Leaving the context ends them."""

    def __init__(self, directory: Path, settings: Sequence[str] = ()) -> None:
        self.zookeeper = ZooKeeperEnsemble(directory)
        common = [f"zookeeper.connect={self.zookeeper.connect}", "default.replication.factor=3", *settings]
        self.brokers: dict[int, Broker] = {}
        for number in range(1, BROKERS + 1):
            place = directory / f"broker-{number}"
            place.mkdir()
            self.brokers[number] = Broker(place / "data", [f"node.id={number}", *common])

    @property
    def addresses(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def start(self) -> None:
        """Start ZooKeeper, then all brokers at once. Does not wait until they serve."""
        self.zookeeper.start()
        for broker in self.brokers.values():
            broker.launch()

    def stop(self) -> None:
        running = [broker for broker in self.brokers.values() if broker.running]
        for broker in running:
            broker.ask_to_stop()
        for broker in running:
            broker.wait_stopped()
        self.zookeeper.stop()

    def balance(self, topic: str, partitions: int) -> dict[int, int]:
        """Wait until all replicas are in sync and elect the preferred leaders, so that each broker leads the same
        number. Returns the leaders."""
        wait_whole(self, topic, partitions)
        with Admin(bootstrap_servers=self.addresses) as admin:
            admin.elect_leaders()
        return wait_whole(self, topic, partitions)

    def cpu_seconds(self) -> float:
        """The CPU time of all brokers together, without ZooKeeper."""
        return sum(broker.cpu_seconds() for broker in self.brokers.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            if broker.running:
                broker.kill()
        self.zookeeper.stop()


@contextlib.contextmanager
def running(context: Context, *settings: str) -> Iterator[Cluster]:
    """A running cluster on a temporary directory."""
    with context.scratch("cluster") as directory, Cluster(directory, settings) as cluster:
        cluster.start()
        wait_until(lambda: live_brokers(cluster) == BROKERS, READY_TIMEOUT_S)
        yield cluster


def live_brokers(cluster: Cluster) -> int:
    """The smallest number of live brokers that any broker knows."""
    return min(len(described(broker).brokers) for broker in cluster.brokers.values())


def described(broker: Broker) -> MetadataResponse:
    """All brokers and topics as this broker knows them; an empty response while it does not answer."""
    try:
        with frames.connect(HOST, broker.port) as connection:
            return MetadataResponse.decode(frames.call(connection, frames.metadata()), frames.METADATA_VERSION, 4)
    except OSError:
        return MetadataResponse()


def leaders(broker: Broker, topic: str) -> dict[int, int]:
    """The leader of each partition whose replicas are all in sync, as this broker knows it."""
    return {
        one.partition_index: one.leader_id
        for found in described(broker).topics or ()
        if found.name == topic
        for one in found.partitions
        if one.leader_id >= 0 and len(one.isr_nodes) == len(one.replica_nodes)
    }


def wait_whole(cluster: Cluster, topic: str, partitions: int) -> dict[int, int]:
    """Wait until every broker knows a leader for every partition, with all replicas in sync. Returns the leaders."""
    found: dict[int, int] = {}

    def whole() -> bool:
        told = [leaders(broker, topic) for broker in cluster.brokers.values() if broker.running]
        found.update(told[0])
        return all(len(one) == partitions and one == told[0] for one in told)

    wait_until(whole, READY_TIMEOUT_S, ASK_ALL_EVERY_S)
    return found


def wait_until(look: Callable[[], bool], timeout_s: float, every_s: float = LOOK_EVERY_S) -> None:
    deadline = time.perf_counter() + timeout_s
    while not look():
        if time.perf_counter() > deadline:
            raise RuntimeError(f"the condition did not hold within {timeout_s} s")
        time.sleep(every_s)


class LeaderWatch:
    """Repeatedly asks brokers which of some partitions they lead, and records when each partition last had a leader.

    Every broker is asked for all partitions, because only its own answer shows whether it leads. A gap is measured from
    the time when the last request was sent that a leader answered, to the time of the next such answer. So the real gap
    is never longer. Without a gap, the value is the time of one request and its answer.
    """

    def __init__(self, brokers: Iterable[Broker], topic: str, partitions: Sequence[int]) -> None:
        self._question = frames.latest_offsets(topic, partitions)
        self._connections = {broker.port: frames.connect(HOST, broker.port) for broker in brokers}
        self.last_led = dict.fromkeys(partitions, time.perf_counter())
        self.longest_gap_s = dict.fromkeys(partitions, 0.0)
        self.longest_round_s = 0.0

    def begin(self) -> None:
        """Reset the gaps: they count from now on."""
        self.longest_gap_s = dict.fromkeys(self.longest_gap_s, 0.0)
        self.longest_round_s = 0.0

    def look(self) -> set[int]:
        """One round of requests; returns the partitions that have a leader."""
        began = time.perf_counter()
        found: set[int] = set()
        asked = [port for port in self._connections if self._ask(port)]
        for port in asked:
            found.update(self._answer(port))
        now = time.perf_counter()
        self.longest_round_s = max(self.longest_round_s, now - began)
        for partition in found:
            gap = now - self.last_led[partition]
            self.longest_gap_s[partition] = max(self.longest_gap_s[partition], gap)
            self.last_led[partition] = began
        return found

    def hears(self, broker: Broker) -> bool:
        """Whether this broker still answers."""
        return broker.port in self._connections

    def _ask(self, port: int) -> bool:
        try:
            self._connections[port].sendall(self._question)
        except OSError:
            del self._connections[port]
            return False
        return True

    def _answer(self, port: int) -> list[int]:
        try:
            return frames.led(frames.receive(self._connections[port]))
        except OSError:
            del self._connections[port]
            return []

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
