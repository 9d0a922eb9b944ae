"""`moldau up --brokers N`: processes on one machine start, report, stop in order, and leave nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import psutil
import pytest

from moldau import Admin, Consumer, NewTopic, Producer
from moldau.client.errors import UnknownTopicOrPartition
from moldau.cluster.store import Create, SessionEvent
from moldau.cluster.zookeeper_store import ZookeeperStore
from tests.support.waiting import NETWORK_ERRORS, wait_until

pytestmark = pytest.mark.needs_java

START_TIMEOUT_S = 90.0
END_TIMEOUT_S = 60.0
RECORDS = 50


class Command:
    """A command that runs until SIGINT, with its output and the processes that it started."""

    def __init__(self, *arguments: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moldau", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.complaints: list[str] = []
        self._complained = threading.Condition()
        self._reader = threading.Thread(target=self._read_complaints, daemon=True)
        self._reader.start()
        self.table: dict[str, list[str]] = {}
        self.children: list[psutil.Process] = []
        self.banner: list[str] = []

    def ready(self) -> Self:
        """Read the table of processes and the line that says that all of them serve."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if " is ready on " in line:
                self.addresses = line.split()[-1]
                break
            *name, address, pid, data = line.split()
            if pid.isdigit():
                self.table[" ".join(name)] = [address, pid, data]
        else:
            raise AssertionError(f"the command ended before it was ready: {self.complaints}")
        for line in self.process.stdout:
            self.banner.append(line.strip())
            if line.startswith("  stop"):
                break
        self.children = psutil.Process(self.process.pid).children(recursive=True)
        assert sorted(int(pid) for _, pid, _ in self.table.values()) == sorted(one.pid for one in self.children)
        return self

    def _read_complaints(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                with self._complained:
                    self.complaints.append(line)
                    self._complained.notify_all()

    def complained(self, text: str) -> str:
        """Wait for a line on standard error that contains this text."""

        def found() -> str | None:
            return next((line for line in self.complaints if text in line), None)

        with self._complained:
            assert self._complained.wait_for(lambda: found() is not None, END_TIMEOUT_S), self.complaints
        line = found()
        assert line is not None
        return line

    def pid(self, name: str) -> int:
        return int(self.table[name][1])

    def listening(self) -> dict[str, set[int]]:
        """The ports on which the command and its processes listen, by address."""
        found: dict[str, set[int]] = {}
        for process in (psutil.Process(self.process.pid), *self.children):
            for one in process.net_connections("inet"):
                if one.status == psutil.CONN_LISTEN:
                    found.setdefault(one.laddr.ip.removeprefix("::ffff:"), set()).add(one.laddr.port)
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Wait for the end and return the exit code. Fails if a process that it started still runs."""
        code = self.process.wait(END_TIMEOUT_S)
        self._reader.join(END_TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        _, left = psutil.wait_procs(self.children, END_TIMEOUT_S)
        assert not left
        return code


@pytest.fixture
def moldau() -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def start(*arguments: object) -> Command:
        started.append(Command(*map(str, arguments)))
        return started[-1]

    yield start
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
            command.end()


def replicas_of(admin: Admin, topic: str) -> list[list[int]]:
    """The replicas of each partition. Any broker is asked, and may hear of the topic later than the one that created
    it."""

    def look() -> list[list[int]]:
        return [sorted(one.replicas) for one in admin.describe_topics([topic])[topic].partitions]

    retry_on = (UnknownTopicOrPartition, *NETWORK_ERRORS)
    found: list[list[int]] = wait_until(look, f"the partitions of {topic}", END_TIMEOUT_S, retry_on=retry_on)
    return found


def test_a_cluster_starts_stops_and_starts_again_with_everything(
    moldau: Callable[..., Command], tmp_path: Path
) -> None:
    options = ("up", "--brokers", 3, "--port", 0, "--data", tmp_path / "cluster")
    first = moldau(*options).ready()
    assert list(first.table) == ["zookeeper", "broker 0", "broker 1", "broker 2"]
    with Admin(bootstrap_servers=first.addresses) as admin:
        admin.create_topics([NewTopic("orders", partitions=3)])
        assert replicas_of(admin, "orders") == [[0, 1, 2]] * 3
    with Producer(bootstrap_servers=first.addresses) as producer:
        for number in range(RECORDS):
            producer.send("orders", b"%d" % number, partition=number % 3)
        producer.flush(30)
    with Consumer("orders", bootstrap_servers=first.addresses, group_id="g", auto_offset_reset="earliest") as consumer:
        assert len(read(consumer, RECORDS)) == RECORDS
        consumer.commit()
    assert first.stop() == 0, first.complaints
    assert first.complaints == []

    second = moldau(*options).ready()
    with Admin(bootstrap_servers=second.addresses) as admin:
        offsets = admin.list_group_offsets("g")
        assert sum(one.offset for one in offsets.values()) == RECORDS
        internal = admin.describe_topics(["__consumer_offsets"])["__consumer_offsets"]
        assert internal.replication_factor == 3
        assert admin.describe_cluster().brokers[0].id == 0

    # The command reports a broker that dies, the others continue, and the exit code shows the failure.
    os.kill(second.pid("broker 1"), signal.SIGKILL)
    line = second.complained("has died")
    assert f"broker 1 (process {second.pid('broker 1')}) has died: killed by signal 9" in line
    again = second.complained("start it again with: moldau broker ")
    assert f"--data {tmp_path / 'cluster' / 'broker-1'} " in again
    with Producer(bootstrap_servers=second.addresses) as producer:
        producer.send("orders", b"after a death").result(60)

    # A user starts a broker by hand in its place. The command does not stop that broker, but names it.
    host, _, port = second.table["broker 1"][0].rpartition(":")
    with socket.create_server((host, int(port))):
        assert second.stop(signal.SIGINT) == 1
    by_hand = second.complained("broker 1 was started again by hand and is not stopped")
    assert f"end it with: kill {os.getpid()}" in by_hand


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []

    def enough() -> bool:
        found.extend(record.value for record in consumer.poll(1.0))
        return len(found) >= count

    wait_until(enough, f"{count} records", END_TIMEOUT_S)
    return found


def free_ports(count: int) -> int:
    """The first of so many consecutive free ports, outside Linux's range for client ports."""
    starts = range(20_000, 32_000, count)
    for first in random.sample(starts, len(starts)):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise AssertionError(f"no {count} free ports")


def test_nothing_listens_beyond_this_machine_and_zookeeper_has_the_next_free_port_after_the_brokers(
    moldau: Callable[..., Command], tmp_path: Path
) -> None:
    first = free_ports(6)
    # Brokers use two ports, metrics the third and fourth, another program the fifth.
    with socket.create_server(("127.0.0.1", first + 4)):
        cluster = moldau(
            *("up", "--brokers", 2, "--port", first, "--metrics-port", first + 2, "--data", tmp_path / "cluster")
        ).ready()
        assert cluster.table["zookeeper"][0] == f"127.0.0.1:{first + 5}"
        assert f"note    ZooKeeper listens on port {first + 5}, because {first + 2} is in use" in cluster.banner
        assert cluster.listening() == {"127.0.0.1": {first, first + 1, first + 2, first + 3, first + 5}}
        assert cluster.stop() == 0, cluster.complaints


def test_nothing_outlives_a_command_that_is_killed_itself(moldau: Callable[..., Command], tmp_path: Path) -> None:
    server = moldau("zookeeper", "--port", 0, "--data", tmp_path / "zookeeper").ready()
    assert len(server.children) == 1
    server.process.kill()
    assert server.end() == -signal.SIGKILL


def test_without_zookeeper_the_cluster_ends_and_says_why(moldau: Callable[..., Command], tmp_path: Path) -> None:
    cluster = moldau("up", "--brokers", 2, "--port", 0, "--data", tmp_path / "cluster").ready()
    os.kill(cluster.pid("zookeeper"), signal.SIGKILL)
    assert cluster.end() == 1
    assert any("the brokers need ZooKeeper" in line for line in cluster.complaints)


def test_three_zookeepers_continue_without_one_and_sessions_move_to_the_others(
    moldau: Callable[..., Command], tmp_path: Path
) -> None:
    ensemble = moldau("zookeeper", "--servers", 3, "--port", 0, "--data", tmp_path / "zookeeper").ready()
    assert ensemble.addresses == ",".join(address for address, _, _ in ensemble.table.values())
    assert len(ensemble.children) == 3
    assert list(ensemble.listening()) == ["127.0.0.1"]

    async def scenario() -> None:
        store = await ZookeeperStore.open(ensemble.addresses, session_timeout_s=10, connection_timeout_s=30)
        await store.commit([Create("/e", b"mine", ephemeral=True)])
        told: asyncio.Queue[SessionEvent] = asyncio.Queue()
        store.on_session(told.put_nowait)
        connected = "{}:{}".format(*store._session._connection._socket.getpeername())
        (pid,) = (pid for address, pid, _ in ensemble.table.values() if address == connected)
        os.kill(int(pid), signal.SIGKILL)
        assert [await told.get(), await told.get()] == [SessionEvent.SUSPENDED, SessionEvent.RESUMED]
        node = await store.get("/e")
        assert node is not None
        assert (node.value, node.ephemeral) == (b"mine", True)
        await store.close()

    asyncio.run(asyncio.wait_for(scenario(), END_TIMEOUT_S))
    assert "has died: killed by signal 9" in ensemble.complained("has died")
    assert ensemble.stop(signal.SIGINT) == 1


def test_data_of_a_single_broker_and_of_a_cluster_are_not_confused(
    moldau: Callable[..., Command], tmp_path: Path
) -> None:
    alone, several = tmp_path / "alone", tmp_path / "several"
    for marked in (alone, several / "broker-0"):
        marked.mkdir(parents=True)
        (marked / "meta.properties").write_text("version=1\n")
    refused = moldau("up", "--brokers", 3, "--data", alone)
    assert refused.end() == 1
    assert "has the data of a single broker" in refused.complaints[0]
    refused = moldau("up", "--data", several)
    assert refused.end() == 2
    assert "has the data of several brokers" in refused.complaints[0]


def test_a_port_in_use_is_reported_at_once(moldau: Callable[..., Command], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = moldau("zookeeper", "--port", port, "--data", tmp_path / "zookeeper")
        assert refused.end() == 1
    assert f"cannot listen on 127.0.0.1:{port}: process {os.getpid()} (" in refused.complaints[0]
