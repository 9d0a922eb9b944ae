"""What `moldau up --brokers N` refuses before it starts anything, and whom it blames when it ends."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from moldau.cli import children, local_cluster
from moldau.cli.local_cluster import BrokerChild, Wanted
from moldau.cli.main import app


def wanted(data: Path, port: int, brokers: int = 2) -> Wanted:
    return Wanted(data, brokers, port, None, (), None, ())


def test_a_port_that_is_taken_is_told_before_anything_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert local_cluster.run(wanted(tmp_path / "cluster", port)) == 1
    told = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}: another program does already; choose other ports with --port" in told
    assert not (tmp_path / "cluster").exists()


def test_a_number_that_is_no_port_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(socket.socket()) as probe:
        if probe.connect_ex(("127.0.0.1", 65_535)) == 0:
            pytest.skip("somebody has the last port")
    assert local_cluster.run(wanted(tmp_path, 65_535)) == 1
    assert "--port: 65536 is not a port from 1 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize(("says", "well"), [("nothing", True), ("ready", False)])
def test_a_broker_that_did_not_serve_yet_may_end_by_the_signal(
    says: str, well: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    line = local_cluster.ANNOUNCEMENT + "127.0.0.1:1" if says == "ready" else "starting"
    broker = BrokerChild(0, ["-Sc", f"import time; print({line!r}, flush=True); time.sleep(600)"])
    if says == "ready":
        assert broker.heard.wait(children.STOP_TIMEOUT_S)
    assert broker.stop() is well
    assert ("did not stop cleanly" in capsys.readouterr().err) is not well


@pytest.mark.parametrize(
    "command",
    [["broker"], ["up"], ["up", "--brokers", "3"], ["cluster", "import"]],
    ids=lambda command: " ".join(command),
)
def test_an_address_of_zookeeper_that_is_empty_does_not_start_a_broker_alone(
    command: list[str], tmp_path: Path
) -> None:
    result = CliRunner().invoke(app, [*command, "--zookeeper", "", "--data", str(tmp_path / "data")])
    assert result.exit_code == 2
    assert "--zookeeper: names no server" in result.output
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", [["up"], ["up", "--brokers", "3"], ["zookeeper"]], ids=" ".join)
@pytest.mark.parametrize("port", ["70000", "-1"])
def test_a_number_that_is_no_port_makes_no_sense(command: list[str], port: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*command, "--port", port, "--data", str(tmp_path / "data")])
    assert result.exit_code == 2
    assert not (tmp_path / "data").exists()
