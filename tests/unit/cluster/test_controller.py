"""Controller: elections, reassignments, preferred leaders, and fencing of former controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from moldau.cluster import controller
from moldau.cluster.controller import Rebalance
from moldau.cluster.elections import ElectionKind
from moldau.cluster.errors import Refusal
from moldau.cluster.image import NO_LEADER, PartitionState
from moldau.cluster.isr import IsrProposal
from moldau.cluster.membership import EVERYTHING
from moldau.cluster.memory_store import MemoryStore, MemoryTree
from moldau.cluster.metadata import Metadata
from moldau.cluster.nodes import BrokerNode, ControllerNode, IncarnationNode, TopicNode
from moldau.cluster.reassignments import Reassignment
from moldau.cluster.store import Delete, Operation, Set
from moldau.cluster.topics import TopicCreation
from moldau.wire.errors import ErrorCode
from tests.support.waiting import loop_turns, wait_until_async
from tests.unit.cluster.support import Interposed, broker, new_metadata, run, topic_of


async def brokers_of(
    tree: MemoryTree,
    count: int = 3,
    *,
    min_isr: int = 1,
    unclean: Sequence[str] = (),
    rebalance: Rebalance | None = None,
) -> list[Metadata]:
    members = [
        new_metadata(tree, number, min_isr=min_isr, unclean=unclean, rebalance=rebalance)
        for number in range(1, count + 1)
    ]
    for one in members:
        await join(one)
    await wait_until_async(lambda: all(len(one.image.brokers) == count for one in members))
    return members


async def join(one: Metadata, lost: object = ()) -> None:
    await one.open()
    await one.register(replace(broker(one.node_id), directory_id=f"d{one.node_id}"), lost)  # type: ignore[arg-type]


async def create(one: Metadata, *replicas: tuple[int, ...], name: str = "t") -> None:
    """Create a topic and wait until all its brokers know it."""
    topic_of((await one.create_topics([TopicCreation(name, assignments=tuple(enumerate(replicas)))]))[0])
    await loop_turns(20)


def states(one: Metadata, name: str = "t") -> tuple[PartitionState, ...]:
    topic = one.image.topics.get(name)
    return () if topic is None else topic.partitions


def leaders(one: Metadata, name: str = "t") -> list[int]:
    return [state.leader for state in states(one, name)]


async def in_sync(leader: Metadata, isr: tuple[int, ...], index: int = 0) -> PartitionState | Refusal:
    """Propose this ISR, as a leader does after the followers have fetched."""
    topic = leader.image.topics["t"]
    state = topic.partitions[index]
    epochs = {number: one.epoch for number, one in leader.image.brokers.items()}
    proposal = IsrProposal("t", topic.id, index, state.leader_epoch, state.partition_epoch, isr, epochs)
    (answer,) = await leader.change_isr([proposal])
    return answer


# ---------------------------------------------------------------------------------------------- failures and restarts


def test_in_sync_replicas_take_over_the_partitions_of_a_dead_broker() -> None:
    async def scenario() -> None:
        one, two, three = await brokers_of(MemoryTree())
        await create(three, (3, 1, 2), (1, 2, 3), (2, 3, 1))
        await three.close()
        await wait_until_async(lambda: leaders(one) == [1, 1, 2] and leaders(two) == [1, 1, 2])
        assert [state.isr for state in states(one)] == [(1, 2), (1, 2), (2, 1)]
        assert [state.leader_epoch for state in states(one)] == [1, 0, 0]

    run(scenario())


def test_the_controller_dies_and_its_successor_elects() -> None:
    async def scenario() -> None:
        one, two, three = await brokers_of(MemoryTree())
        await create(two, (1, 2, 3))
        assert one.leads_cluster
        await one.close()
        await wait_until_async(lambda: leaders(three) == [2])
        assert two.leads_cluster != three.leads_cluster

    run(scenario())


def test_after_all_brokers_died_the_last_in_sync_one_leads_when_it_returns() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one, two = await brokers_of(tree, 2)
        await create(one, (1, 2))
        await one.close()
        await wait_until_async(lambda: leaders(two) == [2])
        await two.close()
        again = new_metadata(tree, 1)
        await join(again)
        await wait_until_async(lambda: leaders(again) == [NO_LEADER])
        assert (states(again)[0].isr, states(again)[0].elr) == ((), (2,))
        await join(new_metadata(tree, 2))
        await wait_until_async(lambda: leaders(again) == [2])

    run(scenario())


@pytest.mark.parametrize("allowed", [False, True])
def test_an_unclean_leader_is_elected_only_where_the_topic_allows_it(allowed: bool) -> None:
    async def scenario() -> None:
        one, two, three = await brokers_of(MemoryTree(), unclean=["t"] if allowed else [])
        await create(one, (2, 3))
        assert isinstance(await in_sync(two, (2,)), PartitionState)
        await two.close()
        await wait_until_async(lambda: states(three)[0].leader != 2)
        assert leaders(three) == ([3] if allowed else [NO_LEADER])
        if not allowed:
            answers = await one.elect_leaders(ElectionKind.UNCLEAN, [("t", 0), ("t", 1)])
            assert [answer and answer.code for _, _, answer in answers] == [None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            await wait_until_async(lambda: leaders(three) == [3])

    run(scenario())


def test_a_broker_that_lost_its_tail_leaves_the_isr_before_it_is_alive() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one, two, _ = await brokers_of(tree, min_isr=2)
        await create(one, (3, 1, 2), (3, 2, 1))
        seen: list[tuple[int, ...]] = []
        one.listen(lambda _old, new: seen.append(new.topics["t"].partitions[0].isr) if 3 in new.brokers else None)
        # Its former registration still exists: the machine restarted before its session expired.
        again = new_metadata(tree, 3, min_isr=2)
        await join(again, [("t", 0)])
        await wait_until_async(lambda: one.image == two.image == again.image)
        assert seen
        assert all(3 not in isr for isr in seen)
        lost, kept = states(one)
        assert (lost.leader, lost.isr) == (1, (1, 2))
        assert (kept.leader, kept.isr) == (2, (3, 2, 1))
        assert isinstance(await in_sync(one, (3, 1, 2)), PartitionState)

    run(scenario())


def test_after_a_power_loss_of_all_brokers_only_an_operator_can_choose_the_leader() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one, _ = await brokers_of(tree, 2, min_isr=2)
        await create(one, (1, 2))
        first, second = [new_metadata(tree, number, min_isr=2) for number in (1, 2)]
        await join(first, EVERYTHING)
        await join(second, EVERYTHING)
        await wait_until_async(lambda: first.image == second.image)
        (state,) = states(second)
        assert (state.leader, state.isr, state.elr, state.last_known_elr) == (NO_LEADER, (), (), (2,))
        assert await first.elect_leaders(ElectionKind.UNCLEAN, None) == [("t", 0, None)]
        assert leaders(first) == [2]

    run(scenario())


# ----------------------------------------------------------------------------------------------------------- fencing


def test_a_controller_that_was_paused_during_its_replacement_changes_nothing() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        held: list[Sequence[Operation]] = []
        go_on = asyncio.Event()

        class Paused(MemoryStore):
            """The first commit of the controller is held back, as if the process had been paused before it."""

            async def commit(self, operations: Sequence[Operation]) -> None:
                if operations[0].path == "/controller_epoch" and isinstance(operations[-1], Operation):
                    held.append(operations)
                    await go_on.wait()
                await super().commit(operations)

        session = Paused(tree)
        tree.join(session)
        old = new_metadata(session, 1)
        await join(old)
        _, two, three, four = old, *[new_metadata(tree, number) for number in (2, 3, 4)]
        for one in (two, three, four):
            await join(one)
        await create(two, (4, 3, 2))
        await four.close()
        await wait_until_async(lambda: bool(held))  # it has decided that 3 becomes leader
        await two.store.commit([Delete(ControllerNode.path)])
        await wait_until_async(lambda: two.leads_cluster or three.leads_cluster)
        await wait_until_async(lambda: leaders(two) == [3])
        topic_before = tree.get(TopicNode.path("t"))
        go_on.set()
        await wait_until_async(lambda: not old.leads_cluster)
        assert tree.get(TopicNode.path("t")) == topic_before
        await wait_until_async(lambda: old.image == two.image)

    run(scenario())


def test_a_killed_controller_that_restarts_at_once_is_controller_again() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one, two = await brokers_of(tree, 2)
        again = new_metadata(tree, 1)
        await join(again)  # the session of its former process has not ended
        assert again.leads_cluster
        await create(two, (2, 1))
        await two.close()
        await wait_until_async(lambda: leaders(again) == [1])
        assert not one.leads_cluster

    run(scenario())


def test_a_follower_with_an_old_broker_epoch_is_not_added_to_the_isr() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        session = Interposed(tree)
        tree.join(session)
        leader, follower = new_metadata(session, 1), new_metadata(tree, 2)
        await join(leader)
        await join(follower)
        await create(leader, (1, 2))
        assert isinstance(await in_sync(leader, (1,)), PartitionState)

        def a_new_incarnation_starts(operations: Sequence[Operation]) -> None:
            """A new incarnation starts, which has lost the records of the former one, before the leader's commit
            arrives."""
            if any(operation.path == BrokerNode.path(2) for operation in operations):
                session.before_commit = lambda _operations: None
                value = IncarnationNode.encode("d2", "another-process")
                tree.commit(tree.session(), [Delete(BrokerNode.path(2)), Set(IncarnationNode.path(2), value)])

        session.before_commit = a_new_incarnation_starts
        answer = await in_sync(leader, (1, 2))
        assert isinstance(answer, Refusal)
        assert answer.code == ErrorCode.INELIGIBLE_REPLICA
        assert states(leader)[0].isr == (1,)

    run(scenario())


# ------------------------------------------------------------------- resignation, reassignment, preferred leaders


def test_a_broker_that_resigns_leads_nothing_and_is_in_sync_nowhere() -> None:
    async def scenario() -> None:
        one, two, _ = await brokers_of(MemoryTree())
        await create(two, (1, 2, 3), (2, 1, 3))
        await create(two, (1,), name="alone")
        await wait_until_async(lambda: "alone" in one.image.topics)
        await one.resign(EVERYTHING)
        await wait_until_async(lambda: leaders(two) == [2, 2])
        assert [1 in state.isr for state in states(two)] == [False, False]
        assert leaders(two, "alone") == [1], "there is no replica that could replace it"
        assert one.image.controller_id == 1

    run(scenario())


def test_a_reassignment_is_complete_when_all_new_replicas_are_in_sync() -> None:
    async def scenario() -> None:
        one, two, three = await brokers_of(MemoryTree())
        await create(one, (1, 2))
        assert await two.reassign([Reassignment("t", 0, (3, 2)), Reassignment("t", 5, (1,))]) == [
            None,
            Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Partition t-5 does not exist."),
        ]
        await wait_until_async(lambda: states(one)[0].adding == (3,))
        assert isinstance(await in_sync(one, (3, 2, 1)), PartitionState)
        await wait_until_async(lambda: states(three)[0].replicas == (3, 2))
        assert leaders(three) == [3]
        assert states(three)[0].removing == ()

    run(scenario())


def test_preferred_leaders_are_elected_soon_after_they_are_in_sync_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "RETURN_SETTLE_S", 0.0)

    async def scenario() -> None:
        tree = MemoryTree()
        one, two = await brokers_of(tree, 2, rebalance=Rebalance())
        await create(one, (2, 1))
        await two.close()
        await wait_until_async(lambda: leaders(one) == [1])
        again = new_metadata(tree, 2)
        await join(again)
        await wait_until_async(lambda: 2 in one.image.brokers)
        assert isinstance(await in_sync(one, (2, 1)), PartitionState)
        await wait_until_async(lambda: leaders(again) == [2])

    run(scenario())


def test_preferred_leaders_are_elected_at_intervals_if_the_imbalance_is_large() -> None:
    async def scenario() -> None:
        rebalance = Rebalance(check_interval_s=0.001, max_imbalance_percent=50)
        one, two = await brokers_of(MemoryTree(), 2, rebalance=rebalance)
        await create(one, (1, 2), (1, 2))
        await create(one, (2, 1), (2, 1), (2, 1), name="u")
        await one.resign([("t", 0), ("u", 0)], leave_isr=False)
        await two.resign([("u", 0), ("u", 1)], leave_isr=False)
        await wait_until_async(lambda: leaders(two, "u") == [2, 2, 2])
        assert leaders(one) == [2, 1], "half of the leaders may stay at other brokers"

    run(scenario())


def test_the_death_of_a_broker_with_three_thousand_partitions_takes_few_commits() -> None:
    async def scenario() -> None:
        tree = MemoryTree()
        one, two, three = await brokers_of(tree)
        for number in range(30):
            topic_of((await one.create_topics([TopicCreation(f"t{number}", 100, 3)]))[0])
        await wait_until_async(lambda: two.image == one.image)
        before = tree._commits
        await three.close()
        await wait_until_async(lambda: all(3 not in leaders(two, f"t{number}") for number in range(30)))
        assert tree._commits - before <= 3

    run(scenario())
