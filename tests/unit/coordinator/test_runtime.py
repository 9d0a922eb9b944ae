"""Coordinator runtime: storing, replaying, replies after replication, loading, retries and timeouts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop

from moldau.broker.assembly import assemble
from moldau.broker.broker import Broker
from moldau.cluster.memory_store import MemoryStore, MemoryTree
from moldau.cluster.store import OpenStore
from moldau.cluster.topics import TopicRef
from moldau.coordinator.outcome import CoordinatorOutcome, TimerFired, TxnProducer
from moldau.coordinator.runtime import (
    CoordinatorRuntime,
    InternalTopic,
    RunningShard,
    Ticket,
    coordinator_error,
    key_hash,
)
from moldau.log.errors import LogError
from moldau.wire.errors import ErrorCode

E = ErrorCode
TOPIC = "__ledger"


class Put(NamedTuple):
    ticket: Any
    key: bytes
    value: bytes | None
    producer: TxnProducer | None = None


class Later(NamedTuple):
    ticket: Any
    milliseconds: int


class Ledger:
    """A shard that stores keys and values."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes | None] = {}
        self.pending: dict[int, dict[bytes, bytes | None]] = {}
        self.was_loaded = asyncio.Event()

    def replay(self, key: bytes, value: bytes | None) -> None:
        self.entries[key] = value

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        self.pending.setdefault(producer_id, {})[key] = value

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        pending = self.pending.pop(producer_id, {})
        if committed:
            self.entries.update(pending)

    def loaded(self, now_ms: int) -> CoordinatorOutcome:
        del now_ms
        self.was_loaded.set()
        return CoordinatorOutcome()

    def step(self, now_ms: int, event: Any) -> CoordinatorOutcome:
        out = CoordinatorOutcome()
        if isinstance(event, Put):
            out.producer = event.producer
            out.records.append((event.key, event.value))
            out.replies.append((event.ticket, ("put", event.key)))
        elif isinstance(event, Later):
            out.timers.append((event.ticket, now_ms + event.milliseconds))
        elif isinstance(event, TimerFired):
            out.replies.append((event.key, "time"))
        return out


@asynccontextmanager
async def running_broker(directory: Path, open_store: OpenStore | None = None) -> AsyncIterator[Broker]:
    broker = await assemble({"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"}, open_store=open_store)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def ledger_of(broker: Broker) -> CoordinatorRuntime[Ledger]:
    return CoordinatorRuntime(
        broker.groups.runtime.host, InternalTopic(TOPIC, 3, 3, {"cleanup.policy": "compact"}), lambda _: Ledger()
    )


def ask(coordination: CoordinatorRuntime[Ledger], key: str, event: Callable[[Ticket], Any]) -> asyncio.Future[Any]:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    coordination.send(key, event, Ticket(answer.set_result, answer.set_result))
    return answer


async def loaded(coordination: CoordinatorRuntime[Ledger]) -> None:
    for one in list(coordination._shards.values()):
        await one.shard.was_loaded.wait()


@pytest.mark.parametrize(
    ("key", "java_hash"), [("", 0), ("a", 97), ("group", 98629247), ("polygenelubricants", -(2**31)), ("😀", 1772899)]
)
def test_keys_have_the_hash_code_of_java(key: str, java_hash: int) -> None:
    assert key_hash(key) == java_hash & 0x7FFFFFFF


def test_errors_of_the_log_become_errors_of_the_coordinator() -> None:
    assert coordinator_error(E.NOT_ENOUGH_REPLICAS) == E.COORDINATOR_NOT_AVAILABLE
    assert coordinator_error(E.KAFKA_STORAGE_ERROR) == E.NOT_COORDINATOR
    assert coordinator_error(E.MESSAGE_TOO_LARGE) == E.UNKNOWN_SERVER_ERROR


def test_concurrent_requests_create_the_topic_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            assert await ask(coordination, "k", lambda ticket: Put(ticket, b"k", b"v")) == E.NOT_COORDINATOR
            codes = await asyncio.gather(*(coordination.ensure_topic() for _ in range(5)))
            assert codes == [E.NONE] * 5
            image = broker.image.topics[TOPIC]
            assert (len(image.partitions), image.replication_factor) == (3, 1)
            assert image.configs["cleanup.policy"] == "compact"

    asyncio.run(run())


def test_a_broker_whose_session_may_have_expired_is_no_coordinator_even_before_it_has_noticed(tmp_path: Path) -> None:
    async def run() -> None:
        tree = MemoryTree(session_timeout_s=60)
        async with running_broker(tmp_path, tree.open) as broker:
            coordination = ledger_of(broker)
            await coordination.ensure_topic()
            assert await ask(coordination, "k", lambda ticket: Put(ticket, b"k", b"v")) == ("put", b"k")
            session = broker.metadata.store
            assert isinstance(session, MemoryStore)
            session.suspend()
            assert await ask(coordination, "k", lambda ticket: Put(ticket, b"k", b"w")) == ("put", b"k")
            # as if the process had been paused that long and its timers had not run yet
            session.session_timeout_s = 0.0
            assert await ask(coordination, "k", lambda ticket: Put(ticket, b"k", b"x")) == E.NOT_COORDINATOR
            assert broker.metadata.registered

    asyncio.run(run())


