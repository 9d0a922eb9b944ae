"""Start and stop: refusals in one line with exit code 1, clean stops with 0, restarts that keep all data."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moldau.log.checkpoints import CLEAN_SHUTDOWN
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.fetch import FetchResponse
from moldau.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.system import calls
from tests.system.test_full_disk import Ballast

TIMEOUT_S = 30
STOP_S = 5.0
"""The longest duration of a stop with connected clients; on an idle machine it takes a few milliseconds."""

TOPIC = "orders"


def refused(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """Start a broker that cannot start, and return its error line. Fails on more output or another exit code."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MOLDAU_")}
    done = subprocess.run(
        [sys.executable, "-m", "moldau", "broker", *arguments],
        env=clean | (environment or {}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    (line,) = (line for line in done.stderr.splitlines() if " INFO " not in line)
    assert line.startswith("moldau: ")
    return line


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


# Refusals -------------------------------------------------------------------------------------------------------------


def test_a_second_broker_on_a_directory_is_refused_and_the_first_continues(broker: BrokerProcess) -> None:
    line = refused("--data", str(broker.data), "--listen", "127.0.0.1:0")
    assert str(broker.data) in line and str(broker.pid) in line
    with RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC)


def test_a_taken_port_is_refused_and_the_directory_is_free_again(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert str(port) in refused("--data", str(data), "--listen", f"127.0.0.1:{port}")
        line = refused("--data", str(data), "--listen", "127.0.0.1:0", "--metrics-port", str(port))
        assert str(port) in line
    with BrokerProcess(data):
        pass


IMPOSSIBLE = {
    ("--set", "num.partition=3"): "num.partitions",
    ("--set", "num.partitions=many"): "num.partitions",
    ("--set", "num.partitions=0"): "num.partitions",
    ("--set", "num.partitions"): "name=value",
    ("--set", "listeners=PLAINTEXT://nowhere"): "NAME://HOST:PORT",
    ("--set", "listeners=SSL://127.0.0.1:0"): "ssl.keystore.location",
    ("--set", "node.id=-7"): "node.id",
    ("--config", "nowhere.properties"): "nowhere.properties",
}


def test_impossible_settings_are_refused_by_name_before_the_disk_is_touched(data: Path) -> None:
    def refusal(option: tuple[str, str]) -> str:
        return refused("--data", str(data), "--listen", "127.0.0.1:0", *option)

    with ThreadPoolExecutor(max_workers=2) as pool:
        for expected, line in zip(IMPOSSIBLE.values(), pool.map(refusal, IMPOSSIBLE), strict=True):
            assert expected in line
    assert not data.exists()


@pytest.mark.parametrize("address", ["no-such-host.invalid:9092", "203.0.113.7:9092"])
def test_an_address_that_this_machine_does_not_have_is_refused(data: Path, address: str) -> None:
    assert address in refused("--data", str(data), "--listen", address)


def test_an_unknown_variable_of_ours_in_the_environment_is_refused_with_the_nearest_setting(data: Path) -> None:
    line = refused("--data", str(data), environment={"MOLDAU_LOG_RETENTION_HOUR": "1"})
    assert "MOLDAU_LOG_RETENTION_HOUR" in line and "log.retention.hours" in line


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    assert str(file) in refused("--data", str(file), "--listen", "127.0.0.1:0")


def test_a_directory_of_another_broker_is_refused(data: Path) -> None:
    with BrokerProcess(data, {"node.id": "5"}):
        pass
    line = refused("--data", str(data), "--listen", "127.0.0.1:0", "--set", "node.id=6")
    assert "5" in line and "6" in line


def test_a_malformed_metadata_file_is_refused(data: Path) -> None:
    data.mkdir()
    (data / "moldau-metadata.sqlite").write_bytes(b"something else entirely, and quite long enough" * 100)
    assert "moldau-metadata.sqlite" in refused("--data", str(data), "--listen", "127.0.0.1:0")


def test_a_full_disk_at_start_is_refused_and_there_is_nothing_to_repair_afterwards(small_disk: Path) -> None:
    ballast = Ballast(small_disk)
    ballast.fill()
    assert "space" in refused("--data", str(small_disk / "data"), "--listen", "127.0.0.1:0")
    ballast.remove()
    with BrokerProcess(small_disk / "data") as broker, RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC)
        calls.produce(connection, TOPIC, 0, [b"value"])


@pytest.fixture
def read_only_disk(small_disk: Path) -> Iterator[Path]:
    with BrokerProcess(small_disk / "data") as broker, RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    yield small_disk
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)


@pytest.mark.parametrize("name", ["data", "new"])
def test_a_read_only_disk_is_refused(read_only_disk: Path, name: str) -> None:
    line = refused("--data", str(read_only_disk / name), "--listen", "127.0.0.1:0")
    assert "read-only" in line.lower()


