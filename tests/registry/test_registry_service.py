"""Registries over one topic: leader, reads after writes, fencing, and what a registry does without brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.aio import Producer
from moldau.registry import registry_service
from moldau.registry.refusals import NotLeader, RegistryRefusal
from moldau.registry.registry import NewSchema, RegisteredSchema
from moldau.registry.registry_metrics import RegistryMetrics
from moldau.registry.registry_service import ServiceSettings, TopicRegistry
from moldau.service.http_settings import HttpAddress
from moldau.testing import Broker
from tests.support.waiting import loop_turns, wait_until_async

Names = Callable[[], str]
LONG_S = 90.0


def text_of(number: int) -> str:
    return json.dumps({"type": "record", "name": f"R{number}", "fields": []}, separators=(",", ":"))


@asynccontextmanager
async def running(bootstrap: str, topic: str, port: int = 1, **options: Any) -> AsyncIterator[TopicRegistry]:
    settings: dict[str, Any] = {
        "client": {"bootstrap.servers": bootstrap},
        "address": HttpAddress("http", "127.0.0.1", port),
        "group_id": f"{topic}-group",
        "topic": topic,
        "replication_factor": 1,
        "session_timeout_ms": 60_000,  # a process that gets no time for seconds must stay a member
        "heartbeat_interval_ms": 200,
        **options,
    }
    registry = TopicRegistry(ServiceSettings(**settings))
    try:
        await registry.start()
        yield registry
    finally:
        await registry.close()


async def leading(registry: TopicRegistry) -> TopicRegistry:
    await wait_until_async(lambda: registry.leads, "the registry leads", LONG_S)
    return registry


async def written(registry: TopicRegistry, subject: str, number: int) -> RegisteredSchema:
    """Register, again and again until the registry leads and does it."""
    while True:
        try:
            return (await registry.register(subject, NewSchema(text_of(number)))).registered
        except (NotLeader, RegistryRefusal):
            await loop_turns()


def test_a_registry_that_does_not_lead_names_the_leader_and_sees_its_writes(bootstrap: str, new_name: Names) -> None:
    async def run() -> None:
        topic = new_name()
        async with running(bootstrap, topic, 1) as first:
            await leading(first)
            async with running(bootstrap, topic, 2) as second:
                await wait_until_async(lambda: second.leader_url, "the second knows the leader", LONG_S)
                assert (second.leads, second.leader_url) == (False, "http://127.0.0.1:1")
                with pytest.raises(NotLeader) as refusal:
                    await second.register("a", NewSchema(text_of(1)))
                assert refusal.value.url == "http://127.0.0.1:1"
                for number in range(10):
                    found = await first.register("a", NewSchema(text_of(number)), force=True)
                    await second.fresh()
                    assert second.version("a", "latest").registered == found.registered
                # Nothing has to be written: the leader is not asked.
                assert (await second.register("a", NewSchema(text_of(3)))).registered.version == 4
                with pytest.raises(RegistryRefusal):
                    await second.register("a", NewSchema("no schema"))

    asyncio.run(run())


def test_when_the_leader_ends_another_one_continues_its_ids(bootstrap: str, new_name: Names) -> None:
    async def run() -> None:
        topic = new_name()
        async with running(bootstrap, topic, 2) as second:
            await leading(second)
            async with running(bootstrap, topic, 1) as first:
                await wait_until_async(lambda: first.leader_url, "the second knows the leader", LONG_S)
                # It leads on, although the other one has the smaller URL.
                assert first.leader_url == "http://127.0.0.1:2"
                assert (await second.register("a", NewSchema(text_of(1)))).registered.id == 1
                await second.delete_subject("a")
                await second.delete_subject("a", permanent=True)
                await second.close()
                await leading(first)
                assert (await first.register("a", NewSchema(text_of(2)))).registered.id == 2
        async with running(bootstrap, topic, 3) as third:
            assert third.by_id(2).registered.schema.text == text_of(2)
            assert third.max_id() == 2

    asyncio.run(run())


def test_two_leaders_of_one_topic_fence_each_other(
    bootstrap: str, new_name: Names, count: Callable[[int, int], int]
) -> None:
    """Registries of two groups lead at the same time, as a leader does that was frozen and does not know it yet."""
    acknowledged: list[tuple[int, str]] = []

    async def write(registry: TopicRegistry, numbers: range) -> None:
        for number in numbers:
            found = await written(registry, f"s{number}", number)
            acknowledged.append((found.id, text_of(number)))

    async def run() -> None:
        topic, each = new_name(), count(10, 300)
        async with running(bootstrap, topic, 1) as one, running(bootstrap, topic, 2, group_id=new_name()) as two:
            await leading(one)
            await leading(two)
            await asyncio.gather(write(one, range(each)), write(two, range(each, 2 * each)))
            assert one.leads
            assert two.leads
        async with running(bootstrap, topic, 3) as third:
            assert {one: third.by_id(one).registered.schema.text for one, _ in acknowledged} == dict(acknowledged)
            assert len(dict(acknowledged)) == len(acknowledged) == 2 * each
            assert len(third.schemas()) == 2 * each

    asyncio.run(run())


def test_concurrent_writes_have_ids_of_their_own(bootstrap: str, new_name: Names) -> None:
    async def run() -> None:
        async with running(bootstrap, new_name()) as registry:
            await leading(registry)
            work = [registry.register(f"s{number % 5}", NewSchema(text_of(number)), force=True) for number in range(20)]
            work += [registry.register("same", NewSchema(text_of(99))) for _ in range(5)]
            found = [one.registered for one in await asyncio.gather(*work)]
            page = "".join(str(one) for one in RegistryMetrics(registry).collect())
            assert "name='moldau_registry_leads', labels={}, value=True" in page
            assert "name='moldau_registry_max_id', labels={'context': '.'}, value=21" in page
            assert sorted(one.id for one in found[:20]) == [one for one in range(1, 22) if one != found[-1].id]
            assert len({(one.id, one.version) for one in found[20:]}) == 1

    asyncio.run(run())


def test_a_registry_that_may_not_lead_waits_for_one_that_may(
    bootstrap: str, new_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_service, "LEADER_WAIT_S", 0.5)

    async def run() -> None:
        topic = new_name()
        async with running(bootstrap, topic, 1, may_lead=False) as follower:
            with pytest.raises(NotLeader) as refusal:
                await follower.register("a", NewSchema(text_of(1)))
            assert refusal.value.url is None
            async with running(bootstrap, topic, 2) as leader:
                await leading(leader)
                await leader.register("a", NewSchema(text_of(1)))
                await wait_until_async(lambda: follower.leader_url, "the follower knows the leader", LONG_S)
                assert follower.leader_url == "http://127.0.0.1:2"
                await follower.fresh()
                assert follower.subjects() == ["a"]

    asyncio.run(run())


def test_two_registries_with_one_address_do_not_lead(
    bootstrap: str, new_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_service, "LEADER_WAIT_S", 0.5)

    async def run() -> None:
        topic = new_name()
        async with running(bootstrap, topic, 1) as one, running(bootstrap, topic, 1) as two:
            await wait_until_async(lambda: one.problem and two.problem, "both know that they collide", LONG_S)
            assert "host.name" in (one.problem or "")
            with pytest.raises(RegistryRefusal):
                await one.register("a", NewSchema(text_of(1)))

    asyncio.run(run())


def test_records_of_another_format_are_skipped(bootstrap: str, new_name: Names) -> None:
    async def run() -> None:
        topic = new_name()
        async with running(bootstrap, topic) as registry:
            await leading(registry)
            await registry.register("a", NewSchema(text_of(1)))
            async with Producer(bootstrap_servers=bootstrap) as producer:
                await (await producer.send(topic, b"rubbish", b"rubbish"))
                other = b'{"subject":"b","version":1,"id":1,"schema":"\\"int\\"","deleted":false}'
                await (await producer.send(topic, other, b'{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}'))
            assert (await registry.register("c", NewSchema(text_of(2)))).registered.id == 2
            assert registry.subjects() == ["a", "c"]
            assert registry.problem is None

    asyncio.run(run())


def test_without_brokers_reads_go_on_and_writes_are_refused(new_name: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_service, "FRESH_TIMEOUT_S", 0.5)
    monkeypatch.setattr(registry_service, "LEADER_WAIT_S", 0.5)

    async def run() -> None:
        with Broker({"group.min.session.timeout.ms": 500}) as broker:
            async with running(
                broker.bootstrap_servers, new_name(), write_timeout_s=1.0, session_timeout_ms=3_000
            ) as registry:
                await leading(registry)
                found = await written(registry, "a", 1)
                await asyncio.to_thread(broker.stop)
                with pytest.raises((RegistryRefusal, NotLeader)):
                    await registry.register("a", NewSchema(text_of(2)), force=True)
                await wait_until_async(lambda: not registry.leads, "the membership runs out", LONG_S)
                await registry.fresh()
                assert registry.version("a", "latest").registered == found
                with pytest.raises((RegistryRefusal, NotLeader)):
                    await registry.register("b", NewSchema(text_of(3)))
                await asyncio.to_thread(broker.start)
                assert (await asyncio.wait_for(written(registry, "b", 3), LONG_S)).id in (2, 3)

    asyncio.run(run())
