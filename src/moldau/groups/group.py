"""A group: its offsets, and its members by one protocol or the other."""

from __future__ import annotations

from moldau.groups.classic import ClassicGroup
from moldau.groups.consumer import ConsumerGroup
from moldau.groups.offsets import GroupOffsets


class Group:
    """Offsets alone make a group, too: somebody who assigns partitions to itself commits them.

    A group without members belongs to no protocol until somebody joins; what it is stored as is kept.
    """

    __slots__ = ("classic", "consumer", "id", "id_bytes", "offsets")

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.id_bytes = group_id.encode()
        self.offsets = GroupOffsets()
        self.classic: ClassicGroup | None = None
        self.consumer: ConsumerGroup | None = None
        """At most one of the two is there."""

    @property
    def empty(self) -> bool:
        """Whether nobody is in it, or about to be."""
        if self.consumer is not None:
            return not self.consumer.members
        return self.classic is None or not (self.classic.members or self.classic.pending)

    @property
    def type(self) -> str:
        return "Classic" if self.consumer is None else "Consumer"
