"""What the benchmarks of a cluster share: ZooKeeper and brokers as processes, and a watch on who leads what.

All of them run on this one machine and share its cores, so times here are those of a crowded machine.
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
"""Between two looks at all partitions: thousands of them, told by three brokers, are work for everybody."""


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
        """ZooKeeper, then all brokers at once; returns when they have begun."""
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
        """Every partition whole and led by its first replica, so that each broker leads as many; the leaders."""
        wait_whole(self, topic, partitions)
        with Admin(bootstrap_servers=self.addresses) as admin:
            admin.elect_leaders()
        return wait_whole(self, topic, partitions)

    def cpu_seconds(self) -> float:
        """Of all brokers together; ZooKeeper is not counted."""
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
    """A cluster that serves, on a directory that is gone after it."""
    with context.scratch("cluster") as directory, Cluster(directory, settings) as cluster:
        cluster.start()
        wait_until(lambda: live_brokers(cluster) == BROKERS, READY_TIMEOUT_S)
        yield cluster


def live_brokers(cluster: Cluster) -> int:
    """The least number of brokers that any broker knows of."""
    return min(len(described(broker).brokers) for broker in cluster.brokers.values())


def described(broker: Broker) -> MetadataResponse:
    """All brokers and topics as this one knows them; nothing while it does not answer."""
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
    """Returns when every broker knows a leader for every partition, and all replicas in sync; the leaders."""
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
            raise RuntimeError(f"not so after {timeout_s} s")
        time.sleep(every_s)


class LeaderWatch:
    """Asks some brokers again and again which of some partitions they lead, and notes when each was last led.

    Every broker is asked for all of them: what counts is whether anybody leads, not who is thought to. A gap is counted
    from when the last question was asked that somebody answered as leader, to when the next such answer came: it is
    never longer than that, and without any gap as long as a question and its answer take.
    """

    def __init__(self, brokers: Iterable[Broker], topic: str, partitions: Sequence[int]) -> None:
        self._question = frames.latest_offsets(topic, partitions)
        self._connections = {broker.port: frames.connect(HOST, broker.port) for broker in brokers}
        self.last_led = dict.fromkeys(partitions, time.perf_counter())
        self.longest_gap_s = dict.fromkeys(partitions, 0.0)
        self.longest_round_s = 0.0

    def begin(self) -> None:
        """Forgets what was: gaps count from now on."""
        self.longest_gap_s = dict.fromkeys(self.longest_gap_s, 0.0)
        self.longest_round_s = 0.0

    def look(self) -> set[int]:
        """One round: the partitions that somebody leads."""
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
