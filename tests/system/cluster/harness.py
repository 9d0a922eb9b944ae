"""Cluster of processes: ZooKeeper and brokers, with their state as clients see it."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from moldau import Admin
from moldau.cli.security_files import ADMIN, USER
from moldau.testing import allow
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.metadata import MetadataResponse
from tests.support.process import START_TIMEOUT_S, BrokerProcess
from tests.support.raw import TIMEOUT_S, RawConnection
from tests.support.waiting import NETWORK_ERRORS, NotYet, wait_until
from tests.system import calls
from tests.system.cluster.network import Bridge, Loopback
from tests.system.cluster.secured import between_brokers
from tests.system.cluster.secured_cluster import LISTENER, ClusterSecurity
from tests.system.cluster.zookeeper import Ensemble

SESSION_TIMEOUT_S = 2.0
LAG_TIME_S = 2.0
PATIENCE_S = 40.0
"""The time in which a cluster must recover after a fault, also on busy cores."""

ASK_TIMEOUT_S = 2.0
LOG_LINES_SHOWN = 80
_DATED = re.compile(r"\d{4}-\d\d-\d\dT")

SETTINGS: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT_S * 1000)),
    "replica.lag.time.max.ms": str(int(LAG_TIME_S * 1000)),
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "100",
    # Replicas are compared byte by byte, and each replica cleans its log at its own time.
    "log.cleaner.enable": "false",
}


class PartitionSeen(NamedTuple):
    """A partition as one broker describes it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def whole(self) -> bool:
        return self.leader >= 0 and sorted(self.isr) == sorted(self.replicas)


