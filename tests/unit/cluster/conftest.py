"""A real ZooKeeper for tests of its store, started for the first of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.cli.zookeeper.server import ZooKeeperEnsemble


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """One server for all tests: each test has its own chroot, and leaves the server running."""
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble
