"""Administrator client: creates, grows and deletes topics, moves replicas and leaders while other clients work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.aio import Admin, Producer
from moldau.client.admin.topics import NewTopic
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.testing.simulation.clients import SimulatedClient
from moldau.testing.simulation.history import Place
from moldau.testing.simulation.security import ADMIN

if TYPE_CHECKING:
    from moldau.testing.simulation.world import World

MOST_PARTITIONS = 4
NAMES = 3
CALL_S = 10.0


class Administrator(SimulatedClient):
    """Makes one change after the other. Errors from brokers do not stop it."""

    user = ADMIN

    def __init__(self, world: World, name: str, places: Sequence[Place]) -> None:
        super().__init__(world, name)
        self.places = places
        self._topics: dict[str, int] = {}

    async def work(self) -> None:
        steps = (self._create, self._delete, self._grow, self._reassign, self._elect)
        async with Admin(self.settings(default_api_timeout_ms=10_000)) as admin:
            while not self.stopping:
                await self.pause(6.0)
                try:
                    await self.random.choice(steps)(admin)
                except MoldauError as error:
                    self.failed(error)
                    self.note(f"refused: {type(error).__name__}: {error}")

    async def _create(self, admin: Admin) -> None:
        """Create a topic, perhaps with the name of a deleted one: records of that one must not appear in the new
        one."""
        name, partitions = f"churn-{self.random.randint(1, NAMES)}", self.random.randint(1, 2)
        self.note(f"creates {name}")
        self._topics[name] = partitions
        await admin.create_topics(NewTopic(name, partitions, min(3, len(self.world.brokers))), timeout=CALL_S)
        async with Producer(self.settings(delivery_timeout_ms=5_000, max_block_ms=5_000)) as producer:
            for number in range(self.random.randint(1, 5)):
                await (await producer.send(name, b"%d of %s" % (number, name.encode()), partition=0))

    async def _delete(self, admin: Admin) -> None:
        if self._topics:
            name = self.random.choice(list(self._topics))
            self.note(f"deletes {name}")
            del self._topics[name]
            await admin.delete_topics(name, timeout=CALL_S)

    async def _grow(self, admin: Admin) -> None:
        small = [name for name, partitions in self._topics.items() if partitions < MOST_PARTITIONS]
        if small:
            name = self.random.choice(small)
            self._topics[name] += 1
            self.note(f"grows {name} to {self._topics[name]} partitions")
            await admin.create_partitions({name: self._topics[name]}, timeout=CALL_S)

    async def _reassign(self, admin: Admin) -> None:
        topic, index = self.random.choice(self.places)
        brokers = [broker.node_id for broker in self.world.brokers]
        chosen = self.random.sample(brokers, min(3, len(brokers)))
        self.note(f"moves {topic}-{index} to {chosen}")
        await admin.alter_partition_reassignments({TopicPartition(topic, index): chosen}, timeout=CALL_S)

    async def _elect(self, admin: Admin) -> None:
        self.note("elects preferred leaders")
        await admin.elect_leaders(timeout=CALL_S)
