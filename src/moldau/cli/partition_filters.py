"""Filters of `topics describe` for partitions with problems, with the names of Kafka's tool."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from moldau.client.admin import PartitionDescription


def is_under_replicated(one: PartitionDescription, adding: Collection[int] = ()) -> bool:
    """Replicas that a reassignment is still adding do not count as missing."""
    return len(one.isr) < len(one.replicas) - len(adding)


class Filters(NamedTuple):
    """With several filters, a partition must match at least one of them. Without filters, all match."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False

    def choose(self, one: PartitionDescription, min_isr: int, adding: Collection[int] = ()) -> bool:
        """`min_isr` is the topic's setting; `adding` are the replicas that a reassignment is adding."""
        if not any(self):
            return True
        from moldau.cluster.isr import effective_min_isr

        least = effective_min_isr(min_isr, one.replicas, adding)
        return (
            (self.under_replicated and is_under_replicated(one, adding))
            or (self.unavailable and one.leader is None)
            or (self.under_min_isr and len(one.isr) < least)
            or (self.at_min_isr and len(one.isr) == least)
        )
