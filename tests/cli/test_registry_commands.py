"""`moldau registry` and `moldau up --registry`: what they refuse, how they run, and the commands about subjects."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from moldau.cli import logs
from moldau.cli.main import app
from moldau.testing import Registry
from tests.cli.processes import command

NOBODY = "127.0.0.1:1"
TIMEOUT_S = 120
ONE = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
BROKEN = {"type": "record", "name": "A", "fields": [*ONE["fields"], {"name": "note", "type": "string"}]}


@pytest.fixture(autouse=True)
def logging_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process must not replace the log handlers of the tests."""
    monkeypatch.setattr(logs, "configure_logging", lambda level, as_json: None)


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    file = tmp_path / "a.avsc"
    file.write_text(json.dumps(ONE))
    return file


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as found:
        yield found


def invoked(*arguments: str, **environment: str) -> Result:
    """A command in this process: a process of its own takes a second to start."""
    return CliRunner().invoke(app, list(arguments), env={"MOLDAU_BOOTSTRAP_SERVERS": NOBODY, **environment})


def refused(*arguments: str, code: int = 1) -> str:
    """The message of a command that must fail."""
    done = invoked(*arguments)
    assert done.exit_code == code, (done.exit_code, done.output)
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


# -- the registry ------------------------------------------------------------------------------------------------------


def test_no_address_beyond_loopback_without_a_login() -> None:
    message = refused("registry", "--listen", "0.0.0.0:0")
    assert "http://0.0.0.0:0 can be reached from other machines" in message
    assert "moldau.http.password.file" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "kafkastore.topik=x"], "kafkastore.topik: unknown setting of the schema registry"),
        (["--set", "schema.compatibility.level=sideways"], "schema.compatibility.level"),
        (["--config", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["subjects", "--url", "http://127.0.0.1:1"], "http://127.0.0.1:1 cannot be reached"),
        (["check", "a", "/no/such.avsc"], "/no/such.avsc: No such file or directory"),
    ],
)
def test_wrong_input_is_one_line_on_standard_error(arguments: list[str], message: str) -> None:
    assert message in refused("registry", *arguments)


def test_a_port_in_use_names_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused("up", "--registry", "--registry-port", str(port), code=2)
    assert f"the registry cannot listen on 127.0.0.1:{port}: process" in message


def test_a_secured_broker_needs_a_registry_with_a_login(tmp_path: Path) -> None:
    message = refused("up", "--secure", "--registry", "--data", str(tmp_path / "data"), code=2)
    assert "with a login of its own" in message
    assert not (tmp_path / "data").exists()
    assert "--registry-port needs --registry" in refused("up", "--registry-port", "1", code=2)


def test_one_command_starts_broker_and_registry_and_ctrl_c_stops_both(tmp_path: Path) -> None:
    arguments = ["up", "--data", str(tmp_path), "--port", "0", "--registry", "--registry-port", "0"]
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, b"")
            ready = next(line for line in lines if line.startswith(b"Schema registry is ready on "))
            url = ready.decode().split()[-1]
            with httpx.Client(base_url=url, trust_env=False, timeout=TIMEOUT_S) as client:
                done = client.post("/subjects/a/versions", json={"schema": json.dumps(ONE)})
                assert (done.status_code, done.json()["id"]) == (200, 1)
                assert client.get("/v1/metadata/id").json()["scope"]["clusters"]["kafka-cluster"]
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


# -- subjects ----------------------------------------------------------------------------------------------------------


def test_subjects_are_registered_listed_and_shown(registry: Registry, schema_file: Path) -> None:
    at = ["--url", registry.url]
    assert invoked("registry", "subjects", *at).stdout == "no subjects\n"
    done = invoked("registry", "register", "a-value", str(schema_file), *at)
    assert done.stdout == "a-value has the schema with id 1 as version 1\n"
    listed = invoked("registry", "subjects", "-o", "json", MOLDAU_REGISTRY_URL=registry.url)
    assert json.loads(listed.stdout) == [{"subject": "a-value", "version": 1, "id": 1, "type": "AVRO"}]
    assert "a-value" in invoked("registry", "subjects", *at).stdout
    assert json.loads(invoked("registry", "show", "a-value", *at).stdout) == ONE
    assert json.loads(invoked("registry", "show", "a-value", "--version", "1", "-o", "json", *at).stdout)["id"] == 1
    assert "Version 9 not found" in refused("registry", "show", "a-value", "--version", "9", *at)
    assert "Subject 'b' not found" in refused("registry", "show", "b", *at)


def test_a_check_says_why_a_schema_may_not_be_registered(registry: Registry, schema_file: Path, tmp_path: Path) -> None:
    at = ["--url", registry.url]
    registry.register("a-value", json.dumps(ONE))
    assert invoked("registry", "check", "a-value", str(schema_file), *at).exit_code == 0
    broken = tmp_path / "broken.avsc"
    broken.write_text(json.dumps(BROKEN))
    done = invoked("registry", "check", "a-value", str(broken), *at)
    assert done.exit_code == 1
    assert "note" in done.stdout and "READER_FIELD_MISSING_DEFAULT_VALUE" in done.stdout
    assert "incompatible" in refused("registry", "register", "a-value", str(broken), *at)
    assert registry.schema("a-value").registered.version == 1


def test_the_type_of_a_file_without_a_known_name_must_be_given(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "schema.txt"
    file.write_text('"string"')
    at = ["--url", registry.url]
    assert "give --type" in refused("registry", "register", "a", str(file), *at, code=2)
    assert "is not avro, json or protobuf" in refused(
        "registry", "register", "a", str(file), "--type", "x", *at, code=2
    )
    assert invoked("registry", "register", "a", str(file), "--type", "avro", *at).exit_code == 0


def test_a_registry_with_a_login_answers_only_who_knows_it(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    (tmp_path / "wrong").write_text("hunter3\n")
    users = str(tmp_path / "users")
    given = ["security", "http-user", users, "alice", "--password-file", str(tmp_path / "password")]
    assert CliRunner().invoke(app, given).exit_code == 0
    with Registry(password_file=users) as registry:
        at = ["registry", "subjects", "--url", registry.url]
        assert "User cannot access the resource" in refused(*at)
        login = ["--user", "alice", "--password-file"]
        assert invoked(*at, *login, str(tmp_path / "password")).exit_code == 0
        denied = refused(*at, *login, str(tmp_path / "wrong"))
        assert "hunter" not in denied
