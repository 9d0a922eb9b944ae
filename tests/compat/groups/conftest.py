"""Server for groups: like the shared one, but without the initial rebalance delay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.process import BrokerProcess


@pytest.fixture(scope="session")
def bootstrap(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server under test."""
    given: str | None = pytestconfig.getoption("--bootstrap")
    if given is not None:
        yield given
        return
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with BrokerProcess(tmp_path_factory.mktemp("groups") / "data", settings) as broker:
        yield broker.bootstrap
        assert broker.alive(), broker.log
    assert " ERROR " not in broker.log, broker.log
