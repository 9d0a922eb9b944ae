"""Command `moldau up --brokers N`: runs ZooKeeper and several brokers as processes on this machine.

For development: ZooKeeper sessions last a few seconds, so that a killed broker is noticed soon, and topics have three
replicas, of which two must be in sync. The log lines of the processes are printed with their name as a prefix. If a
broker dies, the command reports it and the others continue. If ZooKeeper dies, all processes end.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from moldau.cli.banner import ANNOUNCEMENT, things_to_try
from moldau.cli.children import ChildProcess, StopAsked, Stopping, first_to_end
from moldau.cli.output import EXIT_ERROR, Cell, complain, print_table
from moldau.cli.ports import find_listener, is_free, who_listens
from moldau.cli.registry_child import RegistryChild
from moldau.cli.security_files import ADMIN, broker_settings, client_settings
from moldau.cli.zookeeper.java import NotInstalled
from moldau.cli.zookeeper.server import ZooKeeperEnsemble, ZooKeeperFailed
from moldau.settings.broker import BROKER
from moldau.settings.listeners import MAX_PORT, WILDCARDS
from moldau.settings.setting import SettingError
from moldau.settings.sources import read_environment

EXIT_OK: Final = 0
LOCAL: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 60.0
SESSION_TIMEOUT_MS: Final = 4_000
MAX_REPLICAS: Final = 3
ZOOKEEPER_PORTS_TRIED: Final = 100
MARK_OF_A_BROKER: Final = "meta.properties"
SECURE_LISTENER: Final = "SASL_SSL"
"""The listener of `--secure`; the settings that `moldau security init` writes are for this name."""


FOR_DEVELOPMENT: Final = {"group.initial.rebalance.delay.ms": "0"}
"""Settings of every broker of `moldau up`, unless the user sets them: the first member of a group need not wait."""


class LocalClusterOptions(NamedTuple):
    """The options of the command line."""

    data: Path
    brokers: int
    port: int
    zookeeper: str | None
    settings: Sequence[str]
    metrics_port: int | None
    options: Sequence[str]
    """The logging options of every broker."""
    host: str = LOCAL
    """The address that the brokers listen on. ZooKeeper is always local."""
    security: Path | None = None
    """The directory of the security files, with --secure."""
    registry: RegistryChild | None = None
    """The schema registry, with --registry."""


class ClusterFailed(Exception):
    """The reason why the cluster did not start, as a message for the user."""


def broker_directory(data: Path, number: int) -> Path:
    return data / f"broker-{number}"


def is_cluster(data: Path) -> bool:
    """Whether the directory has the data of several brokers. A single broker would mistake their directories for
    partitions."""
    return (broker_directory(data, 0) / MARK_OF_A_BROKER).exists()


def run(wanted: LocalClusterOptions) -> int:
    """Run the cluster and return the exit code.

    0 after a requested stop without problems; 1 if a process did not start, died or had to be killed; 130 after a
    second Ctrl-C.
    """
    cluster = LocalCluster(wanted)
    with Stopping() as stopping:
        code = EXIT_OK
        try:
            cluster.start()
            cluster.print_ready()
            cluster.start_registry()
            code = cluster.watch()
        except StopAsked:
            code = EXIT_ERROR if cluster.lost else EXIT_OK
        except (ClusterFailed, ZooKeeperFailed, NotInstalled, SettingError) as error:
            complain(str(error))
            code = EXIT_ERROR
        except OSError as error:
            from moldau.cli.serve import describe  # imports the modules of a broker, which are not needed otherwise

            complain(describe(error))
            code = EXIT_ERROR
        finally:
            stopping.begin(cluster.children)
            stopped_well = cluster.stop()
        return code if stopped_well else EXIT_ERROR


class BrokerChild:
    """The process of one broker, and the thread that forwards its output."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        self.command = command
        self.address = ""
        self.heard = threading.Event()
        """Set when the broker is ready or has ended; `address` tells which."""
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
        """Stop the broker; return whether it stopped cleanly. A broker that was not ready yet may be ended by the
        signal: it had no partitions to hand over."""
        code = self.child.stop(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        if code == -signal.SIGTERM and not self.address:
            return True
        if code:
            complain(f"{self.child.name} did not stop cleanly: {self.child.ending()}")
        return code == 0


class LocalCluster:
    """The processes of one cluster."""

    def __init__(self, wanted: LocalClusterOptions) -> None:
        self._wanted = wanted
        self._zookeeper: ZooKeeperEnsemble | None = None
        self._brokers: list[BrokerChild] = []
        self._notes: list[str] = []
        """Messages for the banner about unexpected choices."""
        self.lost = False
        """Whether a process died unexpectedly."""

    @property
    def children(self) -> list[ChildProcess]:
        servers = [] if self._zookeeper is None else self._zookeeper.servers
        registry = [] if self._wanted.registry is None else self._wanted.registry.children
        return [*registry, *(broker.child for broker in self._brokers), *(server.child for server in servers)]

    def start(self) -> None:
        """Start all processes. Returns when every broker is ready."""
        data = self._wanted.data
        if (data / MARK_OF_A_BROKER).exists():
            raise ClusterFailed(
                f"{data} has the data of a single broker; use another directory, or make it the first broker of a "
                f"cluster: move it to {broker_directory(data, 0)}, then see moldau cluster import --help"
            )
        self._require_ports()
        connect = self._wanted.zookeeper
        if connect is None:
            ensemble = ZooKeeperEnsemble(data, port=self._zookeeper_port())
            self._zookeeper = ensemble.start()
            connect = ensemble.connect
        self._brokers = []
        for number in range(self._wanted.brokers):
            self._brokers.append(BrokerChild(number, self._command(number, connect)))
        deadline = time.monotonic() + START_TIMEOUT_S
        for broker in self._brokers:
            broker.heard.wait(max(0.0, deadline - time.monotonic()))
            if not broker.address:
                ended = f"ended ({broker.child.ending()})" if broker.heard.is_set() else "is not ready"
                raise ClusterFailed(f"{broker.child.name} {ended}; see its messages above")

    def _require_ports(self) -> None:
        """Check the ports first: the brokers would fail some seconds later, each with its own message."""
        if self._wanted.host in WILDCARDS:
            raise ClusterFailed(
                f"--listen: clients and other brokers cannot connect to {self._wanted.host}; give an address of this "
                "machine"
            )
        for option, ports in self._ports().items():
            host = self._wanted.host if option == "--port" else LOCAL
            for port in ports:
                if not 0 < port <= MAX_PORT:
                    raise ClusterFailed(f"{option}: {port} is not a port from 1 to {MAX_PORT}")
                if not is_free(host, port):
                    raise ClusterFailed(
                        f"a broker cannot listen on {host}:{port}: {who_listens(host, port)}; "
                        f"or choose other ports with {option} (0: any free ones)"
                    )

    def _ports(self) -> dict[str, range]:
        """The configured ports of the brokers, by option."""
        firsts = {"--port": self._wanted.port, "--metrics-port": self._wanted.metrics_port or 0}
        return {option: range(first, first + self._wanted.brokers) for option, first in firsts.items() if first}

    def _zookeeper_port(self) -> int:
        """The first free port after the brokers' ports; 0 (any free port) if the brokers use any free ports."""
        told = self._ports()
        if "--port" not in told:
            return 0
        first = told["--port"].stop
        tried = range(first, min(first + ZOOKEEPER_PORTS_TRIED, MAX_PORT + 1))
        metrics = told.get("--metrics-port", range(0))
        for port in tried:
            if port not in metrics and is_free(LOCAL, port):
                if port != first:
                    self._notes.append(f"ZooKeeper listens on port {port}, because {first} is in use")
                return port
        raise ClusterFailed(f"no port from {first} to {tried.stop - 1} is free for ZooKeeper; choose a lower --port")

    def _command(self, number: int, connect: str) -> list[str]:
        wanted = self._wanted
        replicas = min(wanted.brokers, MAX_REPLICAS)
        in_sync = max(1, replicas - 1)
        defaults = {
            "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            **FOR_DEVELOPMENT,
        }
        given = read_environment(os.environ, BROKER)  # the brokers read it as well, but --set would override it
        settings = [f"{name}={value}" for name, value in defaults.items() if name not in given]
        settings = [f"node.id={number}", *settings, *wanted.settings]
        command = ["-m", "moldau", "broker", "--announce", "--data", str(broker_directory(wanted.data, number))]
        host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
        address = f"{host}:{wanted.port + number if wanted.port else 0}"
        if wanted.security is None:
            command += ["--listen", address]
        else:
            command += ["--config", str(broker_settings(wanted.security, number))]
            settings.insert(0, f"listeners={SECURE_LISTENER}://{address}")
        command += ["--zookeeper", connect]
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
        for note in self._notes:
            print(f"  note    {note}")
        security = self._wanted.security
        config = None if security is None else client_settings(security, ADMIN)
        for line in things_to_try(addresses, config):
            print(line)
        login = "" if config is None else f" --command-config {shlex.quote(str(config))}"
        print(f"  show    moldau cluster describe -b {addresses}{login}")
        print(f"  try     kill -9 {self._brokers[-1].child.pid}, and watch the others take over")
        print("  stop    Ctrl-C", flush=True)

    def start_registry(self) -> None:
        """Start the registry, if one is wanted. It prints its address when it is ready."""
        if self._wanted.registry is not None:
            self._wanted.registry.start(",".join(broker.address for broker in self._brokers))

    def watch(self) -> int:
        """Report processes that die, until ZooKeeper or the last broker has died. Return the exit code."""
        while True:
            alive = [child for child in self.children if child.process.returncode is None]
            gone = first_to_end(alive)
            self.lost = True
            complain(f"{gone.name} (process {gone.pid}) has died: {gone.ending()}")
            if self._wanted.registry is not None and gone in self._wanted.registry.children:
                continue
            again = [broker for broker in self._brokers if broker.child is gone]
            if not again:
                complain("the brokers need ZooKeeper: stopping")
                return EXIT_ERROR
            if not any(broker.child.alive for broker in self._brokers):
                complain("no broker is left: stopping")
                return EXIT_ERROR
            command = shlex.join(part for part in again[0].command[2:] if part != "--announce")
            complain(f"the other brokers continue; start it again with: moldau {command}")

    def stop(self) -> bool:
        """Stop one broker after another, each of which hands over its partitions, then ZooKeeper. Return whether all
        stopped cleanly; processes that had already died do not count."""
        for broker in self._brokers:
            if broker.address and not broker.child.alive:
                self._tell_of_successor(broker)
        if self._wanted.registry is not None:
            self._wanted.registry.stop()
        badly = [broker for broker in self._brokers if broker.child.alive and not broker.stop()]
        if self._zookeeper is not None:
            self._zookeeper.stop()
        return not badly

    def _tell_of_successor(self, broker: BrokerChild) -> None:
        """Report a broker that died and was started again by hand: it is not stopped and keeps its port."""
        host, _, port = broker.address.rpartition(":")
        found = find_listener(host.strip("[]"), int(port))
        if found is not None:
            complain(f"{broker.child.name} was started again by hand and is not stopped: {found}")