def test_decisions_survive_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            await coordination.ensure_topic()
            for number in range(50):
                key = str(number)
                answer = await ask(
                    coordination,
                    key,
                    lambda ticket, key=key: Put(ticket, key.encode(), b"v"),  # type: ignore[misc]
                )
                assert answer == ("put", key.encode())

    async def second() -> None:
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            coordination.start()
            assert {type(coordination.shard_at(index)) for index in range(3)} <= {ErrorCode, RunningShard}
            await loaded(coordination)
            entries = [one.shard.entries for one in coordination.running()]
            assert sorted(key for some in entries for key in some) == sorted(str(n).encode() for n in range(50))
            for one in coordination.running():
                assert all(coordination.index_of(key.decode()) == one.partition.index for key in one.shard.entries)
                assert one.shard.was_loaded.is_set()

    asyncio.run(first())
    asyncio.run(second())


@pytest.mark.parametrize("committed", [True, False])
def test_records_of_a_transaction_wait_for_its_marker_also_after_a_restart(tmp_path: Path, committed: bool) -> None:
    producer = TxnProducer(77, 0)

    async def first() -> None:
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            await coordination.ensure_topic()
            for key in (b"k", b"l"):
                await ask(coordination, "k", lambda ticket, key=key: Put(ticket, key, b"v", producer))  # type: ignore[misc]
            found = coordination.find("k")
            assert isinstance(found, RunningShard)
            assert (found.shard.entries, len(found.shard.pending[77])) == ({}, 2)

    async def second() -> None:
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            coordination.start()
            await loaded(coordination)
            found = coordination.find("k")
            assert isinstance(found, RunningShard)
            assert len(found.shard.pending[77]) == 2
            end = found.partition.log.end_offset
            assert found.write_marker(producer, committed, 0) == end + 1
            assert (b"k" in found.shard.entries) == committed

    async def third() -> None:
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            coordination.start()
            await loaded(coordination)
            found = coordination.find("k")
            assert isinstance(found, RunningShard)
            assert (b"k" in found.shard.entries, found.shard.pending) == (committed, {})

    for part in (first, second, third):
        asyncio.run(part())


def test_a_decision_that_cannot_be_stored_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            await coordination.ensure_topic()
            found = coordination.find("k")
            assert isinstance(found, RunningShard)

            def refuse(*_: Any, **__: Any) -> None:
                raise LogError(E.KAFKA_STORAGE_ERROR, "no")

            with monkeypatch.context() as patch:
                patch.setattr(found, "_append", refuse)
                assert await ask(coordination, "k", lambda ticket: Put(ticket, b"k", b"v")) == E.NOT_COORDINATOR
            assert found.shard.entries == {}
            assert await ask(coordination, "k", lambda ticket: Put(ticket, b"k", b"w")) == ("put", b"k")
            assert found.shard.entries == {b"k": b"w"}

    asyncio.run(run())


def test_a_reply_waits_until_the_records_are_flushed_if_the_topic_requires_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            topic = InternalTopic(TOPIC, 1, 1, {"flush.messages": "1"})
            coordination: CoordinatorRuntime[Ledger] = CoordinatorRuntime(
                broker.groups.runtime.host, topic, lambda _: Ledger()
            )
            await coordination.ensure_topic()
            answer = ask(coordination, "k", lambda ticket: Put(ticket, b"k", b"v"))
            assert not answer.done()
            assert await answer == ("put", b"k")
            found = coordination.find("k")
            assert isinstance(found, RunningShard)
            assert found.partition.log.flushed_offset == 1

    asyncio.run(run())


def test_a_timer_fires_as_an_event(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            await coordination.ensure_topic()
            answer = ask(coordination, "k", lambda ticket: Later(ticket, 5))
            assert not answer.done()
            assert await answer == "time"

    asyncio.run(run())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_requests_that_have_arrived_are_processed_before_a_timer_that_is_already_due(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    happened: list[str] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            await coordination.ensure_topic()
            first, second = socket.socketpair(), socket.socketpair()
            done = loop.create_future()

            def first_request() -> None:
                # The second request arrives while the first is handled.
                first[1].recv(1)
                second[0].send(b"x")
                coordination.send("k", lambda ticket: Later(ticket, 0), Ticket(timer_fired, done.set_result))

            def second_request() -> None:
                second[1].recv(1)
                happened.append("second request")

            def timer_fired(_: str) -> None:
                happened.append("timer")
                done.set_result(None)

            loop.add_reader(first[1], first_request)
            loop.add_reader(second[1], second_request)
            first[0].send(b"x")
            await done
            for one in (*first, *second):
                loop.remove_reader(one)
                one.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
    assert happened == ["second request", "timer"]


def test_when_the_partition_is_lost_all_waiting_requests_get_not_coordinator(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            coordination = ledger_of(broker)
            await coordination.ensure_topic()
            waiting = ask(coordination, "k", lambda ticket: Later(ticket, 3_600_000))
            await broker.delete_topics([TopicRef(TOPIC)])
            assert await waiting == E.NOT_COORDINATOR
            assert await ask(coordination, "k", lambda ticket: Put(ticket, b"k", b"v")) == E.NOT_COORDINATOR
            assert await coordination.ensure_topic() == E.NONE
            assert await ask(coordination, "k", lambda ticket: Put(ticket, b"k", b"v")) == ("put", b"k")

    asyncio.run(run())
