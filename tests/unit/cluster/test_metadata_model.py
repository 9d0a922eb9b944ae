"""Random histories of brokers that die, return with and without the ends of their logs, and lose sessions.

Invariants: epochs only grow, and a leader epoch has one leader with one broker epoch. When nothing happens any more,
every image equals the tree, and every partition that can have a leader has one.
"""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from moldau.cluster import controller, image_publisher, membership
from moldau.cluster.elections import ElectionKind, settled
from moldau.cluster.image import NO_CONTROLLER, NO_LEADER, ClusterImage, PartitionState
from moldau.cluster.isr import IsrProposal
from moldau.cluster.membership import EVERYTHING
from moldau.cluster.memory_store import MemoryStore, MemoryTree
from moldau.cluster.metadata import Metadata
from moldau.cluster.reassignments import Reassignment, completed
from moldau.cluster.store import StoreError
from moldau.cluster.topics import TopicCreation, TopicRef
from moldau.cluster.tree import Tree
from tests.support.waiting import loop_turns, wait_until_async
from tests.unit.cluster.partitions import sound
from tests.unit.cluster.support import broker, examples, new_metadata, run

BROKERS = (1, 2, 3, 4)
MIN_ISR = 2
UNCLEAN = ("u",)

NUMBERS = st.integers(0, 1_000)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *["create", "delete", "die", "return", "return", "lose power", "expire", "suspend", "resume"],
                *["isr", "isr", "isr", "isr", "reassign", "cancel", "resign", "preferred", "unclean", "rest"],
            ]
        ),
        st.sampled_from(BROKERS),
        NUMBERS,
    ),
    min_size=5,
    max_size=40,
)


class History:
    """The partition states that any broker has seen."""

    def __init__(self) -> None:
        self.led: dict[tuple[bytes, int, int], int] = {}
        self.lives: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        self.anomalies: list[str] = []

    def saw(self, member: Metadata, old: ClusterImage, new: ClusterImage) -> None:
        """Record a state. Listeners must not raise, so violations are reported at the end."""
        try:
            self._saw(member, old, new)
        except AssertionError as error:
            self.anomalies.append(str(error))

    def _saw(self, member: Metadata, old: ClusterImage, new: ClusterImage) -> None:
        for topic in new.topics.values():
            before = old.topics.get(topic.name)
            for index, state in enumerate(topic.partitions):
                sound(state)
                key = (topic.id, index, state.leader_epoch)
                assert self.led.setdefault(key, state.leader) == state.leader, "two leaders in one epoch"
                if state.leader == member.node_id and member.registered:
                    life = (member.node_id, member.broker_epoch)
                    assert self.lives.setdefault(key, life) == life, (
                        "two broker epochs of the leader in one leader epoch"
                    )
                if before is not None and before.id == topic.id and index < len(before.partitions):
                    self._grew(before.partitions[index], state)

    def _grew(self, before: PartitionState, after: PartitionState) -> None:
        if before != after:
            assert after.partition_epoch > before.partition_epoch
            assert after.leader_epoch >= before.leader_epoch
            assert after.leader == before.leader or after.leader_epoch > before.leader_epoch


def at_rest(member: Metadata) -> bool:
    """Whether no repair of its session is in progress."""
    return member.registered and all(task.done() for task in member._membership._tasks.values())


