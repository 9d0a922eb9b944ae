"""Membership: a broker that loses its session, or is disconnected from the store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from moldau.cluster import membership
from moldau.cluster.memory_store import MemoryStore, MemoryTree
from moldau.cluster.metadata import Metadata
from moldau.cluster.store import Delete, Store, StoreError
from moldau.cluster.topics import TopicCreation
from tests.support.waiting import wait_until_async
from tests.unit.cluster.support import broker, new_metadata, run, topic_of


class Member:
    """A broker's metadata, and the events of its membership."""

    def __init__(self, tree: MemoryTree, number: int) -> None:
        self.tree = tree
        self.refusals = 0
        self.sessions: list[MemoryStore] = []
        self.told: list[bool] = []
        self.metadata: Metadata = new_metadata(tree, number)
        self.metadata._membership._open_store = self.open_store
        self.metadata.on_registration(self.told.append)

    async def open_store(self) -> Store:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("nobody answers")
        self.sessions.append(self.tree.session())
        return self.sessions[-1]

    async def join(self) -> Metadata:
        await self.metadata.open()
        mine = replace(broker(self.metadata.node_id), directory_id=f"d{self.metadata.node_id}")
        await self.metadata.register(mine)
        return self.metadata


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(membership, "MAX_RETRY_S", 0.01)


def test_an_expired_session_ends_the_registration_and_a_new_one_follows() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one, two = Member(tree, 1), Member(tree, 2)
        first, second = await one.join(), await two.join()
        topic_of((await first.create_topics([TopicCreation("t", assignments=((0, (1, 2)), (1, (1, 2))))]))[0])
        epoch = first.broker_epoch
        two.refusals = 3
        tree.expire(one.sessions[-1])
        assert one.told == [True, False], "the broker must stop leading at once"
        await wait_until_async(lambda: one.told == [True, False, True])
        assert first.broker_epoch > epoch
        await wait_until_async(
            lambda: second.image.brokers[1].epoch == first.broker_epoch and second.image == first.image
        )
        assert [state.leader for state in first.image.topics["t"].partitions] == [2, 2]
        topic_of((await first.create_topics([TopicCreation("u")]))[0])

    run(scenario())


def test_the_only_broker_leads_again_in_a_new_leader_epoch() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one = Member(tree, 1)
        metadata = await one.join()
        topic_of((await metadata.create_topics([TopicCreation("t", 1)]))[0])
        before = metadata.image.topics["t"].partitions[0]
        tree.expire(one.sessions[-1])
        await wait_until_async(lambda: one.told == [True, False, True])
        after = metadata.image.topics["t"].partitions[0]
        assert (after.leader, after.leader_epoch) == (1, before.leader_epoch + 1)
        assert metadata.leads_cluster

    run(scenario())


def test_after_a_short_disconnection_the_broker_reads_the_missed_changes() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one, two = Member(tree, 1), Member(tree, 2)
        first, second = await one.join(), await two.join()
        epoch = first.broker_epoch
        tree.suspend(one.sessions[-1])
        topic_of((await second.create_topics([TopicCreation("missed")]))[0])
        tree.resume(one.sessions[-1])
        await wait_until_async(lambda: "missed" in first.image.topics)
        assert one.told == [True]
        assert first.broker_epoch == epoch

    run(scenario())


def test_a_broker_disconnected_longer_than_its_session_timeout_stops_leading() -> None:
    async def scenario() -> None:
        tree = MemoryTree(session_timeout_s=0.01)
        one = Member(tree, 1)
        metadata = await one.join()
        one.refusals = 3
        tree.suspend(one.sessions[-1])
        await wait_until_async(lambda: one.told == [True, False])
        assert not metadata.leads_cluster
        await wait_until_async(lambda: one.told == [True, False, True])
        assert len(one.sessions) == 2
        topic_of((await metadata.create_topics([TopicCreation("t")]))[0])

    run(scenario())


def test_the_session_timeout_counts_from_the_last_answer() -> None:
    async def scenario() -> None:
        one = Member(MemoryTree(session_timeout_s=0.01), 1)
        await one.join()
        one.sessions[-1].suspend()  # and the broker was not notified
        await wait_until_async(lambda: one.told == [True, False])

    run(scenario())


def test_a_session_lost_before_registration_is_followed_by_another() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one = Member(tree, 1)
        metadata = await one.join()
        tree.expire(one.sessions[-1])
        await wait_until_async(lambda: len(one.sessions) == 2)
        tree.expire(one.sessions[-1])
        await wait_until_async(lambda: one.told == [True, False, True])
        assert len(one.sessions) >= 3
        assert metadata.image.brokers[1].epoch == metadata.broker_epoch

    run(scenario())


def test_a_session_that_is_lost_while_the_logs_are_loaded_or_while_it_registers_is_replaced() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one = Member(tree, 1)
        await one.metadata.open()
        tree.expire(one.sessions[-1])
        registering = asyncio.ensure_future(one.metadata.register(broker(1)))
        await wait_until_async(lambda: len(one.sessions) == 2)
        await wait_until_async(lambda: one.metadata._view.tree.store is one.sessions[1])
        tree.expire(one.sessions[-1])
        await registering
        assert one.told == [True]
        assert one.metadata.image.brokers[1].epoch == one.metadata.broker_epoch
        assert one.metadata.leads_cluster

    run(scenario())


def test_a_broker_whose_id_another_process_has_taken_does_not_register_again() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        former, later = Member(tree, 1), Member(tree, 1)
        await former.join()
        after = await later.join()
        await wait_until_async(lambda: former.told == [True, False])
        epoch = after.broker_epoch
        await wait_until_async(lambda: not former.metadata._membership._tasks or _done(former))
        assert former.told == [True, False]
        assert after.registered
        assert after.image.brokers[1].epoch == epoch

    def _done(member: Member) -> bool:
        return all(task.done() for task in member.metadata._membership._tasks.values())

    run(scenario())


def test_a_removed_registration_is_created_again() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one, two = Member(tree, 1), Member(tree, 2)
        await one.join()
        second = await two.join()
        node = tree.get("/brokers/ids/1")
        assert node is not None
        await two.sessions[-1].commit([Delete("/brokers/ids/1")])
        await wait_until_async(lambda: one.told == [True, False, True])
        await wait_until_async(lambda: 1 in second.image.brokers)

    run(scenario())
