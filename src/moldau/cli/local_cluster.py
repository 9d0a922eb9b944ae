"""`moldau up --brokers N`: ZooKeeper and several brokers on this machine, as processes, from start to stop.

For development: sessions last a few seconds, so that a killed broker is missed soon, and topics have three replicas of
which two must be in sync. What the processes log is passed on with their name before each line. A broker that dies is
reported, and the others go on; where ZooKeeper dies, all end.
"""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from moldau.cli.banner import ANNOUNCEMENT
from moldau.cli.children import ChildProcess, StopAsked, Stopping, first_to_end
from moldau.cli.output import EXIT_ERROR, Cell, complain, print_table
from moldau.cli.zookeeper.java import NotInstalled
from moldau.cli.zookeeper.server import ZooKeeperEnsemble, ZooKeeperFailed
from moldau.settings.listeners import MAX_PORT

EXIT_OK: Final = 0
HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 60.0
SESSION_TIMEOUT_MS: Final = 4_000
MAX_REPLICAS: Final = 3
MARK_OF_A_BROKER: Final = "meta.properties"


class Wanted(NamedTuple):
    """What was asked for on the command line."""

    data: Path
    brokers: int
    port: int
    zookeeper: str | None
    settings: Sequence[str]
    metrics_port: int | None
    options: Sequence[str]
    """For every broker: how it logs."""


class ClusterFailed(Exception):
    """Why the cluster did not start, for a person."""


def broker_directory(data: Path, number: int) -> Path:
    return data / f"broker-{number}"


def is_cluster(data: Path) -> bool:
    """Whether several brokers have their data there. To one broker alone they would look like partitions."""
    return (broker_directory(data, 0) / MARK_OF_A_BROKER).exists()


def run(wanted: Wanted) -> int:
    """The exit code: 0 after a stop that was asked for and went well, 1 where a process did not start, died or had to
    be killed, 130 after a second Ctrl-C."""
    cluster = LocalCluster(wanted)
    with Stopping() as stopping:
        code = EXIT_OK
        try:
            cluster.start()
            cluster.print_ready()
            code = cluster.watch()
        except StopAsked:
            code = EXIT_ERROR if cluster.lost else EXIT_OK
        except (ClusterFailed, ZooKeeperFailed, NotInstalled) as error:
            complain(str(error))
            code = EXIT_ERROR
        except OSError as error:
            from moldau.cli.serve import describe  # a broker's modules, which are not needed otherwise

            complain(describe(error))
            code = EXIT_ERROR
        finally:
            stopping.begin(cluster.children)
            stopped_well = cluster.stop()
        return code if stopped_well else EXIT_ERROR


