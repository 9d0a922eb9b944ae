"""ZooKeeper servers as processes of this machine: a single server or an ensemble.

They listen on 127.0.0.1, or on the given hosts, and serve only clients (no admin server, no JMX). The tick is short, so
that a session ends at its timeout and not seconds later. Data is on disk before it is acknowledged, as in production. A
server that is started again in the same directory has all its data.
"""

from __future__ import annotations

import fcntl
import random
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import IO, Final, NamedTuple, Self

from moldau.cli.children import ChildProcess
from moldau.cli.ports import is_free, who_listens
from moldau.cli.zookeeper.java import java_program, zookeeper_jars
from moldau.settings.listeners import MAX_PORT

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 10.0
ASK_TIMEOUT_S: Final = 2.0
BETWEEN_QUESTIONS_S: Final = 0.03
LOG_TAIL_CHARACTERS: Final = 1_500
MAX_SERVERS: Final = 7

TICK_MS: Final = 250
# In ticks: ten seconds to join a leader, five seconds to lag behind it, for any length of the tick.
INIT_LIMIT: Final = 10_000 // TICK_MS
SYNC_LIMIT: Final = 5_000 // TICK_MS
MIN_SESSION_MS: Final = 2 * TICK_MS
MAX_SESSION_MS: Final = 120_000

# Offsets from the client port to the two ports between the servers: 2181 gives 2888 and 3888.
PEER_PORT_OFFSET: Final = 707
ELECTION_PORT_OFFSET: Final = 1_707

# Below the range of ephemeral ports of Linux (from 32768).
SERVER_PORTS: Final = range(20_000, 32_000)

LOG_FILE: Final = "zookeeper.log"
LOCK_FILE: Final = ".lock"

_LOGGING: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""