class RandomCluster:
    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.history = History()
        self.members: dict[int, Metadata] = {}

    async def start(self, number: int, *, lost: bool = False) -> None:
        if number in self.members:
            return
        member = new_metadata(self.tree, number, factor=3, min_isr=MIN_ISR, unclean=UNCLEAN)
        member.listen(lambda old, new: self.history.saw(member, old, new))
        await member.open()
        mine = replace(broker(number), directory_id=f"d{number}")
        await member.register(mine, EVERYTHING if lost else ())
        self.members[number] = member

    async def step(self, kind: str, number: int, choice: int) -> None:
        if kind == "return":
            return await self.start(number)
        if kind == "rest":
            await loop_turns(choice % 50)
            return None
        member = self.members.get(number)
        if member is None:
            return None
        if kind in ("die", "lose power"):
            del self.members[number]
            await member.close()
            if kind == "lose power":
                await self.start(number, lost=True)
            return None
        if kind in ("expire", "suspend", "resume"):
            session = member.store
            assert isinstance(session, MemoryStore)
            if not session.ended:
                getattr(self.tree, kind)(session)
            return None
        return await self.change(member, kind, choice)

    async def change(self, member: Metadata, kind: str, choice: int) -> None:
        """Send a request to a broker. A refusal is not a failure."""
        name = "tu"[choice % 2]
        topic = member.image.topics.get(name)
        if kind == "create":
            factor = min(3, len(member.image.brokers))
            await member.create_topics([TopicCreation(name, 1 + choice % 3, max(factor, 1))])
        if topic is None:
            return
        index = choice % len(topic.partitions)
        state = topic.partitions[index]
        if kind == "delete" and choice % 5 == 0:
            await member.delete_topics([TopicRef(name)])
        elif kind == "isr" and state.leader == member.node_id:
            wanted = tuple(one for at, one in enumerate(state.replicas) if one == state.leader or choice >> at & 1)
            epochs = {one.id: one.epoch for one in member.image.brokers.values()}
            proposal = IsrProposal(name, topic.id, index, state.leader_epoch, state.partition_epoch, wanted, epochs)
            try:
                await member.change_isr([proposal])
            except StoreError:
                pass  # disconnected from the store
        elif kind == "reassign":
            wanted = tuple(one for at, one in enumerate(BROKERS) if choice >> at & 1) or (member.node_id,)
            await member.reassign([Reassignment(name, index, wanted)])
        elif kind == "cancel":
            await member.reassign([Reassignment(name, index, None)])
        elif kind == "resign":
            try:
                await member.resign(EVERYTHING if choice % 2 else [(name, index)], leave_isr=choice % 3 > 0)
            except StoreError:
                pass
        elif kind in ("preferred", "unclean"):
            elections = ElectionKind.PREFERRED if kind == "preferred" else ElectionKind.UNCLEAN
            await member.elect_leaders(elections, [(name, index)])

    async def quiet(self) -> None:
        """Reconnect everybody, and wait until nothing changes any more."""
        for member in self.members.values():
            session = member.store
            if isinstance(session, MemoryStore) and session.suspended:
                self.tree.resume(session)
        if not self.members:
            await self.start(1)
        await wait_until_async(lambda: all(at_rest(member) for member in self.members.values()))
        commits = -1
        while commits != self.tree._commits:
            commits = self.tree._commits
            await loop_turns(100)
            await wait_until_async(lambda: all(at_rest(member) for member in self.members.values()))

    async def check(self) -> None:
        assert not self.history.anomalies
        stored = await Tree(self.tree.session()).load()
        for member in self.members.values():
            assert member.image == stored, f"the image of {member.node_id} is not what the tree says"
        assert sorted(stored.brokers) == sorted(self.members)
        assert stored.controller_id != NO_CONTROLLER
        assert [member.leads_cluster for member in self.members.values()].count(True) == 1
        for topic in stored.topics.values():
            for state in topic.partitions:
                sound(state)
                assert set(state.isr) <= set(stored.brokers), "a dead broker is in the ISR"
                assert state.leader == NO_LEADER or state.leader in stored.brokers
                unclean = topic.name in UNCLEAN
                assert settled(state, stored.brokers, MIN_ISR, unclean=unclean) is state, (
                    "a partition that could have a leader has none"
                )
                assert completed(state, stored.brokers, MIN_ISR) is state, "a reassignment was not completed"


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "FIRST_RETRY_S", 0.0001)
    monkeypatch.setattr(membership, "MAX_RETRY_S", 0.001)
    monkeypatch.setattr(image_publisher, "REREAD_RETRY_S", 0.0001)
    monkeypatch.setattr(controller, "RETRY_S", 0.0001)


async def lived(steps: list[tuple[str, int, int]]) -> None:
    cluster = RandomCluster()
    for number in BROKERS[:3]:
        await cluster.start(number)
    await cluster.change(cluster.members[1], "create", 0)
    await cluster.change(cluster.members[1], "create", 1)
    for kind, number, choice in steps:
        await cluster.step(kind, number, choice)
    await cluster.quiet()
    await cluster.check()
    for member in cluster.members.values():
        await member.close()


@examples(percent=100)
@given(STEPS)
def test_all_brokers_agree_after_any_history(steps: list[tuple[str, int, int]]) -> None:
    run(lived(steps))
