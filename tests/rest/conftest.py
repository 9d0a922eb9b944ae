"""Fixtures for tests of the REST proxy: one broker and one proxy for all tests, and secured ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from moldau.testing import Broker, Registry, Security
from tests.rest.rest_proxy import ServedProxy, served

_numbers = itertools.count(1)

ALICE, BOB = ("alice", "alice-s3cret"), ("bob", "bob-s3cret")


@pytest.fixture(scope="session")
def rest_broker() -> Iterator[Broker]:
    with Broker({"group.min.session.timeout.ms": "100"}) as broker:
        yield broker


@pytest.fixture(scope="session")
def rest_registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture(scope="session")
def proxy(rest_broker: Broker, rest_registry: Registry) -> Iterator[ServedProxy]:
    settings = {"bootstrap.servers": rest_broker.bootstrap_servers, "schema.registry.url": rest_registry.url}
    with served(settings) as found:
        yield found


@pytest.fixture
def new_name() -> Callable[[str], str]:
    return lambda text: f"{text}-{next(_numbers)}"


@pytest.fixture
def topic(rest_broker: Broker, new_name: Callable[[str], str]) -> str:
    name = new_name("topic")
    rest_broker.create_topic(name, 2)
    return name


@pytest.fixture(scope="session")
def secured_broker() -> Iterator[Broker]:
    """A broker with two users who may do nothing until a test allows it."""
    with Broker(security=Security(users=dict([ALICE, BOB]))) as broker:
        yield broker


def login_settings(broker: Broker) -> dict[str, str]:
    """Settings of a proxy whose users log in at the broker. It has no login of its own."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "authentication.method": "BASIC",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
    }


@pytest.fixture(scope="session")
def secured_proxy(secured_broker: Broker) -> Iterator[ServedProxy]:
    with served(login_settings(secured_broker)) as found:
        cluster = found.client(*ALICE).get("/v3/clusters").json()
        found.cluster_id = cluster["data"][0]["cluster_id"]
        yield found
