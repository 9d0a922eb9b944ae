"""Pytest plugin: a broker for the whole run and a new topic for each test. Loaded by its entry point.

| fixture | scope | what |
|---|---|---|
| `moldau_broker` | session | a running `Broker`, started when the first test uses it |
| `moldau_bootstrap` | session | its address: the value for `bootstrap.servers` |
| `moldau_topic` | test | the name of an empty topic for this test only |
| `moldau_new_topic` | test | a function that creates more of them: `moldau_new_topic(partitions=3, configs={...})` |
| `moldau_faults` | test | the broker's `faults`; all of them end with the test |
| `moldau_own_broker` | test | a broker for this test only: for tests that move time, restart or crash it |
| `moldau_cluster` | test | a `Cluster` of three brokers for this test only: for tests of failover |
| `moldau_registry` | test | an empty schema `Registry` for this test only, without a broker |

`@pytest.mark.moldau_topic(partitions=3, configs={"cleanup.policy": "compact"})` configures `moldau_topic`.
`@pytest.mark.moldau_cluster(5)` sets the number of brokers of `moldau_cluster`, and takes all other arguments of a
`Cluster`. Settings of the brokers come from `moldau_settings` in the ini file, one `name=value` per line, or from the
fixture `moldau_settings`, which a conftest.py may override.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing import Broker, Cluster, Faults, Registry

MAX_NAME = 80
"""Maximum length of the test's name in a topic name. A topic name may have 249 characters."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("moldau_settings", "settings of the brokers that fixtures start, one name=value per line", "linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "moldau_topic(partitions=1, configs={}): configures the topic of the fixture moldau_topic"
    )
    config.addinivalue_line(
        "markers", "moldau_cluster(brokers=3, settings={}, racks=None): configures the fixture moldau_cluster"
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
    """The address of the run's broker."""
    return moldau_broker.bootstrap_servers


@pytest.fixture
def moldau_own_broker(moldau_settings: Mapping[str, str]) -> Iterator[Broker]:
    """A broker for one test, which may move its time, stop it and crash it."""
    from moldau.testing import Broker

    with Broker(moldau_settings) as broker:
        yield broker


@pytest.fixture
def moldau_cluster(moldau_settings: Mapping[str, str], request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster for one test, which may stop, crash and restart its brokers."""
    from moldau.testing import Cluster

    mark = request.node.get_closest_marker("moldau_cluster")
    args, named = (list(mark.args), dict(mark.kwargs)) if mark else ([], {})
    brokers = args.pop(0) if args else named.pop("brokers", 3)
    settings = args.pop(0) if args else named.pop("settings", {})
    with Cluster(brokers, {**moldau_settings, **settings}, *args, **named) as cluster:
        yield cluster


@pytest.fixture
def moldau_registry() -> Iterator[Registry]:
    """An empty schema registry for one test. It needs no broker."""
    from moldau.testing import Registry

    with Registry() as registry:
        yield registry


@pytest.fixture
def moldau_faults(moldau_broker: Broker) -> Iterator[Faults]:
    """The faults of the run's broker; all of them end with the test."""
    yield moldau_broker.faults
    moldau_broker.faults.clear()


@pytest.fixture
def moldau_new_topic(moldau_broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """`moldau_new_topic(partitions=1, configs=None)` creates an empty topic and returns its name."""
    from uuid import uuid4

    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:MAX_NAME].strip("-")

    def create(partitions: int = 1, configs: Mapping[str, str | int | float | bool] | None = None) -> str:
        name = f"{readable}.{uuid4().hex[:12]}"
        moldau_broker.create_topic(name, partitions, configs)
        return name

    return create


@pytest.fixture
def moldau_topic(moldau_new_topic: Callable[..., str], request: pytest.FixtureRequest) -> str:
    """An empty topic that no other test uses; with one partition, unless the test has a marker."""
    mark = request.node.get_closest_marker("moldau_topic")
    return moldau_new_topic(*mark.args, **mark.kwargs) if mark else moldau_new_topic()
