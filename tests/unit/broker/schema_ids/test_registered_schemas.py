"""Questions to the registry: asked once at a time, bounded, cached apart; closed connections do not disturb others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from moldau.broker.schema_ids import registered_schemas
from moldau.broker.schema_ids.registered_schemas import RegisteredSchemas, SchemaQuestion, SubjectRule
from moldau.host.threads import Threads
from moldau.schemas.errors import RegistryError
from moldau.schemas.registry_client import RegistryClient
from moldau.testing import Registry
from tests.support.waiting import wait_until_async

RULE = SubjectRule("t", False, "topic")


class SlowClient(RegistryClient):
    """A client whose answers wait until the test lets them go."""

    def __init__(self, url: str) -> None:
        super().__init__({"url": url, "max.retries": 0})
        self.gate = threading.Event()
        self.asked = 0

    def subjects_of_id(self, schema_id: int) -> list[str]:
        self.asked += 1
        assert self.gate.wait(60)
        return super().subjects_of_id(schema_id)


@asynccontextmanager
async def asking(
    registry: Registry, now: Callable[[], float] = lambda: 0.0, size: int = 10, missing_s: float = 60
) -> AsyncIterator[tuple[RegisteredSchemas, SlowClient]]:
    threads = Threads(2)
    client = SlowClient(registry.url)
    schemas = RegisteredSchemas(client, threads, now, size=size, missing_s=missing_s)
    try:
        yield schemas, client
    finally:
        client.gate.set()
        await schemas.close()
        await threads.close()


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry() as found:
        found.register("t-value", '"string"')
        yield found


def test_a_question_is_asked_once_for_all_who_wait(registry: Registry) -> None:
    async def run() -> None:
        question = SchemaQuestion(RULE, 1)
        async with asking(registry) as (schemas, client):
            first, second = (asyncio.create_task(schemas.ask([question])) for _ in range(2))
            await wait_until_async(lambda: client.asked == 1, "the question is asked")
            first.cancel()  # its connection is closed
            client.gate.set()
            assert await second == {question: None}
            assert first.cancelled()
            assert client.asked == 1
            assert schemas.is_known(question)

    asyncio.run(run())


def test_more_questions_than_the_limit_are_not_asked(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(registered_schemas, "MAX_QUESTIONS", 2)
        questions = [SchemaQuestion(RULE, number) for number in (1, 98, 99)]
        async with asking(registry) as (schemas, client):
            client.gate.set()
            found = await schemas.ask(questions)
            assert found[questions[0]] is None
            assert found[questions[1]] == "the schema registry has no schema with id 98"
            assert isinstance(found[questions[2]], RegistryError)
            assert schemas.why_missing(questions[2]) is None
            assert await schemas.ask(questions[2:]) == {questions[2]: "the schema registry has no schema with id 99"}

    asyncio.run(run())


def test_a_missing_id_is_forgotten_after_its_time(registry: Registry) -> None:
    async def run() -> None:
        time = 0.0
        question = SchemaQuestion(RULE, 5)
        async with asking(registry, lambda: time) as (schemas, client):
            client.gate.set()
            await schemas.ask([question])
            time = 59.9
            assert schemas.why_missing(question)
            time = 60.0
            assert schemas.why_missing(question) is None

    asyncio.run(run())


def test_invented_ids_do_not_displace_known_ones(registry: Registry) -> None:
    async def run() -> None:
        known = SchemaQuestion(RULE, 1)
        async with asking(registry, size=3) as (schemas, client):
            client.gate.set()
            await schemas.ask([known])
            invented = [SchemaQuestion(RULE, number) for number in range(100, 120)]
            await schemas.ask(invented)
            assert schemas.is_known(known)
            assert [one for one in invented if schemas.why_missing(one)] == invented[-3:]

    asyncio.run(run())


def test_closing_ends_the_wait(registry: Registry) -> None:
    async def run() -> None:
        async with asking(registry) as (schemas, client):
            waiting = asyncio.create_task(schemas.ask([SchemaQuestion(RULE, 1)]))
            await wait_until_async(lambda: client.asked == 1, "the question is asked")
            await schemas.close()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(run())
