"""The pytest plugin: a broker for the run and a fresh topic for each test, found by its entry point.

| fixture | scope | what |
|---|---|---|
| `moldau_broker` | session | a running `Broker`, started when the first test asks for it |
| `moldau_bootstrap` | session | where it listens: what clients call `bootstrap.servers` |
| `moldau_topic` | test | the name of an empty topic of the test's own |
| `moldau_new_topic` | test | a function that makes more of them: `moldau_new_topic(partitions=3, configs={...})` |
| `moldau_faults` | test | the broker's `faults`, all of them ended when the test is |
| `moldau_own_broker` | test | a broker of the test's own: for tests that move time, restart or crash it |
| `moldau_cluster` | test | a `Cluster` of the test's own, of three brokers: for tests of failover |

`@pytest.mark.moldau_topic(partitions=3, configs={"cleanup.policy": "compact"})` says what `moldau_topic` shall be like.
`@pytest.mark.moldau_cluster(5)` says how many brokers `moldau_cluster` has, and whatever else a `Cluster` takes.
`moldau_settings` in the ini file, one `name=value` a line, and the fixture `moldau_settings`, which a conftest.py may
override, say what the brokers' settings are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing import Broker, Cluster, Faults

MAX_NAME = 80
"""Of a test's name in a topic's. A topic's may have 249."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("moldau_settings", "settings of the brokers that fixtures start, one name=value a line", "linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "moldau_topic(partitions=1, configs={}): what the topic of the fixture moldau_topic is like"
    )
    config.addinivalue_line(
        "markers", "moldau_cluster(brokers=3, settings={}, racks=None): what the fixture moldau_cluster is like"
    )


@pytest.fixture(scope="session")
def moldau_settings(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """Settings of the brokers that fixtures start; override it in a conftest.py to compute them."""
    settings = {}
    for line in pytestconfig.getini("moldau_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"moldau_settings: {line!r} is not of the form name=value")
        settings[name.strip()] = value.strip()
    return settings


@pytest.fixture(scope="session")
def moldau_broker(moldau_settings: Mapping[str, str]) -> Iterator[Broker]:
    """One broker for the whole run."""
    from moldau.testing import Broker

    with Broker(moldau_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def moldau_bootstrap(moldau_broker: Broker) -> str:
    """Where the run's broker listens."""
    return moldau_broker.bootstrap_servers


@pytest.fixture
def moldau_own_broker(moldau_settings: Mapping[str, str]) -> Iterator[Broker]:
    """A broker of the test's own, whose time may be moved and which may be stopped and crashed."""
    from moldau.testing import Broker

    with Broker(moldau_settings) as broker:
        yield broker


@pytest.fixture
def moldau_cluster(moldau_settings: Mapping[str, str], request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of the test's own, whose brokers may be stopped, crashed and started again."""
    from moldau.testing import Cluster

    mark = request.node.get_closest_marker("moldau_cluster")
    args, named = (list(mark.args), dict(mark.kwargs)) if mark else ([], {})
    brokers = args.pop(0) if args else named.pop("brokers", 3)
    settings = args.pop(0) if args else named.pop("settings", {})
    with Cluster(brokers, {**moldau_settings, **settings}, *args, **named) as cluster:
        yield cluster


@pytest.fixture
def moldau_faults(moldau_broker: Broker) -> Iterator[Faults]:
    """The faults of the run's broker; none outlives the test."""
    yield moldau_broker.faults
    moldau_broker.faults.clear()


@pytest.fixture
def moldau_new_topic(moldau_broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """`moldau_new_topic(partitions=1, configs=None)`: the name of a topic that is there and empty."""
    from uuid import uuid4

    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:MAX_NAME].strip("-")

    def create(partitions: int = 1, configs: Mapping[str, str | int | float | bool] | None = None) -> str:
        name = f"{readable}.{uuid4().hex[:12]}"
        moldau_broker.create_topic(name, partitions, configs)
        return name

    return create


@pytest.fixture
def moldau_topic(moldau_new_topic: Callable[..., str], request: pytest.FixtureRequest) -> str:
    """An empty topic that no other test has; of one partition, unless the test is marked otherwise."""
    mark = request.node.get_closest_marker("moldau_topic")
    return moldau_new_topic(*mark.args, **mark.kwargs) if mark else moldau_new_topic()
