"""Fixtures for group tests: a server with short group time-outs, and members driven by one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau import Consumer
from tests.client.groups.members import Member
from tests.compat import wire
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection

QUICK_BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture(scope="session")
def bootstrap(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server under test."""
    given: str | None = pytestconfig.getoption("--bootstrap")
    if given is not None:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("groups") / "data", QUICK_BROKER) as broker:
        yield broker.bootstrap
        assert broker.alive(), broker.log
    assert " ERROR " not in broker.log, broker.log


@pytest.fixture(scope="session")
def session_timeout_ms(pytestconfig: pytest.Config) -> int:
    """The shortest session time-out that the server allows."""
    return 6_000 if pytestconfig.getoption("--bootstrap") is not None else 1_000


@pytest.fixture
def settings(bootstrap: str, session_timeout_ms: int, unused_name: Callable[[], str]) -> dict[str, Any]:
    """The settings of all members of the test's group."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": unused_name(),
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": session_timeout_ms,
        "metadata.max.age.ms": 500,
        "retry.backoff.ms": 20,
    }


@pytest.fixture
def produce(bootstrap: str) -> Callable[..., None]:
    """`produce(topic, count, partitions=1)`: write this many records to each partition, with values "0", "1", "2"…"""

    def send(topic: str, count: int, partitions: int = 1) -> None:
        with RawConnection(bootstrap) as connection:
            for index in range(partitions):
                wire.produced(connection, topic, *(b"%d" % number for number in range(count)), partition=index)

    return send


@pytest.fixture
def new_member(settings: dict[str, Any]) -> Iterator[Callable[..., Member]]:
    """`new_member("topic", group_protocol="consumer")`: a member of the test's group, closed after the test."""
    members: list[Member] = []

    def create(*topics: str, pattern: str | None = None, **changed: Any) -> Member:
        chosen = settings | {name.replace("_", "."): value for name, value in changed.items()}
        if chosen.get("group.protocol") == "consumer":
            del chosen["heartbeat.interval.ms"], chosen["session.timeout.ms"]
        member = Member(Consumer(chosen))
        members.append(member)
        member.consumer.subscribe(topics, pattern=pattern, listener=member)
        return member

    yield create
    for member in members:
        member.consumer.close()
