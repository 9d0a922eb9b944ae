"""Which partitions `topics describe` is asked for: those that are not well, in the words of Kafka's tool."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from moldau.client.admin import PartitionDescription


def is_under_replicated(one: PartitionDescription, adding: Collection[int] = ()) -> bool:
    """Replicas that a reassignment is only adding are not missed."""
    return len(one.isr) < len(one.replicas) - len(adding)


class Filters(NamedTuple):
    """Several together choose what any of them chooses; none at all, everything."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False

    def choose(self, one: PartitionDescription, min_isr: int, adding: Collection[int] = ()) -> bool:
        if not any(self):
            return True
        return (
            (self.under_replicated and is_under_replicated(one, adding))
            or (self.unavailable and one.leader is None)
            or (self.under_min_isr and len(one.isr) < min_isr)
            or (self.at_min_isr and len(one.isr) == min_isr)
        )
