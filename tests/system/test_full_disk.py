"""Full disk: only writes are refused, and they succeed again when there is room."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from moldau.wire.errors import ErrorCode
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until
from tests.system import calls
from tests.system.in_process_broker import InProcessBroker, Machine
from tests.system.ledger import Ledger

TOPIC = "orders"
PARTITIONS = 2
BATCH = 10
PADDING = 1_000
MOST_BATCHES = 5_000
"""More than the small disk can hold."""

PATIENCE_S = 10
"""The time for operations that the broker retries by itself."""

CHUNK = bytes(64 << 10)


class Ballast:
    """A file that takes all free space of a disk, and can be removed."""

    def __init__(self, disk: Path) -> None:
        self._path = disk / "ballast"

    def fill(self) -> None:
        size = len(CHUNK)
        with self._path.open("wb", buffering=0) as file:
            while size:
                try:
                    file.write(CHUNK[:size])
                except OSError as error:
                    assert error.errno == errno.ENOSPC  # noqa: PT017
                    size //= 2

    def remove(self) -> None:
        self._path.unlink()


class Writer:
    """Writes to all partitions in turn and records the acknowledgements."""

    def __init__(self, connection: RawConnection, ledgers: list[Ledger]) -> None:
        self.connection = connection
        self.streams = [(ledger, ledger.new_stream(PADDING)) for ledger in ledgers]

    def write(self, batches: int = 1) -> None:
        for turn in range(batches):
            for number in range(len(self.streams)):
                code = self.try_write(number)
                assert code == ErrorCode.NONE, f"batch {turn}: {code.name}"

    def write_until_refused(self) -> ErrorCode:
        for turn in range(MOST_BATCHES):
            code = self.try_write(turn % len(self.streams))
            if code != ErrorCode.NONE:
                return code
        raise AssertionError("the disk is not full")

    def try_write(self, number: int) -> ErrorCode:
        ledger, stream = self.streams[number]
        first = stream.sent
        answer = calls.try_produce(self.connection, ledger.topic, ledger.partition, stream.next_values(BATCH))
        if answer.error_code == ErrorCode.NONE:
            stream.acknowledged(first, BATCH, answer.base_offset)
        else:
            stream.refused(BATCH)
        return ErrorCode(answer.error_code)


def new_ledgers() -> list[Ledger]:
    return [Ledger(TOPIC, partition) for partition in range(PARTITIONS)]


def check_all(connection: RawConnection, ledgers: list[Ledger]) -> None:
    for ledger in ledgers:
        ledger.check(calls.read_all(connection, ledger.topic, ledger.partition))


@pytest.mark.parametrize("configs", [{}, {"flush.messages": "1"}], ids=["plain", "synced"])
def test_a_full_disk_refuses_writes_serves_reads_and_recovers_when_there_is_room(
    small_disk: Path, configs: dict[str, str]
) -> None:
    ballast = Ballast(small_disk)
    ledgers = new_ledgers()
    with BrokerProcess(small_disk / "data") as broker:
        with RawConnection(broker.bootstrap) as connection:
            calls.create_topic(connection, TOPIC, PARTITIONS, configs)
            writer = Writer(connection, ledgers)
            writer.write(20)
            ballast.fill()
            assert writer.write_until_refused() == ErrorCode.KAFKA_STORAGE_ERROR
            assert [writer.try_write(0) for _ in range(20)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 20
            check_all(connection, ledgers)
            (directory,) = calls.log_dirs(connection).values()
            assert directory.error_code == ErrorCode.NONE
            ballast.remove()
            writer.write(20)
            check_all(connection, ledgers)
        broker.kill()
        broker.start()
        with RawConnection(broker.bootstrap) as connection:
            check_all(connection, ledgers)
            Writer(connection, ledgers).write(20)
            check_all(connection, ledgers)


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_broker_that_ends_on_a_full_disk_has_lost_nothing_when_there_is_room_again(
    small_disk: Path, ending: str
) -> None:
    ballast = Ballast(small_disk)
    ledgers = new_ledgers()
    with BrokerProcess(small_disk / "data") as broker:
        with RawConnection(broker.bootstrap) as connection:
            calls.create_topic(connection, TOPIC, PARTITIONS)
            writer = Writer(connection, ledgers)
            writer.write(20)
            ballast.fill()
            assert writer.write_until_refused() == ErrorCode.KAFKA_STORAGE_ERROR
        if ending == "kill":
            broker.kill()
        else:
            assert broker.stop() == 0, broker.log
        ballast.remove()
        broker.start()
        with RawConnection(broker.bootstrap) as connection:
            check_all(connection, ledgers)
            Writer(connection, ledgers).write(20)
            check_all(connection, ledgers)


def test_a_topic_that_cannot_be_stored_is_refused_and_can_be_created_later(small_disk: Path) -> None:
    ballast = Ballast(small_disk)
    with BrokerProcess(small_disk / "data") as broker, RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC)
        ballast.fill()
        for _ in range(3):
            assert calls.try_create_topic(connection, "another").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [topic.name for topic in calls.metadata(connection).topics] == [TOPIC]
        ballast.remove()
        calls.create_topic(connection, "another")
        calls.produce(connection, "another", 0, [b"value"])
        assert "Traceback" not in broker.log


# Injected faults, where no real disk can be made to fail at the right moment ------------------------------------------


@pytest.mark.parametrize("partial", [0, 1, 700], ids=["nothing-written", "a-byte-written", "half-written"])
def test_an_append_to_a_full_disk_leaves_nothing_in_the_log(tmp_path: Path, partial: int) -> None:
    machine = Machine()
    ledgers = new_ledgers()
    with InProcessBroker(machine.fs, tmp_path / "data") as broker, RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC, PARTITIONS)
        writer = Writer(connection, ledgers)
        writer.write(3)
        machine.fs.fail("pwritev", errno.ENOSPC, path=f"*/{TOPIC}-0/*.log", partial=partial)
        assert writer.try_write(0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert writer.try_write(1) == ErrorCode.NONE
        check_all(connection, ledgers)
        writer.write(3)
        check_all(connection, ledgers)
        machine.cut_power()
    machine.power_on(seed=0)
    with InProcessBroker(machine.fs, tmp_path / "data") as broker, RawConnection(broker.bootstrap) as connection:
        for ledger in ledgers:
            records = calls.read_all(connection, ledger.topic, ledger.partition)
            ledger.forget_from(len(records))
            ledger.check(records)


def test_a_segment_that_cannot_be_created_on_a_full_disk_is_created_later(tmp_path: Path) -> None:
    machine = Machine()
    ledgers = new_ledgers()
    with InProcessBroker(machine.fs, tmp_path / "data") as broker, RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC, PARTITIONS, {"segment.bytes": "1048576"})
        writer = Writer(connection, ledgers)
        machine.fs.fail("create", errno.ENOSPC, path=f"*/{TOPIC}-?/*.log", times=3)
        assert writer.write_until_refused() == ErrorCode.KAFKA_STORAGE_ERROR
        writer.write_until_refused()
        writer.write_until_refused()
        writer.write(10)
        check_all(connection, ledgers)
        assert broker.handler_failures == 0


def test_a_partition_without_room_is_created_when_there_is_room(tmp_path: Path) -> None:
    machine = Machine()
    with InProcessBroker(machine.fs, tmp_path / "data") as broker, RawConnection(broker.bootstrap) as connection:
        machine.fs.fail("mkdir", errno.ENOSPC, path=f"*/{TOPIC}-1", times=None)
        calls.try_create_topic(connection, TOPIC, PARTITIONS)
        first, second = calls.metadata(connection, TOPIC).topics[0].partitions
        assert (first.error_code, first.leader_id) == (ErrorCode.NONE, 1)
        assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert calls.try_produce(connection, TOPIC, 0, [b"value"]).error_code == ErrorCode.NONE
        assert calls.try_produce(connection, TOPIC, 1, [b"value"]).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        machine.fs.heal()
        wait_until(
            lambda: calls.try_produce(connection, TOPIC, 1, [b"value"]).error_code == ErrorCode.NONE,
            "the broker creates the partition, because the disk has room again",
            PATIENCE_S,
        )
        assert calls.metadata(connection, TOPIC).topics[0].partitions[1].leader_id == 1
