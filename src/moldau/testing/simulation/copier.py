"""Copier client: copies one topic into another exactly once, with its offsets committed in the same transaction.

Several copiers share a group, so that partitions move between them in the middle of a transaction. Each has its own
transactional id. In the end, the copy of a record exists once if its offset is committed, and not at all otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.aio import Consumer, Producer
from moldau.client.errors import MoldauError
from moldau.testing.simulation.clients import CLOSE_S, SimulatedClient
from moldau.testing.simulation.history import Place

if TYPE_CHECKING:
    from moldau.testing.simulation.world import World

COPY = "copy of "
LIFE_S = 15.0


class Copier(SimulatedClient):
    """A member of the copiers' group."""

    def __init__(self, world: World, name: str, group: str, source: str, target: str) -> None:
        super().__init__(world, name)
        self.group = group
        self.source = source
        self.target = target

    async def work(self) -> None:
        consumer = Consumer(
            self.settings(
                group_id=self.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                session_timeout_ms=6_000,
                heartbeat_interval_ms=1_000,
                default_api_timeout_ms=10_000,
                fetch_max_wait_ms=2_000,
            )
        )
        producer = Producer(
            self.settings(
                transactional_id=self.name, transaction_timeout_ms=8_000, delivery_timeout_ms=6_000, max_block_ms=10_000
            )
        )
        await producer.start()
        try:
            await producer.init_transactions()
            await consumer.subscribe([self.source])
            ends_s = self.now_s + LIFE_S * (0.5 + self.random.random())
            while not self.stopping and self.now_s < ends_s:
                records = await consumer.poll(1.0, max_records=20)
                if records:
                    await self._copy(consumer, producer, records)
                    await self.pause(self.world.pace_s * 2)
        finally:
            # Records that were read but not committed are read again: by another member, or by this one's next
            # consumer.
            await consumer.close(CLOSE_S)
            await producer.close(CLOSE_S)

    async def _copy(self, consumer: Consumer, producer: Producer, records: list[Any]) -> None:
        ends: dict[Place, int] = {}
        await producer.begin_transaction()
        try:
            for record in records:
                ends[record.topic, record.partition] = record.offset + 1
                value = COPY.encode() + bytes(record.value or b"")
                await producer.send(self.target, value, partition=record.partition)
            await self.pause(0.3)
            await producer.send_offsets(dict(ends), await consumer.group_metadata())  # type: ignore[arg-type]
            await producer.commit_transaction()
        except MoldauError as error:
            self.note(f"copying {len(records)} records: {type(error).__name__}: {error}")
            raise
