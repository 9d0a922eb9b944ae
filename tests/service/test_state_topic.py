"""State topic: a compacted topic as a table, with one writer that fences the one before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.aio import Admin, Producer
from moldau.client.admin import ConfigResource, NewTopic
from moldau.client.errors import ClosedError, MoldauError
from moldau.service import state_topic
from moldau.service.state_topic import Fenced, StateRecord, StateTopic, StateTopicError
from moldau.testing import Broker
from tests.support.waiting import wait_until_async


@asynccontextmanager
async def opened(topic: str, bootstrap: str, **options: Any) -> AsyncIterator[StateTopic]:
    table = StateTopic(topic, {"bootstrap.servers": bootstrap}, **options)
    await table.start()
    try:
        yield table
    finally:
        await table.close()


async def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        await admin.create_topics(NewTopic(topic, partitions, 1, named))


# -- the topic ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_would_delete_state_is_refused(bootstrap: str, unused_name: str, policy: str) -> None:
    async def run() -> None:
        await create(bootstrap, unused_name, cleanup_policy=policy)
        with pytest.raises(StateTopicError, match=r"cleanup\.policy=.*moldau configs alter --topic"):
            async with opened(unused_name, bootstrap):
                pass

    asyncio.run(run())


def test_a_topic_with_more_partitions_is_refused_where_one_is_wanted(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        await create(bootstrap, unused_name, 3, cleanup_policy="compact")
        with pytest.raises(StateTopicError, match="has 3 partitions, and must have exactly one"):
            async with opened(unused_name, bootstrap, partitions=1):
                pass
        async with opened(unused_name, bootstrap, partitions=5) as table:
            assert table.partition_count == 3

    asyncio.run(run())


def test_more_replicas_than_brokers_are_refused_unless_fewer_are_allowed(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        with pytest.raises(StateTopicError, match="cannot be created with 1 partitions and replication factor 3"):
            async with opened(unused_name, bootstrap, replication_factor=3):
                pass
        async with opened(unused_name, bootstrap, replication_factor=3, fewer_replicas=True):
            pass

    asyncio.run(run())


def test_a_missing_topic_is_created_compacted(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        async with opened(unused_name, bootstrap, partitions=5, topic_configs={"segment.ms": "60000"}) as table:
            assert table.partition_count == 5
        async with Admin(bootstrap_servers=bootstrap) as admin:
            resource = ConfigResource.topic(unused_name)
            found = (await admin.describe_configs(resource))[resource]
        assert found["cleanup.policy"].value == "compact"
        assert found["segment.ms"].value == "60000"

    asyncio.run(run())


def test_two_processes_that_start_at_once_share_the_topic(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        tables = [StateTopic(unused_name, {"bootstrap.servers": bootstrap}) for _ in range(4)]
        await asyncio.gather(*(table.start() for table in tables))
        await tables[0].write(b"a", b"1")
        await asyncio.gather(*(table.read_to_end() for table in tables))
        assert [table.table[b"a"].value for table in tables] == [b"1"] * 4
        await asyncio.gather(*(table.close() for table in tables))

    asyncio.run(run())


# -- reading and writing -----------------------------------------------------------------------------------------------


def test_a_write_is_readable_when_it_returns(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        seen: list[StateRecord] = []
        async with opened(unused_name, bootstrap, on_record=seen.append) as table:
            for number in range(50):
                written = await table.write(b"key", b"%d" % number)
                assert seen[-1] == written
                assert table.table[b"key"].value == b"%d" % number
                assert table.position() == written.offset + 1

    asyncio.run(run())


def test_a_tombstone_removes_the_key(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        async with opened(unused_name, bootstrap) as table:
            await table.write_all([(b"a", b"1"), (b"b", b"2"), (b"a", None)])
            assert list(table.table) == [b"b"]
        async with opened(unused_name, bootstrap) as again:
            assert list(again.table) == [b"b"]

    asyncio.run(run())


def test_read_to_end_sees_what_another_process_wrote_before(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        async with opened(unused_name, bootstrap) as writer, opened(unused_name, bootstrap) as reader:
            for number in range(20):
                await writer.write(b"key", b"%d" % number)
                await reader.read_to_end()
                assert reader.table[b"key"].value == b"%d" % number

    asyncio.run(run())


def test_writes_go_on_after_a_restart_of_the_broker(own_broker: Broker, unused_name: str) -> None:
    async def run() -> None:
        async with opened(unused_name, own_broker.bootstrap_servers) as table:
            await table.write(b"a", b"1")
            await asyncio.to_thread(own_broker.restart)
            await table.write(b"b", b"2")
            assert sorted(table.table) == [b"a", b"b"]

    asyncio.run(run())


# -- one writer --------------------------------------------------------------------------------------------------------


def test_a_later_claim_fences_the_writer_before(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        mine = {"transactional_id": f"owner-of-{unused_name}"}
        async with opened(unused_name, bootstrap, **mine) as old, opened(unused_name, bootstrap, **mine) as new:
            await old.claim()
            await old.write(b"a", b"old")
            await new.claim()
            assert new.table[b"a"].value == b"old"
            await new.write(b"a", b"new")
            with pytest.raises(Fenced, match="another process has claimed"):
                await old.write(b"a", b"too late")
            with pytest.raises(Fenced, match="has not claimed"):
                await old.write(b"a", b"too late again")
            await asyncio.gather(old.read_to_end(), new.read_to_end())
            assert old.table[b"a"].value == new.table[b"a"].value == b"new"
            await old.claim()
            await old.write(b"a", b"mine again")
            with pytest.raises(Fenced):
                await new.write(b"a", b"late")

    asyncio.run(run())


def test_a_write_before_the_claim_is_refused(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        async with opened(unused_name, bootstrap, transactional_id=f"owner-of-{unused_name}") as table:
            with pytest.raises(Fenced, match="has not claimed"):
                await table.write(b"a", b"1")
            await table.read_to_end()
            assert table.table == {}

    asyncio.run(run())


def test_the_transaction_that_a_dead_writer_left_open_is_never_seen(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        name = f"owner-of-{unused_name}"
        async with opened(unused_name, bootstrap, transactional_id=name) as table:
            dead = await Producer(bootstrap_servers=bootstrap, transactional_id=name).start()
            await dead.init_transactions()
            await dead.begin_transaction()
            await (await dead.send(unused_name, b"half", b"a", partition=0))
            await table.claim()  # as a new owner after a kill
            await table.write(b"b", b"whole")
            assert list(table.table) == [b"b"]
            await dead.close(timeout=0.0)

    asyncio.run(run())


def test_writes_of_one_call_appear_together_or_not_at_all(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        async with opened(unused_name, bootstrap, transactional_id=f"owner-of-{unused_name}") as table:
            await table.claim()
            with pytest.raises(MoldauError):
                await table.write_all([(b"a", b"1"), (b"b", b"x" * 5_000_000)])
            await table.claim()
            assert table.table == {}
            await table.write_all([(b"a", b"1"), (b"b", b"2")])
            assert sorted(table.table) == [b"a", b"b"]

    asyncio.run(run())


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_record_that_cannot_be_applied_ends_the_table(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        failures: list[MoldauError] = []

        def refuse(record: StateRecord) -> None:
            raise ValueError("not of this service")

        async with opened(unused_name, bootstrap, on_record=refuse, on_failure=failures.append) as table:
            with pytest.raises(StateTopicError, match="not of this service"):
                await table.write(b"a", b"1")
            with pytest.raises(StateTopicError):
                await table.write(b"b", b"2")
            with pytest.raises(StateTopicError):
                await table.read_to_end()
            assert len(failures) == 1

    asyncio.run(run())


def test_a_deleted_topic_ends_the_table(bootstrap: str, unused_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_topic, "GONE_AFTER_S", 0.0)
    monkeypatch.setattr(state_topic, "CHECK_EVERY_S", 0.1)
    monkeypatch.setattr(state_topic, "IDLE_POLL_S", 0.1)

    async def run() -> None:
        failures: list[MoldauError] = []
        async with opened(unused_name, bootstrap, on_failure=failures.append) as table:
            await table.write(b"a", b"1")
            async with Admin(bootstrap_servers=bootstrap) as admin:
                await admin.delete_topics(unused_name)
            await wait_until_async(lambda: failures, "the failure")
            with pytest.raises(StateTopicError, match="was deleted"):
                await table.write(b"b", b"2")

    asyncio.run(run())


def test_waiting_calls_end_when_the_table_closes(own_broker: Broker, unused_name: str) -> None:
    async def run() -> None:
        table = StateTopic(unused_name, {"bootstrap.servers": own_broker.bootstrap_servers})
        await table.start()
        await asyncio.to_thread(own_broker.stop)
        waiting = asyncio.create_task(table.read_to_end())
        await asyncio.sleep(0)
        await table.close()
        with pytest.raises(ClosedError):
            await waiting
        with pytest.raises(ClosedError):
            await table.write(b"a", b"1")

    asyncio.run(run())