class ClusterBroker(BrokerProcess):
    """One broker of a cluster."""

    # longer than for one broker: all brokers start at the same time on the same cores
    start_timeout_s = 2 * START_TIMEOUT_S

    def __init__(
        self,
        number: int,
        data: Path,
        network: Loopback | Bridge,
        zookeeper: str,
        settings: Mapping[str, str],
        security: ClusterSecurity | None = None,
    ) -> None:
        self.id = number
        self.name = f"broker-{number}"
        self.security = security
        super().__init__(
            data,
            {"node.id": str(number), **settings},
            arguments=["--zookeeper", zookeeper],
            host=network.address(self.name),
            enter=network.enter(self.name),
        )
        self.paused = False

    def command(self) -> list[str]:
        """With a second listener for the other brokers, if the settings name one."""
        listener = self.settings.get("inter.broker.listener.name")
        if listener is None:
            return super().command()
        listeners = f"PLAINTEXT://{self.host}:{self.port},{listener}://{self.host}:0"
        return [*super().command(), "--set", f"listeners={listeners}"]

    def pause(self) -> None:
        """Pause the process by SIGSTOP."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def end(self) -> None:
        """Kill the process, whether it runs, is paused or has ended."""
        if self.alive():
            self.kill()
        self.paused = False

    def listen_arguments(self) -> list[str]:
        if self.security is None:
            return super().listen_arguments()
        listener = f"listeners={LISTENER}://{self.host}:{self.port}"
        return ["--config", str(self.security.broker_config(self.id)), "--set", listener]

    def connect(self, timeout_s: float = TIMEOUT_S) -> RawConnection:
        """A connection that may ask for everything."""
        if self.security is None:
            return RawConnection(self.bootstrap, timeout_s=timeout_s)
        return self.security.connect(self.bootstrap, timeout_s)

    def ask_metadata(self, *topics: str) -> MetadataResponse:
        with self.connect(ASK_TIMEOUT_S) as connection:
            return calls.metadata(connection, *topics)


class ProcessCluster:
    """ZooKeeper and some brokers. Leaving the context ends them all, by a clean stop if the test has passed."""

    def __init__(
        self,
        directory: Path,
        network: Loopback | Bridge | None = None,
        *,
        brokers: int = 3,
        zookeepers: int = 1,
        settings: Mapping[str, str] | None = None,
        secured: bool = False,
        secured_brokers: bool = False,
    ) -> None:
        """With `secured`, all connections use TLS and SCRAM, and clients need rights. With `secured_brokers`, only the
        connections between brokers do, on a listener of their own."""
        self.directory = directory
        self.network = network or Loopback()
        self.security: ClusterSecurity | None = None
        hosts = [self.network.address(f"broker-{number}") for number in range(1, brokers + 1)]
        self.settings = {**SETTINGS, **(settings or {})}
        if secured:
            # The files count brokers from 0, the cluster from 1.
            self.security = ClusterSecurity(directory / "security", [hosts[0], *hosts])
        elif secured_brokers:
            self.settings |= between_brokers(directory / "security", hosts)
        self.zookeeper = Ensemble(directory, self.network, zookeepers)
        self.brokers: dict[int, ClusterBroker] = {}
        for number in range(1, brokers + 1):
            self.add(number)

    def add(self, number: int, data: Path | None = None, settings: Mapping[str, str] | None = None) -> ClusterBroker:
        """Add a broker without starting it. A broker with an id that is already used replaces the old one."""
        place = data or self.directory / f"broker-{number}"
        chosen = {**self.settings, **(settings or {})}
        found = ClusterBroker(number, place, self.network, self.zookeeper.connect, chosen, self.security)
        self.brokers[number] = found
        return found

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def client_settings(self) -> Mapping[str, str]:
        """How the clients under test connect: settings of librdkafka and of Moldau's clients."""
        return {"bootstrap.servers": self.bootstrap, **({} if self.security is None else self.security.client())}

    @property
    def living(self) -> list[ClusterBroker]:
        """The brokers that run and are not paused."""
        return [broker for broker in self.brokers.values() if broker.alive() and not broker.paused]

    def start(self) -> None:
        """Start all brokers that do not run, at the same time."""
        starting = [broker for broker in self.brokers.values() if not broker.alive()]
        for broker in starting:
            broker.launch()
        for broker in starting:
            broker.wait_ready()

    def stop(self) -> None:
        """Stop all brokers at the same time, by SIGTERM."""
        stopping = [broker for broker in self.brokers.values() if broker.alive()]
        for broker in stopping:
            broker.ask_to_stop()
        for broker in stopping:
            code = broker.wait_ended()
            assert code == 0, f"{broker.name} ended with {code}:\n{broker.log}"

    def erase(self, number: int) -> None:
        """Delete all data of a broker that is not running, as if it got a new disk."""
        broker = self.brokers[number]
        assert not broker.alive()
        shutil.rmtree(broker.data)

    # -- topics ----------------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int, factor: int = 3, configs: dict[str, str] | None = None
    ) -> dict[int, PartitionSeen]:
        """Create a topic and return when all brokers know it and all its replicas are in sync."""
        with self.living[0].connect() as connection:
            calls.create_topic(connection, name, partitions, configs, factor)
        return self.wait_whole([name])[name]

    def allow_clients(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Let the clients of a secured cluster use topics and groups; return when every broker knows it. Before that,
        every broker must refuse them."""
        if self.security is None:
            return
        rules = [allow(USER, operation, topic=topic) for topic in topics for operation in ("read", "write")]
        rules += [allow(USER, "read", group=group) for group in groups]
        assert self._seen_by_clients(topics) == [{} for _ in self.brokers]
        with Admin({**self.client_settings, **self.security.client(ADMIN)}) as admin:
            admin.create_acls(rules)
        wait_until(
            lambda: all(sorted(one) == sorted(topics) for one in self._seen_by_clients(topics)),
            "every broker allows the clients their topics",
            PATIENCE_S,
        )

    def _seen_by_clients(self, topics: Sequence[str]) -> list[dict[str, dict[int, PartitionSeen]]]:
        assert self.security is not None
        found = []
        for broker in self.brokers.values():
            with self.security.connect(broker.bootstrap, TIMEOUT_S, USER) as connection:
                found.append(seen(calls.metadata(connection, *topics)))
        return found

    def describe(self, topic: str) -> dict[int, PartitionSeen]:
        """The topic as the first broker that answers describes it."""
        return seen(self.living[0].ask_metadata(topic)).get(topic, {})

    def known(self) -> dict[str, dict[int, PartitionSeen]]:
        """All topics, as the first broker that answers describes them."""
        return seen(self.living[0].ask_metadata())

    def leader_of(self, topic: str, index: int) -> ClusterBroker:
        def look() -> ClusterBroker:
            leader = self.describe(topic)[index].leader
            if leader not in self.brokers:
                raise NotYet(f"{topic}-{index} has no leader")
            return self.brokers[leader]

        leader: ClusterBroker = wait_until(look, "a leader", PATIENCE_S, retry_on=NETWORK_ERRORS)
        return leader

    @property
    def controller_id(self) -> int:
        return self.living[0].ask_metadata("").controller_id

    def wait_whole(
        self, topics: Iterable[str] | None = None, within_s: float = PATIENCE_S
    ) -> dict[str, dict[int, PartitionSeen]]:
        """Return when all living brokers agree on these topics (or on all topics) and every replica is in sync."""
        wanted = None if topics is None else list(topics)

        def look() -> list[dict[str, dict[int, PartitionSeen]]]:
            told = [seen(broker.ask_metadata(*(wanted or ()))) for broker in self.living]
            for name in wanted or ():
                if any(name not in one for one in told):
                    raise NotYet(f"{name} is not known everywhere")
            for broker, one in zip(self.living, told, strict=True):
                if one != told[0]:
                    raise NotYet(f"{broker.name} says {one}, another {told[0]}")
                for name, partitions in one.items():
                    lacking = {index: state for index, state in partitions.items() if not state.whole}
                    if lacking:
                        raise NotYet(f"{broker.name} says of {name}: {lacking}")
            return told

        answers = wait_until(look, "all replicas are in sync", within_s, retry_on=NETWORK_ERRORS)
        return dict(answers[0])

    # -- helpers ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.zookeeper.__enter__()
        try:
            self.start()
        except BaseException:
            self._end(show=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.stop()
        finally:
            self._end(show=error is not None)

    def _end(self, *, show: bool) -> None:
        for broker in self.brokers.values():
            broker.end()
            if show:
                print(f"--- {broker.name}", *broker.log.splitlines()[-LOG_LINES_SHOWN:], sep="\n", file=sys.stderr)
        self.zookeeper.kill()


def seen(metadata: MetadataResponse) -> dict[str, dict[int, PartitionSeen]]:
    """All topics in the response that have no error."""
    return {
        topic.name: {
            one.partition_index: PartitionSeen(
                one.leader_id, one.leader_epoch, tuple(one.replica_nodes), tuple(one.isr_nodes)
            )
            for one in topic.partitions
        }
        for topic in metadata.topics or ()
        if topic.name is not None and topic.error_code == ErrorCode.NONE
    }


def accidents(brokers: Iterable[BrokerProcess]) -> list[str]:
    """Internal errors in the brokers' logs, each with its traceback."""
    found: list[str] = []
    for broker in brokers:
        inside = False
        for line in broker.log.splitlines():
            if _DATED.match(line):
                inside = "handler" in line or " CRITICAL " in line
                if inside:
                    found.append(line)
            elif line.startswith("Traceback") and not inside:
                inside = True
                found.append(line)
            elif inside:
                found[-1] += f"\n{line}"
    return found