class BrokerChild:
    """One broker's process, and the thread that passes on what it says."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        self.command = command
        self.address = ""
        self.heard = threading.Event()
        """It serves, or it has ended: look at `address`."""
        self.child = ChildProcess(
            f"broker {number}", [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._reader = threading.Thread(target=self._read, name=f"broker-{number}-log", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        output = self.child.process.stdout
        assert output is not None
        with output:
            for raw in output:
                line = raw.decode(errors="replace").rstrip("\n")
                if line.startswith(ANNOUNCEMENT):
                    self.address = line.removeprefix(ANNOUNCEMENT)
                    self.heard.set()
                else:
                    print(f"broker-{self.number} | {line}", file=sys.stderr, flush=True)
        self.heard.set()

    def stop(self) -> bool:
        """Whether it went well. One that did not serve yet may end by the signal: it had nothing to hand over."""
        code = self.child.stop(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        if code == -signal.SIGTERM and not self.address:
            return True
        if code:
            complain(f"{self.child.name} did not stop cleanly: {self.child.ending()}")
        return code == 0


class LocalCluster:
    """The processes of one cluster."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._zookeeper: ZooKeeperEnsemble | None = None
        self._brokers: list[BrokerChild] = []
        self.lost = False
        """A process died that nobody had asked to."""

    @property
    def children(self) -> list[ChildProcess]:
        servers = [] if self._zookeeper is None else self._zookeeper.servers
        return [*(broker.child for broker in self._brokers), *(server.child for server in servers)]

    def start(self) -> None:
        """Returns when every broker serves."""
        data = self._wanted.data
        if (data / MARK_OF_A_BROKER).exists():
            raise ClusterFailed(
                f"{data} has the data of one broker alone; name another directory, or make it the first of a cluster: "
                f"move it to {broker_directory(data, 0)}, then see moldau cluster import --help"
            )
        self._require_ports()
        connect = self._wanted.zookeeper
        if connect is None:
            ensemble = ZooKeeperEnsemble(data)
            self._zookeeper = ensemble.start()
            connect = ensemble.connect
        self._brokers = []
        for number in range(self._wanted.brokers):
            self._brokers.append(BrokerChild(number, self._command(number, connect)))
        deadline = time.monotonic() + START_TIMEOUT_S
        for broker in self._brokers:
            broker.heard.wait(max(0.0, deadline - time.monotonic()))
            if not broker.address:
                ended = f"ended ({broker.child.ending()})" if broker.heard.is_set() else "does not serve"
                raise ClusterFailed(f"{broker.child.name} {ended}; what it said is above")

    def _require_ports(self) -> None:
        """Brokers would find out for themselves, seconds later and each in its own words."""
        wanted = self._wanted
        for option, first in (("--port", wanted.port), ("--metrics-port", wanted.metrics_port or 0)):
            for port in range(first, first + wanted.brokers) if first else ():
                if not 0 < port <= MAX_PORT:
                    raise ClusterFailed(f"{option}: {port} is not a port from 1 to {MAX_PORT}")
                try:
                    socket.create_server((HOST, port)).close()
                except OSError:
                    raise ClusterFailed(
                        f"a broker cannot listen on {HOST}:{port}: another program does already; "
                        f"choose other ports with {option} (0: any free ones)"
                    ) from None

    def _command(self, number: int, connect: str) -> list[str]:
        wanted = self._wanted
        replicas = min(wanted.brokers, MAX_REPLICAS)
        in_sync = max(1, replicas - 1)
        settings = [
            f"node.id={number}",
            f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}",
            f"default.replication.factor={replicas}",
            f"min.insync.replicas={in_sync}",
            f"offsets.topic.replication.factor={replicas}",
            f"transaction.state.log.replication.factor={replicas}",
            f"transaction.state.log.min.isr={in_sync}",
            *wanted.settings,
        ]
        command = ["-m", "moldau", "broker", "--announce", "--data", str(broker_directory(wanted.data, number))]
        command += ["--listen", f"{HOST}:{wanted.port + number if wanted.port else 0}", "--zookeeper", connect]
        if wanted.metrics_port is not None:
            port = wanted.metrics_port + number if wanted.metrics_port else 0
            command += ["--metrics-port", str(port)]
        for setting in settings:
            command += ["--set", setting]
        return [*command, *wanted.options]

    def print_ready(self) -> None:
        rows: list[tuple[Cell, ...]] = [
            (
                broker.child.name,
                broker.address,
                broker.child.pid,
                str(broker_directory(self._wanted.data, broker.number)),
            )
            for broker in self._brokers
        ]
        if self._zookeeper is not None:
            server = self._zookeeper.servers[0]
            rows.insert(0, ("zookeeper", server.address, server.child.pid, str(server.directory)))
        print_table(("process", "address", "pid", "data"), rows)
        addresses = ",".join(broker.address for broker in self._brokers)
        print(f"Moldau is ready on {addresses}")
        print(f"  look    moldau cluster describe --bootstrap-server {addresses}")
        print(f"  try     kill -9 {self._brokers[-1].child.pid}, and see the others take over")
        print("  stop    Ctrl-C", flush=True)

    def watch(self) -> int:
        """Reports processes that die, until ZooKeeper or the last broker did; the exit code then."""
        while True:
            alive = [child for child in self.children if child.process.returncode is None]
            gone = first_to_end(alive)
            self.lost = True
            complain(f"{gone.name} (process {gone.pid}) is gone: {gone.ending()}")
            again = [broker for broker in self._brokers if broker.child is gone]
            if not again:
                complain("without ZooKeeper the brokers cannot go on: stopping")
                return EXIT_ERROR
            if not any(broker.child.alive for broker in self._brokers):
                complain("no broker is left: stopping")
                return EXIT_ERROR
            command = shlex.join(part for part in again[0].command[2:] if part != "--announce")
            complain(f"the others go on; start it again with: moldau {command}")

    def stop(self) -> bool:
        """One broker after another, each handing its partitions to those that are left, then ZooKeeper. Whether all
        went well; of those that were gone already nothing is asked."""
        badly = [broker for broker in self._brokers if broker.child.alive and not broker.stop()]
        if self._zookeeper is not None:
            self._zookeeper.stop()
        return not badly
