"""`moldau zookeeper`: messages if it cannot run, and the command line that it runs."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from moldau.cli.zookeeper.command import run_zookeeper
from moldau.cli.zookeeper.java import NotInstalled, java_program, zookeeper_jars
from moldau.cli.zookeeper.server import ZooKeeperEnsemble, ZooKeeperFailed


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


@pytest.mark.usefixtures("_no_java")
def test_without_java_the_command_names_the_package_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_zookeeper(tmp_path, 0, 1) == 1
    told = capsys.readouterr().err
    assert told.startswith("moldau: ZooKeeper needs Java")
    assert "install Java 17" in told
    assert list(tmp_path.iterdir()) == [], "a command that cannot run must write no files"


def test_java_is_taken_from_java_home_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_program() == str(program)


def test_without_pyspark_the_command_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(NotInstalled, match=r"pip install 'moldau\[spark\]'"):
        zookeeper_jars()
    elsewhere = ModuleSpec("pyspark", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: elsewhere)
    with pytest.raises(NotInstalled, match="there is no ZooKeeper in"):
        zookeeper_jars()


@pytest.mark.parametrize("servers", [0, 2, 9])
def test_an_ensemble_has_an_odd_number_of_servers(
    servers: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_zookeeper(tmp_path, 0, servers) == 2
    assert f"odd number of servers, at most 7, not {servers}" in capsys.readouterr().err


def test_ports_follow_one_another_and_their_peers_are_apart(tmp_path: Path) -> None:
    ensemble = ZooKeeperEnsemble(tmp_path, port=2181, servers=3)
    assert ensemble.connect == "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183"
    configuration = ensemble.servers[1]._configuration()
    assert "clientPort=2182\n" in configuration
    assert "server.1=127.0.0.1:2888:3888\nserver.2=127.0.0.1:2889:3889\n" in configuration
    assert "tickTime=250\n" in configuration
    assert "admin.enableServer=false\n" in configuration


@pytest.mark.parametrize(("port", "servers"), [(70_000, 1), (-1, 1), (65_000, 3)])
def test_a_number_that_is_no_port_is_refused(
    port: int, servers: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_zookeeper(tmp_path, port, servers) == 1
    assert f"--port: {port} is not a port from 1 to 65535" in capsys.readouterr().err


@pytest.mark.usefixtures("_a_program_for_java")
def test_a_second_server_on_the_same_directory_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    first, second = (ZooKeeperEnsemble(tmp_path).servers[0] for _ in range(2))
    first.launch()
    with pytest.raises(ZooKeeperFailed, match=f"already running in {tmp_path}/zookeeper"):
        second.launch()
    first.kill()
    second.launch()
    second.kill()


@pytest.fixture
def _a_program_for_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A fake Java that does nothing until it is killed."""
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexec sleep 600\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    jars = tmp_path / "pyspark" / "jars"
    jars.mkdir(parents=True)
    (jars / "zookeeper-3.9.jar").touch()
    found = ModuleSpec("pyspark", None, origin=str(tmp_path / "pyspark" / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: found)