# Stops ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_stops_the_broker_cleanly_with_clients_connected(
    broker: BrokerProcess, number: signal.Signals
) -> None:
    with RawConnection(broker.bootstrap) as idle, RawConnection(broker.bootstrap) as waiting:
        calls.create_topic(idle, TOPIC)
        calls.produce(idle, TOPIC, 0, [b"value"])
        request = calls.fetch_request(TOPIC, 0, 1, max_wait_ms=60_000)
        waiting.send(ApiKey.FETCH, calls.FETCH_VERSION, request.encode(calls.FETCH_VERSION))
        calls.metadata(idle)
        began = time.monotonic()
        assert broker.process is not None
        broker.process.send_signal(number)
        assert broker.process.wait(TIMEOUT_S) == 0, broker.log
        assert time.monotonic() - began < STOP_S
        assert idle.closed_by_peer()
    assert (broker.data / CLEAN_SHUTDOWN).exists()
    assert "Traceback" not in broker.log


def test_a_consumer_that_waits_gets_its_answer_before_the_broker_stops(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as admin, RawConnection(broker.bootstrap) as waiting:
        calls.create_topic(admin, TOPIC)
        request = calls.fetch_request(TOPIC, 0, 0, max_wait_ms=60_000)
        waiting.send(ApiKey.FETCH, calls.FETCH_VERSION, request.encode(calls.FETCH_VERSION))
        # An answer on the same connection would wait for the fetch, so there is none to wait for. The signal below
        # comes after the fetch has arrived.
        assert broker.stop() == 0
        response = waiting.receive(ApiKey.FETCH, calls.FETCH_VERSION, FetchResponse)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE


def test_a_client_that_does_not_read_its_answers_cannot_prevent_a_stop(broker: BrokerProcess) -> None:
    with RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC)
        for _ in range(20):
            calls.produce(connection, TOPIC, 0, [b"x" * 500_000])
        request = calls.fetch_request(TOPIC, 0, 0).encode(calls.FETCH_VERSION)
        for _ in range(20):
            connection.send(ApiKey.FETCH, calls.FETCH_VERSION, request)
        assert broker.stop() == 0


# Restarts -------------------------------------------------------------------------------------------------------------


def test_a_missing_directory_is_created_with_its_parents(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "not" / "there" / "yet") as broker:
        assert broker.data.is_dir()


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_restart_keeps_topics_ids_settings_records_and_the_broker_id(broker: BrokerProcess, ending: str) -> None:
    with RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, TOPIC, 3, {"retention.ms": "12345", "segment.bytes": "1048576"})
        calls.create_topic(connection, "empty")
        alter(connection, calls.TOPIC, "empty", "max.message.bytes", "5000")
        alter(connection, calls.BROKER, "", "log.retention.bytes", "777777777")
        for number in range(30):
            calls.produce(connection, TOPIC, number % 3, [b"%d" % number * 20_000])
        before = everything(connection)
    if ending == "stop":
        assert broker.stop() == 0
    else:
        broker.kill()
    assert (broker.data / CLEAN_SHUTDOWN).exists() == (ending == "stop")
    log = len(broker.log)
    broker.start()
    assert ("recovered" in broker.log[log:]) == (ending == "kill")
    assert not (broker.data / CLEAN_SHUTDOWN).exists()
    with RawConnection(broker.bootstrap) as connection:
        assert everything(connection) == before
        assert calls.produce(connection, TOPIC, 0, [b"more"]) == 10


def everything(connection: RawConnection) -> list[object]:
    """Everything that a client can see."""
    found = calls.metadata(connection)
    found.topics.sort(key=lambda topic: topic.name or "")
    records = [calls.read_all(connection, TOPIC, partition) for partition in range(3)]
    configs = [calls.describe_configs(connection, calls.TOPIC, topic.name or "") for topic in found.topics]
    broker = {
        name: value for name, value in calls.describe_configs(connection, calls.BROKER, "1").items() if "log." in name
    }
    return [found, records, configs, broker]


def alter(connection: RawConnection, resource_type: int, resource: str, name: str, value: str) -> None:
    config = IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
    wanted = IncrementalAlterConfigsRequestResource(
        resource_type=resource_type, resource_name=resource, configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[wanted])
    answer = connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message


def test_a_broker_that_is_killed_while_it_starts_starts_the_next_time(data: Path) -> None:
    broker = BrokerProcess(data, {"log.flush.offset.checkpoint.interval.ms": "10"})
    with broker:
        with RawConnection(broker.bootstrap) as connection:
            calls.create_topic(connection, TOPIC, 20)
            for number in range(40):
                calls.produce(connection, TOPIC, number % 20, [b"%d" % number])
        command = [sys.executable, "-m", "moldau", "broker", "--data", str(data), "--listen", "127.0.0.1:0"]
        broker.kill()
        for life_s in (0.15, 0.25, 0.3, 0.35, 0.4, 0.5):
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
                try:
                    process.wait(life_s)
                except subprocess.TimeoutExpired:
                    process.kill()
        broker.start()
        with RawConnection(broker.bootstrap) as connection:
            found = [[record.value for record in calls.read_all(connection, TOPIC, number)] for number in range(20)]
            assert found == [[b"%d" % number, b"%d" % (number + 20)] for number in range(20)]
