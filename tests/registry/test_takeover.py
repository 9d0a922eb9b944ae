"""Registries that are killed and frozen under load: no id is given twice, no acknowledged schema is lost.

`make test` runs one kill and one freeze, `make soak` many of both, and the same with Apache Kafka.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.compat.apache_kafka.jars import JarsUnavailableError, fetch_jars
from tests.compat.apache_kafka.processes import ApacheKafka
from tests.registry.takeover import Load, allow_any_schema, check, leader_of
from tests.support.process import BrokerProcess
from tests.support.registry_process import RegistryServer
from tests.support.waiting import wait_until

Count = Callable[[int, int], int]
SOME = 10
"""Registrations between two events of a test."""


BROKER = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture
def brokers(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[str]:
    given: str | None = pytestconfig.getoption("--bootstrap")
    if given is not None:
        yield given
        return
    with BrokerProcess(tmp_path / "data", BROKER) as broker:
        yield broker.bootstrap


def kill_and_freeze(bootstrap: str, topic: str, rounds: int, choices: random.Random, kinds: list[str]) -> None:
    settings = {"kafkastore.topic": topic, "schema.registry.group.id": f"{topic}-group"}
    with ExitStack() as ends:
        servers = [RegistryServer(bootstrap, settings) for _ in range(2)]
        for server in servers:
            ends.callback(server.__exit__, None, None, None)
            server.launch()
        for server in servers:
            server.wait_ready()
        allow_any_schema(servers[0])
        with Load(servers) as load:
            load.wait_for_more(SOME)
            for number in range(rounds):
                for server in servers:
                    if not server.alive:
                        server.start()
                victim = leader_of(servers)
                if kinds[number % len(kinds)] == "kill":
                    victim.kill()
                    if number + 1 < rounds and choices.random() < 0.5:
                        continue  # it may be back before another one leads
                else:
                    victim.freeze()
                    load.wait_for_more(SOME)  # the other one leads, and the frozen one has requests in its sockets
                    victim.thaw()
                load.wait_for_more(SOME)
        for server in servers:
            if not server.alive:
                server.start()
        check(servers, load)
        for server in servers:
            assert server.stop() == 0, server.log


@pytest.mark.timeout(600)
def test_a_killed_and_a_frozen_leader_lose_nothing(
    brokers: str, count: Count, seed: int, new_name: Callable[[], str]
) -> None:
    kill_and_freeze(brokers, new_name(), count(2, 60), random.Random(seed), ["freeze", "kill"])


@pytest.mark.timeout(600)
def test_killed_brokers_lose_nothing(tmp_path: Path, soak: bool, count: Count) -> None:
    """The broker is killed under load as well: what was acknowledged is on its disk."""
    if not soak:
        pytest.skip("killing the broker: with make soak")
    with BrokerProcess(tmp_path / "data", BROKER) as broker, ExitStack() as ends:
        servers = [RegistryServer(broker.bootstrap) for _ in range(2)]
        for server in servers:
            ends.callback(server.__exit__, None, None, None)
            server.start()
        allow_any_schema(servers[0])
        with Load(servers) as load:
            for _ in range(count(1, 10)):
                load.wait_for_more(SOME)
                broker.kill()
                broker.start()
            load.wait_for_more(SOME)
        wait_until(lambda: all(_healthy(server) for server in servers), "all registries are healthy", 120.0)
        check(servers, load)


def _healthy(server: RegistryServer) -> bool:
    return httpx.get(f"{server.url}/health", timeout=60.0).status_code == 200


@pytest.mark.needs_java
@pytest.mark.timeout(1200)
def test_apache_kafka_holds_the_schemas_as_well(
    tmp_path: Path, soak: bool, count: Count, seed: int, new_name: Callable[[], str]
) -> None:
    if not soak:
        pytest.skip("Apache Kafka: with make soak")
    try:
        jars = fetch_jars()
    except JarsUnavailableError as reason:
        pytest.skip(f"Apache Kafka's jars cannot be had: {reason}")
    with ApacheKafka(jars, tmp_path, BROKER) as kafka:
        kill_and_freeze(kafka.bootstrap, new_name(), count(2, 10), random.Random(seed), ["kill", "freeze"])
