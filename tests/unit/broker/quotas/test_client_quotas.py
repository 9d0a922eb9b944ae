"""Client quotas: limits that clients share, changes that apply at once, and a bounded number of measured clients."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.broker.quotas import measured_clients
from moldau.broker.quotas.client_quotas import ClientLimits, ClientQuotas, QuotaWindows
from moldau.broker.quotas.measured_clients import EXPIRY_CHECK_S
from moldau.cluster.security_image import NO_SECURITY, SecurityImage
from moldau.security import ANONYMOUS, Principal
from moldau.security.quota_entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)

ALICE = Principal("User", "alice")


class Client:
    def __init__(self, principal: Principal = ALICE) -> None:
        self.principal = principal
        self.remembered: ClientLimits | None = None


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.changes = 0
        self.quotas = ClientQuotas(QuotaWindows(), lambda: self.now, self.changed)

    def changed(self) -> None:
        self.changes += 1

    def set(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self.quotas.follow(SecurityImage(client_quotas=quotas))


def test_without_quotas_nothing_is_active() -> None:
    world = World()
    world.quotas.follow(NO_SECURITY)
    assert not world.quotas.active
    assert not world.quotas.timed
    assert world.changes == 0


def test_a_connection_rate_alone_does_not_slow_down_requests() -> None:
    world = World()
    world.set({QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 1.0}})
    assert not world.quotas.active


def test_each_quota_has_its_own_limit_in_its_unit() -> None:
    world = World()
    values = {
        PRODUCER_BYTE_RATE: 1.0,
        CONSUMER_BYTE_RATE: 2.0,
        REQUEST_PERCENTAGE: 50.0,
        CONTROLLER_MUTATION_RATE: 4.0,
    }
    world.set({QuotaEntity("alice"): values})
    limits = world.quotas.of(Client(), "app")
    assert limits.produce is not None and limits.produce.rate == 1.0
    assert limits.fetch is not None and limits.fetch.rate == 2.0
    assert limits.request is not None and limits.request.rate == 0.5
    assert limits.request.longest_s == 1.0
    assert limits.mutations is not None and limits.mutations.rate == 4.0
    assert world.quotas.timed


def test_clients_of_one_user_share_its_rate_and_others_are_unlimited() -> None:
    world = World()
    world.set({QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 100.0}})
    first, second = world.quotas.of(Client(), "a"), world.quotas.of(Client(), "b")
    assert first.produce is second.produce is not None
    assert world.quotas.of(Client(ANONYMOUS), "a").produce is None


def test_a_default_gives_each_user_a_rate_of_its_own() -> None:
    world = World()
    world.set({QuotaEntity(DEFAULT): {PRODUCER_BYTE_RATE: 100.0}})
    alice, anonymous = world.quotas.of(Client(), "a"), world.quotas.of(Client(ANONYMOUS), "a")
    assert alice.produce is not None and anonymous.produce is not None
    assert alice.produce is not anonymous.produce


def test_a_session_keeps_its_limits_until_client_id_principal_or_quotas_change() -> None:
    world = World()
    world.set({QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 100.0}})
    client = Client()
    limits = world.quotas.of(client, "a")
    assert world.quotas.of(client, "a") is limits
    assert world.quotas.of(client, "b") is not limits
    limits = world.quotas.of(client, "b")
    client.principal = ANONYMOUS
    assert world.quotas.of(client, "b").produce is None


def test_a_changed_rate_applies_to_the_use_that_was_measured_before() -> None:
    world = World()
    world.set({QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 100.0}})
    client = Client()
    before = world.quotas.of(client, "a").produce
    assert before is not None
    before.charge(500, world.now)
    world.set({QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 1000.0}})
    after = world.quotas.of(client, "a").produce
    assert after is before
    assert after.pause(world.now) == pytest.approx(0.3)
    world.set({})
    assert world.quotas.of(client, "a").produce is None
    assert not world.quotas.active
    assert world.changes == 3


def test_an_image_with_equal_quotas_changes_nothing() -> None:
    world = World()
    world.set({QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 100.0}})
    client = Client()
    limits = world.quotas.of(client, "a")
    world.set({QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 100.0}})
    assert world.quotas.of(client, "a") is limits
    assert world.changes == 1


def test_idle_clients_are_forgotten_and_busy_ones_are_not() -> None:
    world = World()
    world.set({QuotaEntity(None, DEFAULT): {PRODUCER_BYTE_RATE: 1.0}})
    busy = Client()
    for name in ("idle", "idler"):
        world.quotas.of(Client(), name)
    world.now += EXPIRY_CHECK_S
    limit = world.quotas.of(busy, "busy").produce
    assert limit is not None
    assert len(world.quotas) == 1
    world.now += EXPIRY_CHECK_S
    limit.charge(10, world.now)
    world.quotas.of(Client(), "new")
    assert len(world.quotas) == 2
    assert world.quotas.of(busy, "busy").produce is limit


def test_the_number_of_measured_clients_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_clients, "MAX_MEASURED", 10)
    world = World()
    world.set({QuotaEntity(None, DEFAULT): {PRODUCER_BYTE_RATE: 1.0}})
    for number in range(100):
        limit = world.quotas.of(Client(), f"client-{number}").produce
        assert limit is not None
        limit.charge(10, world.now)
    assert len(world.quotas) == 10


def test_a_session_with_a_removed_limit_gets_the_one_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_clients, "MAX_MEASURED", 1)
    world = World()
    world.set({QuotaEntity(None, DEFAULT): {PRODUCER_BYTE_RATE: 1.0}})
    first, second = Client(), Client()
    world.quotas.of(first, "a")
    world.quotas.of(Client(), "b")  # removes the limit of "a"
    assert world.quotas.of(second, "a").produce is world.quotas.of(first, "a").produce
