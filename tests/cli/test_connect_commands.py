"""`moldau connect`: what it refuses, how its process stops, and the commands about connectors."""

from __future__ import annotations

import io
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from moldau.cli import connect_status, logs
from moldau.cli.connect_client import ConnectClient
from moldau.cli.main import app
from moldau.testing import Broker
from tests.cli.processes import command, environment, run
from tests.compat.apache_kafka.processes import free_port
from tests.support.connect_worker import ConnectWorker
from tests.support.waiting import wait_until

NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def logging_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process must not replace the log handlers of the tests."""
    monkeypatch.setattr(logs, "configure_logging", lambda level, as_json: None)


def invoked(*arguments: str) -> Result:
    """A command in this process: a process of its own takes a second to start."""
    return CliRunner().invoke(app, ["connect", *arguments], env={"MOLDAU_BOOTSTRAP_SERVERS": NOBODY})


def refused(*arguments: str) -> str:
    """The message of a command that must fail."""
    done = invoked(*arguments)
    assert done.exit_code == 1, (done.exit_code, done.output)
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_no_address_beyond_loopback_without_a_login() -> None:
    message = refused("--listen", "0.0.0.0:0")
    assert "http://0.0.0.0:0 can be reached from other machines" in message
    assert "moldau.http.password.file" in message


def test_a_port_in_use_names_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(NOBODY, "connect", "--port", str(port))
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: process".encode() in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "grup.id=x"], "moldau: grup.id: unknown Connect worker setting; did you mean group.id?"),
        (["--config", "/no/such/file"], "moldau: /no/such/file: No such file or directory"),
        (["standalone", "/no/such/worker", "/no/such/connector"], "/no/such/worker: No such file or directory"),
        (["create", "/no/such/connector.json"], "/no/such/connector.json: No such file or directory"),
        (["status", "--once", "--url", "http://127.0.0.1:1"], "nothing answers at http://127.0.0.1:1"),
    ],
)
def test_wrong_input_is_one_line_on_standard_error(arguments: list[str], message: str) -> None:
    assert message in refused(*arguments)


def test_connectors_of_a_standalone_worker_need_different_names(tmp_path: Path) -> None:
    worker, first, second, nameless = (tmp_path / name for name in ("worker", "first", "second", "nameless"))
    worker.write_text("")
    first.write_text("name=a\n")
    second.write_text("name=a\n")
    nameless.write_text("topic=a\n")
    assert "the name 'a' is also in" in refused("standalone", str(worker), str(first), str(second))
    assert f"{nameless}: the connector has no name" in refused("standalone", str(worker), str(nameless))


def test_a_worker_without_a_broker_says_so_and_stops_at_a_signal() -> None:
    process = subprocess.Popen(
        command("connect", "--port", "0"), env=environment(NOBODY), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stderr is not None
        assert b"nothing listens at 127.0.0.1:1" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM)  # the second: before the worker had begun


# -- a worker ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a password file for alice and her password."""
    directory = tmp_path_factory.mktemp("login")
    (directory / "password").write_text("hunter2\n")
    given = ["security", "http-user", str(directory / "users"), "alice", "--password-file", str(directory / "password")]
    assert CliRunner().invoke(app, given).exit_code == 0
    return directory


@pytest.fixture(scope="module")
def worker(secrets: Path) -> Iterator[ConnectWorker]:
    """A worker that needs a login. It has no Spark session: the connectors of these tests are paused or fail early."""
    with Broker() as broker:
        settings = {"moldau.http.password.file": str(secrets / "users")}
        one = ConnectWorker(broker.bootstrap_servers, free_port(), settings)
        one.client.auth = ("alice", "hunter2")
        one.start()
        yield one
        assert one.stop() == 0
        one.client.close()


def call(worker: ConnectWorker, secrets: Path, *arguments: str) -> Result:
    login = ["--user", "alice", "--password-file", str(secrets / "password")]
    return invoked(*arguments, "--url", f"http://{worker.worker_id}", *login)


def live_table(worker: ConnectWorker) -> str:
    """The table that a terminal would show."""
    console = Console(width=200, file=io.StringIO())
    with ConnectClient(f"http://{worker.worker_id}", ("alice", "hunter2")) as client:
        console.print(connect_status.table(client))
    shown: str = console.file.getvalue()  # type: ignore[attr-defined]
    return shown


def test_without_the_login_a_command_is_refused(worker: ConnectWorker, secrets: Path) -> None:
    assert "needs a login; give --user" in refused("list", "--url", f"http://{worker.worker_id}")
    (secrets / "wrong").write_text("wrong\n")
    wrong = ["--user", "alice", "--password-file", str(secrets / "wrong")]
    assert "needs a login" in refused("list", "--url", f"http://{worker.worker_id}", *wrong)


def test_a_connector_from_its_creation_to_its_end(worker: ConnectWorker, secrets: Path, tmp_path: Path) -> None:
    file = tmp_path / "lines.json"
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "missing"), "topic": "lines"}
    file.write_text(json.dumps({"name": "lines [of] é", "config": config}))
    assert call(worker, secrets, "create", str(file)).exit_code == 0
    assert call(worker, secrets, "list").output == "lines [of] é\n"
    assert call(worker, secrets, "pause", "lines [of] é").exit_code == 0

    def paused() -> bool:
        found = json.loads(call(worker, secrets, "status", "--once", "-o", "json").output)
        return [one["state"] for one in found] == ["PAUSED"]  # a new connector has no status for a moment

    wait_until(paused, "the connector is paused")
    table = call(worker, secrets, "status", "--once").output
    assert "lines [of] é" in table
    assert worker.worker_id in table
    assert "lines [of] é" in live_table(worker)
    assert call(worker, secrets, "restart", "lines [of] é").exit_code == 0
    assert call(worker, secrets, "delete", "lines [of] é").exit_code == 0
    assert call(worker, secrets, "list").output == "no connectors\n"
    done = call(worker, secrets, "delete", "lines [of] é")
    assert (done.exit_code, "not found" in done.stderr) == (1, True)


def test_a_wrong_configuration_is_refused_with_its_reasons(
    worker: ConnectWorker, secrets: Path, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.properties"
    file.write_text("name=wrong\nconnector.class=FileStreamSource\ntopic=lines\ntasks.max=none\n")
    done = call(worker, secrets, "create", str(file))
    assert (done.exit_code, "tasks.max" in done.stderr) == (1, True)


def test_metrics_and_health_of_the_worker(worker: ConnectWorker) -> None:
    assert "moldau_connect_http_requests_total" in worker.client.get("/metrics").text
    assert worker.client.get("/health", auth=("", "")).status_code == 200
    assert worker.client.get("/connectors", auth=("", "")).status_code == 401
