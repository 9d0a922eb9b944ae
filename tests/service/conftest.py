"""Fixtures for tests of the services: one broker with short group time-outs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from moldau.testing import Broker

_numbers = itertools.count(1)


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
def bootstrap(service_broker: Broker) -> str:
    return service_broker.bootstrap_servers


@pytest.fixture
def unused_name() -> str:
    """The name of a topic or group that no other test uses."""
    return f"service-{next(_numbers)}"


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