# A small heap, the serial collector and one compiler: it starts in a second and needs few resources.
_JAVA_OPTIONS: Final = ("-Xms32m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class ZooKeeperFailed(Exception):
    """A server that did not start or died, with the reason as a message for the user."""


class Ports(NamedTuple):
    """The ports of a server: for clients, for the other servers, and for their elections."""

    client: int
    peer: int
    election: int
    host: str = HOST


class ZooKeeperServer:
    """One server. Created by `ZooKeeperEnsemble`, which knows the others.

    `enter` is the prefix of the command that runs it in another network namespace.
    """

    def __init__(self, number: int, directory: Path, ports: Sequence[Ports], enter: Sequence[str] = ()) -> None:
        self.number = number
        self.directory = directory
        self.port = ports[number - 1].client
        self.host = ports[number - 1].host
        self._enter = enter
        self._ports = ports
        self._child: ChildProcess | None = None

    @property
    def child(self) -> ChildProcess:
        assert self._child is not None, "the server was not started"
        return self._child

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.alive

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def launch(self) -> None:
        """Start the process, without waiting until it is ready."""
        java, jars = java_program(), zookeeper_jars()
        if not self._enter:
            for port in self._ports[self.number - 1][:3] if len(self._ports) > 1 else (self.port,):
                _require_free(self.host, port)
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        with (self.directory / LOCK_FILE).open("ab") as lock:
            self._require_alone(lock)
            self._launch(data, java, jars, lock)

    def _require_alone(self, lock: IO[bytes]) -> None:
        """Lock the directory: two servers in it would overwrite each other's data, and ZooKeeper does not prevent that.
        The server holds the lock, not this process, because it may outlive this process for a moment."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ZooKeeperFailed(
                f"a ZooKeeper server is already running in {self.directory}; stop it, or give another directory "
                "(--data)"
            ) from None

    def _launch(self, data: Path, java: str, jars: Path, lock: IO[bytes]) -> None:
        (data / "myid").write_text(f"{self.number}\n")
        configuration = self.directory / "zoo.cfg"
        configuration.write_text(self._configuration())
        logging = self.directory / "log4j2.properties"
        logging.write_text(_LOGGING)
        # Do not set com.sun.management.jmxremote, not even to "false": if the property exists, Java opens a random port
        # for JMX on all interfaces.
        command = [
            *self._enter,
            java,
            *_JAVA_OPTIONS,
            "-Dzookeeper.jmx.log4j.disable=true",
            f"-Dlog4j2.configurationFile={logging.absolute().as_uri()}",
            "-cp",
            f"{jars}/*",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(configuration.absolute()),
        ]
        with (self.directory / LOG_FILE).open("ab") as log:
            self._child = ChildProcess(
                f"zookeeper-{self.number}", command, stdout=log, stderr=log, keeps=[lock.fileno()]
            )

    def _configuration(self) -> str:
        lines = [
            f"tickTime={TICK_MS}",
            f"initLimit={INIT_LIMIT}",
            f"syncLimit={SYNC_LIMIT}",
            f"minSessionTimeout={MIN_SESSION_MS}",
            f"maxSessionTimeout={MAX_SESSION_MS}",
            f"dataDir={self.directory.absolute() / 'data'}",
            f"clientPort={self.port}",
            f"clientPortAddress={self.host}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
            "autopurge.snapRetainCount=3",
            "autopurge.purgeInterval=1",
        ]
        if len(self._ports) > 1:
            lines += [
                f"server.{number}={one.host}:{one.peer}:{one.election}" for number, one in enumerate(self._ports, 1)
            ]
        return "\n".join([*lines, ""])

    def serves(self) -> bool:
        """Whether it answers clients: a single server at once, an ensemble when it has a leader."""
        return b"Mode: " in ask(self.host, self.port, b"srvr")

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.child.kill()

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop(STOP_TIMEOUT_S)

    def log_tail(self) -> str:
        return (self.directory / LOG_FILE).read_text(errors="replace")[-LOG_TAIL_CHARACTERS:].strip()


class ZooKeeperEnsemble:
    """A single server or an ensemble, in one directory. `with` starts and stops it."""

    def __init__(self, directory: Path, *, port: int = 0, servers: int = 1) -> None:
        """`port` is the client port of the first server, the others get the next ones; 0 means any free ports."""
        if not 1 <= servers <= MAX_SERVERS or servers % 2 == 0:
            raise ValueError(f"an ensemble must have an odd number of servers, at most {MAX_SERVERS}, not {servers}")
        ports = _free_ports(servers) if port == 0 else _ports_from(port, servers)
        names = ["zookeeper"] if servers == 1 else [f"zookeeper-{number}" for number in range(1, servers + 1)]
        self.servers = [ZooKeeperServer(number, directory / name, ports) for number, name in enumerate(names, 1)]

    @property
    def connect(self) -> str:
        """The addresses of all servers, in the format of `zookeeper.connect`."""
        return ",".join(server.address for server in self.servers)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Start all servers and wait until they are ready. If one fails, stop all and raise `ZooKeeperFailed`."""
        try:
            for server in self.servers:
                server.launch()
            self.wait_until_serving(timeout_s)
        except BaseException:
            self.stop()
            raise
        return self

    def wait_until_serving(self, timeout_s: float = START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        for server in self.servers:
            while not server.serves():
                if not server.alive:
                    ended = server.child.ending()
                    raise ZooKeeperFailed(f"ZooKeeper on {server.address} ended ({ended}):\n{server.log_tail()}")
                if time.monotonic() > deadline:
                    raise ZooKeeperFailed(
                        f"ZooKeeper on {server.address} is not ready after {timeout_s:g} s:\n{server.log_tail()}"
                    )
                time.sleep(BETWEEN_QUESTIONS_S)

    def has_majority(self) -> bool:
        """Whether more than half of the servers are running."""
        return 2 * sum(server.alive for server in self.servers) > len(self.servers)

    def stop(self) -> None:
        """End all servers at the same time: acknowledged data is on disk."""
        for server in self.servers:
            if server.alive:
                server.child.terminate()
        for server in self.servers:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def ask(host: str, port: int, word: bytes) -> bytes:
    """The answer to a four-letter command; empty if there is none."""
    answer = b""
    try:
        with closing(socket.create_connection((host, port), ASK_TIMEOUT_S)) as connection:
            connection.sendall(word)
            while part := connection.recv(4_096):
                answer += part
    except OSError:
        pass  # not listening yet, or not any more
    return answer


def _ports_from(port: int, servers: int) -> list[Ports]:
    last = port + servers - 1 + (ELECTION_PORT_OFFSET if servers > 1 else 0)
    if not 0 < port <= last <= MAX_PORT:
        among = f"; the last port of the ensemble would be {last}" if servers > 1 else ""
        raise ZooKeeperFailed(f"--port: {port} is not a port from 1 to {MAX_PORT}{among}")
    return [
        Ports(port + index, port + PEER_PORT_OFFSET + index, port + ELECTION_PORT_OFFSET + index)
        for index in range(servers)
    ]


def _free_ports(servers: int) -> list[Ports]:
    """Choose free ports that no other program gets by chance while a server is down, because they are not ephemeral
    ports. The sockets stay open until all are chosen, so that all ports differ."""
    held: list[socket.socket] = []
    for port in random.sample(SERVER_PORTS, len(SERVER_PORTS)):
        try:
            held.append(socket.create_server((HOST, port)))
        except OSError:
            continue
        if len(held) == 3 * servers:
            break
    numbers = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    if len(numbers) < 3 * servers:
        raise ZooKeeperFailed(f"{HOST} has no free ports between {SERVER_PORTS[0]} and {SERVER_PORTS[-1]}")
    return [Ports(*numbers[3 * index : 3 * index + 3]) for index in range(servers)]


def _require_free(host: str, port: int) -> None:
    try:
        if is_free(host, port):
            return
        why = who_listens(host, port)
    except OSError as error:
        why = error.strerror or str(error)
    raise ZooKeeperFailed(f"ZooKeeper cannot listen on {host}:{port}: {why}; or choose another --port") from None
