"""Connection rates: of one address, of a listener and of the whole broker."""

from __future__ import annotations

import pytest

from moldau.broker.quotas import measured_clients
from moldau.broker.quotas.connection_rates import ConnectionRates
from moldau.broker.quotas.measured_clients import EXPIRY_CHECK_S
from moldau.broker.quotas.rate_limit import QuotaWindow
from moldau.cluster.security_image import SecurityImage
from moldau.security.quota_entities import CONNECTION_CREATION_RATE, DEFAULT, QuotaEntity
from moldau.settings import BrokerSettings

SAVED_UP_S = 10


class World:
    def __init__(self, protected: str | None = None, **settings: str) -> None:
        self.now = 1000.0
        texts = {"listeners": "CLIENTS://:0,BROKERS://:0", **{k.replace("_", "."): v for k, v in settings.items()}}
        self.settings = BrokerSettings(texts)
        self.rates = ConnectionRates(QuotaWindow(), lambda: self.settings, lambda: self.now, protected)

    def set(self, **rates: float) -> None:
        self.rates.follow(
            SecurityImage(
                client_quotas={
                    QuotaEntity(ip=DEFAULT if ip == "default" else ip.replace("_", ".")[2:]): {
                        CONNECTION_CREATION_RATE: rate
                    }
                    for ip, rate in rates.items()
                }
            )
        )

    def refused_of(self, address: str, count: int) -> int:
        return sum(self.rates.address_pause(address) > 0 for _ in range(count))


def test_without_a_quota_no_address_is_measured() -> None:
    world = World()
    assert world.refused_of("10.0.0.1", 1000) == 0
    assert len(world.rates) == 0


def test_an_address_may_open_what_it_has_saved_up_and_then_its_rate() -> None:
    world = World()
    world.set(default=2)
    assert world.refused_of("10.0.0.1", 100) == 100 - SAVED_UP_S * 2 - 1
    assert world.refused_of("10.0.0.2", 1) == 0
    world.now += 5
    assert world.refused_of("10.0.0.1", 100) == 90


def test_a_refused_connection_does_not_count_and_waits_at_most_a_sample() -> None:
    world = World()
    world.set(default=0.5)
    world.refused_of("10.0.0.1", 1000)
    assert world.rates.address_pause("10.0.0.1") == 1.0
    world.now += 2
    assert world.rates.address_pause("10.0.0.1") == 0.0


def test_an_address_of_its_own_entity_has_that_rate() -> None:
    world = World()
    world.set(default=100, ip10_0_0_1=1)
    assert world.refused_of("10.0.0.1", 50) > 0
    assert world.refused_of("10.0.0.2", 50) == 0


def test_idle_addresses_are_forgotten_and_their_number_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.set(default=1)
    for number in range(5):
        world.refused_of(f"10.0.0.{number}", 1)
    world.now += EXPIRY_CHECK_S
    world.refused_of("10.0.0.99", 1)
    assert len(world.rates) == 1
    monkeypatch.setattr(measured_clients, "MAX_MEASURED", 10)
    for number in range(100):
        world.refused_of(f"10.0.1.{number}", 5)
    assert len(world.rates) == 10


def test_a_listener_without_a_rate_does_not_pause() -> None:
    world = World()
    assert not any(world.rates.listener_pause("CLIENTS") for _ in range(1000))


def test_the_rate_of_the_broker_is_shared_by_its_listeners() -> None:
    world = World(max_connection_creation_rate="1")
    assert not any(world.rates.listener_pause("CLIENTS") for _ in range(SAVED_UP_S))
    assert world.rates.listener_pause("BROKERS") == pytest.approx(1.0)
    assert world.rates.listener_pause("CLIENTS") == pytest.approx(2.0)


def test_the_listener_for_brokers_is_limited_by_its_own_rate_only() -> None:
    world = World("BROKERS", max_connection_creation_rate="1", listener_name_brokers_max_connection_creation_rate="3")
    assert not any(world.rates.listener_pause("BROKERS") for _ in range(SAVED_UP_S * 3))
    assert world.rates.listener_pause("BROKERS") == pytest.approx(1 / 3)
    assert world.rates.listener_pause("CLIENTS") == 0.0


def test_a_listener_has_its_own_rate_beside_that_of_the_broker() -> None:
    world = World(max_connection_creation_rate="100", listener_name_clients_max_connection_creation_rate="1")
    assert not any(world.rates.listener_pause("CLIENTS") for _ in range(SAVED_UP_S))
    assert world.rates.listener_pause("CLIENTS") == pytest.approx(1.0)
    assert world.rates.listener_pause("BROKERS") == 0.0
