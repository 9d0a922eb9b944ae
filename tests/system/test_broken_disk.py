"""Failing disks: only the failed directory goes offline; the broker and other directories continue."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any, NoReturn

import pytest

from moldau.log.log import Log
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.fetch import FetchResponse
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until_async
from tests.system import calls
from tests.system.in_process_broker import InProcessBroker, Machine
from tests.system.ledger import Ledger

TOPIC = "orders"
PARTITIONS = 4
LONG_POLL_MS = 60_000
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Setup:
    """A broker with two data directories, and a topic with partitions in both."""

    def __init__(self, tmp_path: Path, machine: Machine) -> None:
        self.machine = machine
        self.good, self.bad = tmp_path / "good", tmp_path / "bad"
        self.ledgers = [Ledger(TOPIC, partition) for partition in range(PARTITIONS)]

    def broker(self) -> InProcessBroker:
        return InProcessBroker(self.machine.fs, self.good, self.bad)

    def create_topic(self, connection: RawConnection, configs: dict[str, str] | None = None) -> None:
        calls.create_topic(connection, TOPIC, PARTITIONS, configs)
        assert len(self.partitions_in(connection, self.good)) == PARTITIONS / 2
        assert len(self.partitions_in(connection, self.bad)) == PARTITIONS / 2

    def partitions_in(self, connection: RawConnection, directory: Path) -> list[int]:
        found = calls.log_dirs(connection)[str(directory)]
        return sorted(partition.partition_index for topic in found.topics for partition in topic.partitions)

    def write(self, connection: RawConnection, partitions: list[int]) -> None:
        for partition in partitions:
            stream = self.ledgers[partition].new_stream()
            stream.acknowledged(0, 5, calls.produce(connection, TOPIC, partition, stream.next_values(5)))

    def check(self, connection: RawConnection, partitions: list[int]) -> None:
        for partition in partitions:
            self.ledgers[partition].check(calls.read_all(connection, TOPIC, partition))


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path, Machine())


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS], ids=["EIO", "EROFS"])
def test_a_failed_write_takes_the_directory_offline_and_the_other_one_is_served(setup: Setup, error: int) -> None:
    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        setup.create_topic(connection)
        good, bad = setup.partitions_in(connection, setup.good), setup.partitions_in(connection, setup.bad)
        setup.write(connection, good + bad)
        setup.machine.fs.fail("pwritev", error, path=f"{setup.bad}/*", times=None)
        assert calls.try_produce(connection, TOPIC, bad[0], [b"lost"]).error_code == STORAGE_ERROR

        for partition in bad:
            assert calls.try_produce(connection, TOPIC, partition, [b"lost"]).error_code == STORAGE_ERROR
            assert calls.fetch(connection, TOPIC, partition, 0).error_code == STORAGE_ERROR
        directories = calls.log_dirs(connection)
        assert directories[str(setup.bad)].error_code == STORAGE_ERROR
        assert directories[str(setup.good)].error_code == ErrorCode.NONE
        for partition in calls.metadata(connection, TOPIC).topics[0].partitions:
            offline = partition.partition_index in bad
            assert partition.error_code == (ErrorCode.LEADER_NOT_AVAILABLE if offline else ErrorCode.NONE)
            assert partition.leader_id == (-1 if offline else 1)
            assert partition.offline_replicas == ([1] if offline else [])

        setup.write(connection, good)
        setup.check(connection, good)
        calls.create_topic(connection, "afterwards", 2)
        assert len(calls.log_dirs(connection)[str(setup.good)].topics) == 2
        assert broker.handler_failures == 0


def test_a_read_that_fails_takes_the_directory_offline(setup: Setup) -> None:
    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        setup.create_topic(connection)
        good, bad = setup.partitions_in(connection, setup.good), setup.partitions_in(connection, setup.bad)
        setup.write(connection, good + bad)
        setup.machine.fs.fail("preadv", errno.EIO, path=f"{setup.bad}/*", times=None)
        for partition in bad:
            assert calls.fetch(connection, TOPIC, partition, 0).error_code == STORAGE_ERROR
        assert calls.log_dirs(connection)[str(setup.bad)].error_code == STORAGE_ERROR
        setup.check(connection, good)
        assert broker.handler_failures == 0


@pytest.mark.parametrize("cached", [True, False])
def test_a_read_of_aborted_transactions_that_fails_is_answered_as_any_other(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    def failing(log: Log, first_offset: int, end_offset: int) -> NoReturn:
        raise log.data_dir.failed(OSError(errno.EIO, "Input/output error"), f"{first_offset} to {end_offset}")

    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        setup.create_topic(connection)
        bad = setup.partitions_in(connection, setup.bad)
        setup.write(connection, bad)
        if not cached:
            setup.machine.fs.slow(f"{setup.bad}/*", 0)
        monkeypatch.setattr(Log, "aborted_in_memory", lambda *_: None)
        monkeypatch.setattr(Log, "read_aborted", failing)
        assert calls.fetch(connection, TOPIC, bad[0], 0, isolation_level=1).error_code == STORAGE_ERROR
        assert calls.log_dirs(connection)[str(setup.bad)].error_code == STORAGE_ERROR
        assert broker.handler_failures == 0


def test_a_record_whose_fsync_failed_is_not_acknowledged_and_the_directory_goes_offline(setup: Setup) -> None:
    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        setup.create_topic(connection, {"flush.messages": "1"})
        good, bad = setup.partitions_in(connection, setup.good), setup.partitions_in(connection, setup.bad)
        setup.write(connection, good + bad)
        # only once: a second fsync would report success for lost data
        setup.machine.fs.fail("fdatasync", errno.EIO, path=f"{setup.bad}/*.log")
        answers = [produce_pipelined(connection, partition) for partition in (bad[0], bad[0], good[0], bad[0])]
        assert [answer() for answer in answers] == [STORAGE_ERROR, STORAGE_ERROR, ErrorCode.NONE, STORAGE_ERROR]
        assert calls.log_dirs(connection)[str(setup.bad)].error_code == STORAGE_ERROR
        assert calls.try_produce(connection, TOPIC, bad[0], [b"lost"]).error_code == STORAGE_ERROR
        assert broker.handler_failures == 0


def produce_pipelined(connection: RawConnection, partition: int) -> Any:
    """Send the request now; the returned function reads the error code of its answer."""
    body = calls.produce_body(TOPIC, partition, calls.batch_of([b"value"]))
    correlation_id = connection.send(ApiKey.PRODUCE, calls.PRODUCE_VERSION, body)
    return lambda: calls.produce_answer(connection, correlation_id).error_code


def test_a_waiting_consumer_gets_an_error_at_once_when_the_disk_fails(setup: Setup) -> None:
    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        setup.create_topic(connection)
        bad = setup.partitions_in(connection, setup.bad)
        with RawConnection(broker.bootstrap) as consumer:
            request = calls.fetch_request(TOPIC, bad[0], 0, max_wait_ms=LONG_POLL_MS)
            consumer.send(ApiKey.FETCH, calls.FETCH_VERSION, request.encode(calls.FETCH_VERSION))
            wait_until_parked(broker)
            setup.machine.fs.fail("pwritev", errno.EIO, path=f"{setup.bad}/*", times=None)
            calls.try_produce(connection, TOPIC, bad[1], [b"lost"])
            response = consumer.receive(ApiKey.FETCH, calls.FETCH_VERSION, FetchResponse)
            assert response.responses[0].partitions[0].error_code == STORAGE_ERROR


def wait_until_parked(broker: InProcessBroker) -> None:
    assert broker.broker is not None
    delayed = broker.broker.delayed_fetches
    parked = wait_until_async(lambda: delayed.waiting, "a fetch waits for records", 10)
    asyncio.run_coroutine_threadsafe(parked, broker.broker.loop).result()


def test_a_directory_that_works_again_after_a_restart_has_all_its_records(setup: Setup) -> None:
    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        setup.create_topic(connection)
        everything = list(range(PARTITIONS))
        setup.write(connection, everything)
        bad = setup.partitions_in(connection, setup.bad)
        setup.machine.fs.fail("pwritev", errno.EIO, path=f"{setup.bad}/*", times=None)
        assert calls.try_produce(connection, TOPIC, bad[0], [b"lost"]).error_code == STORAGE_ERROR
    setup.machine.fs.heal()
    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        setup.check(connection, everything)
        setup.write(connection, everything)
        setup.check(connection, everything)


def test_partitions_of_a_directory_that_fails_at_start_are_offline_and_not_recreated_elsewhere(
    setup: Setup,
) -> None:
    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        setup.create_topic(connection)
        everything = list(range(PARTITIONS))
        setup.write(connection, everything)
        good, bad = setup.partitions_in(connection, setup.good), setup.partitions_in(connection, setup.bad)
    setup.machine.fs.fail("create", errno.EIO, path=f"{setup.bad}/*", times=None)
    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        for partition in bad:
            assert calls.fetch(connection, TOPIC, partition, 0).error_code == STORAGE_ERROR
            assert calls.try_produce(connection, TOPIC, partition, [b"lost"]).error_code == STORAGE_ERROR
        found = calls.metadata(connection, TOPIC).topics[0].partitions
        assert [partition.partition_index for partition in found if partition.leader_id == -1] == bad
        assert calls.log_dirs(connection)[str(setup.bad)].error_code == STORAGE_ERROR
        assert setup.partitions_in(connection, setup.good) == good
        setup.check(connection, good)
        calls.create_topic(connection, "afterwards", 2)
        calls.produce(connection, "afterwards", 1, [b"value"])
    setup.machine.fs.heal()
    with setup.broker() as broker, RawConnection(broker.bootstrap) as connection:
        setup.check(connection, everything)
        assert broker.handler_failures == 0
