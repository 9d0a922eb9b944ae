"""`moldau up --brokers N`: refusals before the start, and the process named at the end."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from moldau.cli import children, local_cluster
from moldau.cli.local_cluster import BrokerChild, LocalCluster, LocalClusterOptions
from moldau.cli.main import app
from moldau.cli.zookeeper.server import ZooKeeperEnsemble


def wanted(data: Path, port: int, brokers: int = 2) -> LocalClusterOptions:
    return LocalClusterOptions(data, brokers, port, None, (), None, ())


def test_a_port_in_use_is_reported_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert local_cluster.run(wanted(tmp_path / "cluster", port)) == 1
    told = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}: process {os.getpid()} (" in told
    assert f"listens there; end it with: kill {os.getpid()}; or choose other ports with --port" in told
    assert not (tmp_path / "cluster").exists()


def test_a_number_that_is_not_a_port_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(socket.socket()) as probe:
        if probe.connect_ex(("127.0.0.1", 65_535)) == 0:
            pytest.skip("the last port is in use")
    assert local_cluster.run(wanted(tmp_path, 65_535)) == 1
    assert "--port: 65536 is not a port from 1 to 65535" in capsys.readouterr().err


def test_brokers_listen_on_the_given_host_and_zookeeper_stays_local(tmp_path: Path) -> None:
    cluster = LocalCluster(wanted(tmp_path, 9092)._replace(host="::1"))
    command = cluster._command(1, "127.0.0.1:2181")
    assert command[command.index("--listen") + 1] == "[::1]:9093"
    assert ZooKeeperEnsemble(tmp_path, port=2181).connect == "127.0.0.1:2181"


def test_the_environment_overrides_the_settings_of_a_local_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster(wanted(tmp_path, 9092))
    assert {"min.insync.replicas=1", "group.initial.rebalance.delay.ms=0"} <= set(cluster._command(0, "zk"))
    monkeypatch.setenv("MOLDAU_GROUP_INITIAL_REBALANCE_DELAY_MS", "500")
    monkeypatch.setenv("MOLDAU_MIN_INSYNC_REPLICAS", "2")
    command = cluster._command(0, "zk")
    assert not any(part.startswith(("group.initial", "min.insync")) for part in command)
    assert "default.replication.factor=2" in command


def test_brokers_that_should_find_each_other_need_an_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert local_cluster.run(wanted(tmp_path, 9092)._replace(host="0.0.0.0")) == 1
    assert "clients and other brokers cannot connect to 0.0.0.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--listen", "nothing"], "--listen: 'nothing' is not HOST:PORT"),
        (["--listen", "::1:9092"], "--listen: '::1:9092' is not HOST:PORT"),
        (["--listen", "127.0.0.1:9092", "--port", "9092"], "remove --port"),
    ],
)
def test_an_address_to_listen_on_is_host_and_port_and_goes_without_a_port(
    options: list[str], says: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(app, ["up", *options, "--data", str(tmp_path / "data")])
    assert result.exit_code == 2
    assert says in result.output
    assert not (tmp_path / "data").exists()


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
    assert "--zookeeper: no server is given" in result.output
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", [["up"], ["up", "--brokers", "3"], ["zookeeper"]], ids=" ".join)
@pytest.mark.parametrize("port", ["70000", "-1"])
def test_an_invalid_port_number_is_refused(command: list[str], port: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*command, "--port", port, "--data", str(tmp_path / "data")])
    assert result.exit_code == 2
    assert not (tmp_path / "data").exists()
