"""The server under test, and topics on it.

All of tests/compat (Apache Kafka's own tools aside) talks to one server and asks nothing of it but its address:

    pytest tests/compat                              one Moldau broker process for the whole run
    pytest tests/compat --bootstrap 127.0.0.1:9092   whatever listens there, for example a real Apache Kafka

A test is right when Apache Kafka passes it; where Moldau answers differently on purpose, it asks for `moldau_only`
and docs/compatibility.md says why.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.compat import wire
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection

MAX_NAME = 80


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bootstrap", metavar="HOST:PORT", help="test the server that listens there, not a broker of ours"
    )


@pytest.fixture(scope="session")
def bootstrap(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server under test listens."""
    given: str | None = pytestconfig.getoption("--bootstrap")
    if given is not None:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("compat") / "data") as broker:
        yield broker.bootstrap
        assert broker.alive(), broker.log
    # No client, however rude, may make the broker log a fault of its own.
    faults = [line for line in broker.log.splitlines() if re.match(r"\S+ (ERROR|CRITICAL) ", line)]
    assert not faults, broker.log


@pytest.fixture
def moldau_only(pytestconfig: pytest.Config) -> None:
    """For behaviour that is Moldau's own choice."""
    if pytestconfig.getoption("--bootstrap") is not None:
        pytest.skip("Moldau differs here on purpose, see docs/compatibility.md")


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawConnection]:
    with RawConnection(bootstrap) as connection:
        yield connection


@pytest.fixture
def unused_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Topic names that no other test has, and that tell which test they belong to."""
    readable = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name)[:MAX_NAME]
    return lambda: f"{readable}.{uuid.uuid4().hex[:12]}"


@pytest.fixture
def new_topic(bootstrap: str, unused_name: Callable[[], str]) -> Callable[..., str]:
    """`new_topic(partitions=1, configs={})`: the name of a topic that is there and empty."""

    def create(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        name = unused_name()
        with RawConnection(bootstrap) as connection:
            wire.create_topic(connection, name, partitions, configs or {})
        return name

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """An empty topic of one partition."""
    return new_topic()
