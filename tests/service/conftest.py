"""Fixtures for tests of the services: one broker with short group time-outs."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest

from moldau.testing import Broker

_numbers = itertools.count(1)
_run = uuid.uuid4().hex[:6]


@pytest.fixture(scope="session")
def service_broker() -> Iterator[Broker]:
    """A broker that allows session time-outs of half a second."""
    with Broker({"group.min.session.timeout.ms": 500}) as broker:
        yield broker


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """The same for one test, which may stop it."""
    with Broker({"group.min.session.timeout.ms": 500}) as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> str:
    """The address of the server under test: the broker above, or the one of `--bootstrap`, such as an Apache Kafka with
    group.min.session.timeout.ms=500."""
    given: str | None = pytestconfig.getoption("--bootstrap")
    if given is not None:
        return given
    broker: Broker = request.getfixturevalue("service_broker")
    return broker.bootstrap_servers


@pytest.fixture
def unused_name() -> str:
    """The name of a topic or group that no other test uses."""
    return f"service-{_run}-{next(_numbers)}"


@pytest.fixture
def unused_port() -> Callable[[], int]:
    """A port of this machine that nothing listens on."""
    import socket

    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    return find
