"""Producer ids: each is assigned once, by any number of brokers, also after crashes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from moldau.broker.coordinators.producer_ids import BLOCK, PATH, ProducerIds, reserve_block
from moldau.cluster.memory_store import MemoryTree
from moldau.cluster.store import Create, Store, StoreError
from moldau.host.event_log import event_of
from tests.support.waiting import loop_turns


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 10))


def ids_of(store: Store) -> ProducerIds:
    return ProducerIds(lambda: store, asyncio.get_running_loop().create_task)


async def taken(ids: ProducerIds, many: int) -> list[int]:
    found: list[int] = []
    while len(found) < many:
        one = ids.take()
        if one is None:
            assert await ids.ready()
        else:
            found.append(one)
    return found


def test_ids_begin_at_0_and_continue_across_blocks() -> None:
    async def scenario() -> None:
        ids = ids_of(MemoryTree().session())
        assert ids.take() is None
        assert await taken(ids, 3 * BLOCK) == list(range(3 * BLOCK))

    run(scenario())


def test_the_next_block_is_reserved_before_the_current_one_is_used_up() -> None:
    async def scenario() -> None:
        ids = ids_of(MemoryTree().session())
        await ids.ready()
        for _ in range(5 * BLOCK):
            assert ids.take() is not None
            await loop_turns()

    run(scenario())


def test_brokers_and_restarts_never_share_an_id() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        incarnations = [ids_of(tree.session()) for _ in range(4)]
        given = [one for many in await asyncio.gather(*(taken(ids, 700) for ids in incarnations)) for one in many]
        given += await taken(ids_of(tree.session()), 700)  # a broker that has crashed and started again
        assert len(set(given)) == len(given)

    run(scenario())


class BrokenStore:
    async def get(self, path: str) -> None:
        raise StoreError("the disk is gone")


def test_there_are_no_ids_while_the_store_is_unavailable() -> None:
    async def scenario() -> None:
        ids = ids_of(BrokenStore())  # type: ignore[arg-type]
        assert not await ids.ready()
        assert ids.take() is None
        ids._store = lambda: MemoryTree().session()
        assert await taken(ids, 1) == [0]

    run(scenario())


def test_failing_reservations_are_logged_at_their_begin_and_end(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ids = ids_of(BrokenStore())  # type: ignore[arg-type]
        for _ in range(10):
            assert not await ids.ready()
        ids._store = lambda: MemoryTree().session()
        await taken(ids, 2 * BLOCK)

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert [event_of(record) for record in caplog.records] == [
        "no producer ids can be reserved, trying again",
        "producer ids can be reserved again",
    ]


@pytest.mark.parametrize("value", [b"", b"7", b'{"next": "7"}', b"{}"])
def test_a_damaged_value_in_the_store_is_an_error(value: bytes) -> None:
    async def scenario() -> None:
        store = MemoryTree().session()
        await store.commit([Create(PATH, value)])
        with pytest.raises(StoreError, match="does not contain a producer id"):
            await reserve_block(store)

    run(scenario())
