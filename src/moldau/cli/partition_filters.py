"""Which partitions `topics describe` is asked for: those that are not well, in the words of Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from moldau.client.admin import PartitionDescription


class Filters(NamedTuple):
    """Several together choose what any of them chooses; none at all, everything."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False

    def choose(self, one: PartitionDescription, min_isr: int) -> bool:
        if not any(self):
            return True
        return (
            (self.under_replicated and len(one.isr) < len(one.replicas))
            or (self.unavailable and one.leader is None)
            or (self.under_min_isr and len(one.isr) < min_isr)
            or (self.at_min_isr and len(one.isr) == min_isr)
        )
