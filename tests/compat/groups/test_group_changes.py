"""Groups of real consumers that join, leave, are killed and paused while records arrive: none is skipped.

Each consumer is a process. After each change the group must continue within its session and rebalance time-outs. At the
end every written record was processed at least once.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

WORKER = Path(__file__).with_name("worker.py")
TOPIC = "numbers"
PARTITIONS = 10
GROUP = "readers"
SETTLE_S = 20.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "3",
}


class Writer:
    """Writes numbered records continuously."""

    def __init__(self, bootstrap: str) -> None:
        self.written: set[tuple[int, int]] = set()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.005):
            for _ in range(5):
                self._producer.produce(TOPIC, str(number), partition=number % PARTITIONS, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.written.add((message.partition(), message.offset()))  # type: ignore[attr-defined]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(30) == 0


class Worker:
    """A consumer process, and the records that it has processed."""

    def __init__(self, client: str, bootstrap: str, *options: str) -> None:
        self.client = client
        self.processed: list[tuple[int, int]] = []
        self.errors = b""
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), client, bootstrap, GROUP, TOPIC, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._threads = [threading.Thread(target=one) for one in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                partition, offset = map(int, line.split())
                self.processed.append((partition, offset))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait(SETTLE_S)
        for thread in self._threads:
            thread.join()
        assert self.process.stdout is not None and self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


class Readers:
    """All consumers of the group."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.workers: list[Worker] = []
        self.former: list[Worker] = []

    def start(self, client: str, *options: str) -> Worker:
        worker = Worker(client, self.bootstrap, *options)
        self.workers.append(worker)
        return worker

    def end(self, worker: Worker, how: signal.Signals) -> None:
        worker.end(how)
        self.workers.remove(worker)
        self.former.append(worker)

    def processed(self) -> set[tuple[int, int]]:
        return {one for worker in (*self.workers, *self.former) for one in list(worker.processed)}

    def all_read_on(self) -> None:
        """Every running consumer processes a new record, and together they read every partition."""
        before = [(worker, len(worker.processed)) for worker in self.workers]

        def went_on() -> bool:
            new = [worker.processed[count:] for worker, count in before]
            return all(new) and {partition for some in new for partition, _ in some} == set(range(PARTITIONS))

        wait_until(went_on, f"all of {[worker.client for worker in self.workers]} read on: {self.errors()}")

    def errors(self) -> str:
        return "\n".join(worker.errors.decode()[-500:] for worker in (*self.workers, *self.former))

    def close(self) -> None:
        for worker in list(self.workers):
            worker.process.send_signal(signal.SIGCONT)
            worker.end()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", SETTINGS) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        yield process


@pytest.fixture
def readers(broker: BrokerProcess) -> Iterator[Readers]:
    group = Readers(broker.bootstrap)
    yield group
    group.close()


@pytest.fixture
def writer(broker: BrokerProcess, readers: Readers) -> Iterator[Writer]:
    del readers  # stopped after the writer
    one = Writer(broker.bootstrap)
    yield one
    one.stop()


def all_is_processed(readers: Readers, writer: Writer) -> None:
    writer.stop()
    wait_until(lambda: writer.written <= readers.processed(), f"every record is processed: {readers.errors()}")


MIXED = ("confluent-kafka", "kafka-python", "aiokafka")
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "three clients, classic": (MIXED, ()),
    "cooperative-sticky": (("confluent-kafka",) * 3, ("partition.assignment.strategy=cooperative-sticky",)),
    "the new protocol": (("confluent-kafka",) * 3, ("group.protocol=consumer",)),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", KINDS)
def test_no_record_is_skipped_whatever_happens_to_consumers(
    kind: str,
    readers: Readers,
    writer: Writer,
    broker: BrokerProcess,
    count: Callable[[int, int], int],
    soak: bool,
    seed: int,
) -> None:
    clients, options = KINDS[kind]
    chance = random.Random(seed)
    for client in clients:
        readers.start(client, *options)
    readers.all_read_on()
    for _ in range(count(1, 60)):
        victim = chance.choice(readers.workers)
        readers.end(victim, signal.SIGKILL)
        readers.all_read_on()
        readers.start(victim.client, *options)
        readers.all_read_on()
        if soak or clients == MIXED:
            paused = chance.choice(readers.workers)
            paused.process.send_signal(signal.SIGSTOP)
            readers.workers.remove(paused)
            readers.all_read_on()
            readers.workers.append(paused)
            paused.process.send_signal(signal.SIGCONT)
            readers.all_read_on()
        readers.end(chance.choice(readers.workers), signal.SIGTERM)
        readers.all_read_on()
        readers.start(chance.choice(clients), *options)
    all_is_processed(readers, writer)
    assert "Traceback" not in broker.log


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_group_continues_after_its_broker_was_restarted(
    kind: str, how: str, readers: Readers, broker: BrokerProcess, soak: bool
) -> None:
    if not soak and (kind, how) not in {("three clients, classic", "kill"), ("the new protocol", "stop")}:
        pytest.skip("with make soak")
    clients, options = KINDS[kind]
    writer = Writer(broker.bootstrap)
    for client in clients:
        readers.start(client, *options)
    readers.all_read_on()
    writer.stop()
    broker.stop() if how == "stop" else broker.kill()
    broker.start()
    second = Writer(broker.bootstrap)
    second.written |= writer.written
    readers.all_read_on()
    all_is_processed(readers, second)


@pytest.mark.timeout(120)
def test_a_static_member_that_restarts_within_its_session_moves_no_partition(readers: Readers, writer: Writer) -> None:
    first = readers.start("confluent-kafka", "group.instance.id=one", "session.timeout.ms=10000")
    second = readers.start("confluent-kafka", "group.instance.id=two", "session.timeout.ms=10000")
    readers.all_read_on()
    shares: list[set[int]] = []

    def divided() -> bool:
        shares[:] = [{partition for partition, _ in worker.processed[-200:]} for worker in (first, second)]
        return not shares[0] & shares[1] and shares[0] | shares[1] == set(range(PARTITIONS))

    wait_until(divided, "each partition is read by one of them")
    readers.end(second, signal.SIGKILL)
    again = readers.start("confluent-kafka", "group.instance.id=two", "session.timeout.ms=10000")
    readers.all_read_on()
    assert {partition for partition, _ in again.processed} == shares[1]
    assert {partition for partition, _ in first.processed[-50:]} <= shares[0]
    all_is_processed(readers, writer)
