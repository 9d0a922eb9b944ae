"""Registries on a broker with logins and access control: the rights that suffice, and how a denial reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from moldau.client.errors import MoldauError
from moldau.registry import registry_service
from moldau.registry.refusals import NotLeader, RegistryRefusal
from moldau.registry.registry import NewSchema
from moldau.registry.registry_service import ServiceSettings, TopicRegistry
from moldau.service.http_settings import HttpAddress
from moldau.testing import Broker, Security, allow
from tests.support.waiting import wait_until_async

USERS = ("registry", "reader", "nobody")


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    rules = [
        *(allow("registry", operation, topic="_schemas") for operation in ("create", "read", "write")),
        allow("registry", "write", transactional_id="schema-registry-_schemas"),
        allow("registry", "read", group="schema-registry"),
        allow("reader", "read", topic="_schemas"),
    ]
    security = Security(users={name: f"{name}-password" for name in USERS}, rules=rules)
    settings = {"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": 0}
    with Broker(settings, security=security) as broker:
        yield broker


def registry_of(broker: Broker, user: str, port: int) -> TopicRegistry:
    address = HttpAddress("http", "127.0.0.1", port)
    return TopicRegistry(ServiceSettings(broker.client_settings(user), address, replication_factor=1))


def test_the_documented_rights_suffice_and_fewer_do_not(secured: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_service, "LEADER_WAIT_S", 60.0)

    async def run() -> None:
        owner, reader, nobody = (registry_of(secured, user, port) for port, user in enumerate(USERS, 1))
        try:
            await owner.start()
            assert (await owner.register("a", NewSchema('"int"'))).registered.id == 1
            await reader.start()
            assert reader.subjects() == ["a"]
            await wait_until_async(lambda: reader.problem, "the reader may not join the group", 60.0)
            assert "schema-registry" in (reader.problem or "")
            with pytest.raises((RegistryRefusal, NotLeader)):
                await reader.register("b", NewSchema('"int"'))
            with pytest.raises(MoldauError, match="_schemas"):
                await nobody.start()
        finally:
            for one in (owner, reader, nobody):
                await one.close()

    asyncio.run(run())
