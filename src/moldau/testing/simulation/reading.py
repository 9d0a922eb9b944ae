"""Final reads of whole partitions and offsets, after a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.aio import Consumer
from moldau.testing.simulation.copier import COPY
from moldau.testing.simulation.history import Place, Seen
from moldau.testing.simulation.security import ADMIN

if TYPE_CHECKING:
    from moldau.testing.simulation.world import World


async def read_to_the_end(world: World, places: list[Place], *, committed_only: bool) -> dict[Place, dict[int, str]]:
    """Read all records of the partitions by offset, up to the last record of each; waits until that is readable.

    A read_committed reader waits, too: a transaction that is never ended would block it forever.
    """
    name = "final-committed" if committed_only else "final"
    settings = {
        **world.client_settings(ADMIN),
        "client.id": name,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed" if committed_only else "read_uncommitted",
    }
    found: dict[Place, dict[int, str]] = {place: {} for place in places}
    last = {
        place: max(
            ack.offset for ack in world.history.acked if ack.place == place and ack.value.startswith("client-last")
        )
        for place in places
    }
    async with Consumer(settings) as consumer:
        await consumer.assign(places)
        while any(last[place] not in records for place, records in found.items()):
            for record in await consumer.poll(1.0):
                place = (record.topic, record.partition)
                value = bytes(record.value or b"").decode()
                found[place][record.offset] = value
                if not value.startswith(COPY):
                    at_s = world.trace.now_s()
                    world.history.seen.append(Seen(name, place, record.offset, value, at_s, committed_only))
    return found


def read_copies(records: dict[int, str]) -> list[str]:
    """The copied values, in the order of the copies."""
    return [value.removeprefix(COPY) for _, value in sorted(records.items()) if value.startswith(COPY)]


async def committed_offsets(world: World, group: str, places: list[Place]) -> dict[Place, int]:
    """The group's committed offsets of these partitions, where it has any."""
    settings = {**world.client_settings(ADMIN), "client.id": "final-offsets", "group.id": group}
    async with Consumer(settings) as consumer:
        told = await consumer.committed(*places)
    return {(one[0], one[1]): offset.offset for one, offset in told.items() if offset is not None}
