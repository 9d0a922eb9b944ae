"""A cluster for the tests of this directory, and commands that are run against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner, Result

from moldau import Admin
from moldau.cli.main import app
from moldau.testing.cluster import Cluster

Command = Callable[..., Result]

SETTINGS = {"auto.leader.rebalance.enable": "false", "offsets.topic.num.partitions": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Four brokers in two racks; every test leaves all of them running and in sync."""
    with Cluster(4, SETTINGS, racks=["north", "south", "north", "south"]) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def moldau(cluster: Cluster) -> Command:
    """`moldau("cluster", "describe")`: a command in this process, against the cluster."""
    runner = CliRunner()

    def run(*arguments: str) -> Result:
        environment = {"MOLDAU_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}
        return runner.invoke(app, arguments, prog_name="moldau", env=environment)

    return run
