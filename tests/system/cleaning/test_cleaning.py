"""Compaction in a broker process with its worker process, during reads, kills and stops."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from moldau.broker import log_cleaner
from moldau.host.fault_points import POINTS
from moldau.wire.api import ApiKey
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic, DeleteTopicsResponse
from tests.support.raw import RawConnection
from tests.system.cleaning.compacted_topic import (
    CLEANED,
    TOPIC,
    WORKER_STARTED,
    History,
    WatchedBroker,
    create,
    leftovers,
    read_through,
)

IN_WORKER = sorted(name for name in POINTS if name.startswith("clean."))
IN_BROKER = sorted(name for name in POINTS if name.startswith(("swap.", "cleaner.")))
A_FEW_IN_BROKER = ["swap.before-decision", "swap.decided", "swap.all-moved-away", "cleaner.before-checkpoint"]

SLOW = {"log.cleaner.io.max.bytes.per.second": "200000"}

assert log_cleaner.MODULE == "moldau.log.clean.worker"


def worker_pid(line: str) -> int:
    found = re.search(r"pid=(\d+)", line)
    assert found is not None, line
    return int(found[1])


def test_old_values_are_removed_and_readers_find_the_last_ones(tmp_path: Path, seed: int) -> None:
    history = History(seed)
    with WatchedBroker(tmp_path) as broker, RawConnection(broker.bootstrap) as connection:
        create(connection)
        history.write(connection, 4.0)
        broker.wait_for("to=")
        last = len(broker.lines)
        history.write(connection, 4.0)
        broker.wait_for(CLEANED, since=last)
        assert history.check(connection) < len(history.written)
    assert not leftovers(tmp_path)
    with WatchedBroker(tmp_path) as broker, RawConnection(broker.bootstrap) as connection:
        history.check(connection)


def test_a_reader_of_replaced_segments_reads_on(tmp_path: Path, seed: int) -> None:
    """Cleanings overtake a reader between its fetches. Every record that it reads was written at that offset, the last
    value of each key is among them, and no offset appears twice."""
    history = History(seed)
    with WatchedBroker(tmp_path) as broker, RawConnection(broker.bootstrap) as connection:
        create(connection)
        history.write(connection, 3.0)
        cleanings = 0

        def overtake(offset: int) -> None:
            nonlocal cleanings
            if cleanings < 4:
                since = len(broker.lines)
                history.write(connection, 1.5)
                broker.wait_for(CLEANED, since=since)
                cleanings += 1

        found = read_through(connection, between=overtake, max_bytes=200_000)
        assert cleanings == 4
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert all(history.written[record.offset] == (record.key, record.value) for record in found)
        seen: dict[bytes, bytes] = {}
        for record in found:
            assert record.key is not None
            if record.value is None:
                seen.pop(record.key, None)
            else:
                seen[record.key] = record.value
        assert seen == history.last


@pytest.mark.timeout(300)
def test_a_broker_killed_at_a_fault_point_leaves_the_old_or_the_new_segments(
    tmp_path: Path, seed: int, count: Callable[[list[str], list[str]], list[str]]
) -> None:
    for name in count(A_FEW_IN_BROKER, IN_BROKER):
        history = History(seed)
        data = tmp_path / name
        broker = WatchedBroker(data, fault_point=name)
        broker.start()
        try:
            with RawConnection(broker.bootstrap) as connection:
                create(connection)
                # A segment is now complete, so the cleaner starts and reaches the fault point.
                history.write(connection, 1.5)
        except (ConnectionError, EOFError):
            pytest.fail(f"{name}: the broker ended before the cleaner ran\n{broker.log}")
        broker.wait_for_end()
        with WatchedBroker(data) as again, RawConnection(again.bootstrap) as connection:
            assert not [one for one in leftovers(data) if one.endswith(".swap")]
            history.check(connection)
            history.write(connection, 1.5)
            again.wait_for(CLEANED)
            history.check(connection)


@pytest.mark.timeout(300)
def test_a_worker_killed_at_a_fault_point_loses_only_its_own_work(
    tmp_path: Path, seed: int, count: Callable[[list[str], list[str]], list[str]]
) -> None:
    for name in count(IN_WORKER[:1], IN_WORKER):
        history = History(seed)
        data = tmp_path / name
        with WatchedBroker(data, fault_point=name) as broker, RawConnection(broker.bootstrap) as connection:
            create(connection)
            history.write(connection, 1.5)
            assert "process" in broker.wait_for("log cannot be cleaned")
            assert history.check(connection) == len(history.written)
            assert not leftovers(data)
        with WatchedBroker(data) as again, RawConnection(again.bootstrap) as connection:
            again.wait_for(CLEANED)
            assert history.check(connection) < len(history.written)


def test_the_worker_ends_when_its_broker_is_killed(tmp_path: Path, seed: int) -> None:
    history = History(seed)
    broker = WatchedBroker(tmp_path, SLOW)
    broker.start()
    with RawConnection(broker.bootstrap) as connection:
        create(connection)
        history.write(connection, 2.5)
        worker = psutil.Process(worker_pid(broker.wait_for(WORKER_STARTED)))
        broker.kill()
    worker.wait(10)
    with WatchedBroker(tmp_path) as again, RawConnection(again.bootstrap) as connection:
        again.wait_for(CLEANED)
        history.check(connection)


def test_a_stop_in_the_middle_of_a_cleaning_is_quick_and_clean(tmp_path: Path, seed: int) -> None:
    history = History(seed)
    with WatchedBroker(tmp_path, SLOW) as broker:
        with RawConnection(broker.bootstrap) as connection:
            create(connection)
            history.write(connection, 2.5)
            worker = psutil.Process(worker_pid(broker.wait_for(WORKER_STARTED)))
        assert broker.stop() == 0
        assert not worker.is_running()
    assert CLEANED not in broker.log
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert not leftovers(tmp_path)


def test_a_topic_can_be_deleted_while_it_is_cleaned(tmp_path: Path, seed: int) -> None:
    history = History(seed)
    broker = WatchedBroker(tmp_path, {"log.cleaner.io.max.bytes.per.second": "2000000"})
    with broker as running, RawConnection(running.bootstrap) as connection:
        create(connection)
        history.write(connection, 2.5)
        broker.wait_for(WORKER_STARTED)
        request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=TOPIC)], timeout_ms=10_000)
        connection.call(ApiKey.DELETE_TOPICS, 6, request, DeleteTopicsResponse)
        since = len(broker.lines)
        create(connection)
        again = History(seed + 1)
        again.write(connection, 2.5)
        broker.wait_for(CLEANED, since=since)
        again.check(connection)
    assert "Traceback" not in broker.log


def test_the_worker_imports_nothing_of_the_broker(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys, moldau.log.clean.worker\n"
        "print([name for name in sys.modules if name.startswith(('moldau.broker', 'moldau.net', 'moldau.cluster'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
