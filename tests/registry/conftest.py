"""Registries for the tests of this directory."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from moldau.testing import Broker, Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    """An empty registry for this test only, with its REST API."""
    with Registry() as found:
        yield found


@pytest.fixture(scope="session")
def registry_broker() -> Iterator[Broker]:
    """A broker that allows session time-outs of half a second."""
    with Broker({"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> str:
    """The address of the brokers under test: the broker above, or the one of `--bootstrap`, such as an Apache Kafka
    with group.min.session.timeout.ms=500."""
    given: str | None = pytestconfig.getoption("--bootstrap")
    if given is not None:
        return given
    broker: Broker = request.getfixturevalue("registry_broker")
    return broker.bootstrap_servers


@pytest.fixture
def new_name() -> Callable[[], str]:
    """`new_name()`: the name of a topic or group that no other test uses."""
    return lambda: f"registry-{uuid.uuid4().hex[:12]}"
