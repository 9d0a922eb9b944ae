"""State topic and membership on a broker with logins and access control: what is allowed, and how a denial reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from moldau.client.errors import MoldauError
from moldau.service.state_topic import StateTopic, StateTopicError
from moldau.testing import Broker, Security, allow
from tests.service.members import Journal, member
from tests.support.waiting import wait_until_async

USERS = ("owner", "reader", "nobody")


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    rules = [
        *(allow("owner", operation, topic="state") for operation in ("create", "read", "write")),
        allow("owner", "write", transactional_id="owner"),
        allow("owner", "read", group="workers"),
        allow("reader", "read", topic="state"),
    ]
    security = Security(users={name: f"{name}-password" for name in USERS}, rules=rules)
    with Broker({"group.min.session.timeout.ms": 500}, security=security) as broker:
        yield broker


def table(broker: Broker, user: str, topic: str = "state") -> StateTopic:
    return StateTopic(topic, broker.client_settings(user), transactional_id="owner")


def test_an_owner_creates_claims_and_writes_without_the_right_to_see_settings(
    secured: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        state = table(secured, "owner")
        await state.start()
        await state.claim()
        await state.write(b"a", b"1")
        reader = table(secured, "reader")
        await reader.start()
        assert reader.table[b"a"].value == b"1"
        with pytest.raises(MoldauError, match="transactional"):
            await reader.claim()
        await reader.close()
        await state.close()

    with caplog.at_level(logging.WARNING, "moldau.service"):
        asyncio.run(run())
    assert "cannot check that the topic is compacted" in caplog.text


def test_a_topic_that_may_not_be_created_is_named(secured: Broker) -> None:
    async def run() -> None:
        state = table(secured, "nobody", "other")
        with pytest.raises((StateTopicError, MoldauError), match="other") as caught:
            await state.start(5.0)
        assert "password" not in str(caught.value)

    asyncio.run(run())


def test_a_wrong_password_ends_at_once_and_is_not_shown(secured: Broker) -> None:
    settings = {
        name: text.replace("owner-password", "hunter2") for name, text in secured.client_settings("owner").items()
    }

    async def run() -> None:
        state = StateTopic("state", settings)
        async with asyncio.timeout(5):
            with pytest.raises(MoldauError) as caught:
                await state.start()
        assert "hunter2" not in str(caught.value)

    asyncio.run(run())


def test_a_group_that_may_not_be_joined_ends_the_membership(secured: Broker) -> None:
    async def run() -> None:
        told, allowed = Journal(), Journal()
        denied = member("", "workers", "x", told, client=secured.client_settings("nobody"))
        one = member("", "workers", "y", allowed, client=secured.client_settings("owner"))
        await denied.start()
        await one.start()
        await wait_until_async(lambda: told.failure and allowed.work, "one is denied, the other has work")
        assert "workers" in str(told.failure)
        await denied.stop()
        await one.stop()

    asyncio.run(run())
