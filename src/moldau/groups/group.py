"""Group: its offsets, and its members by the classic or the consumer protocol."""

from __future__ import annotations

from moldau.groups.classic_group import ClassicGroup
from moldau.groups.consumer_group import ConsumerGroup
from moldau.groups.offsets import GroupOffsets


class Group:
    """A group with members, offsets, or both.

    A group can have offsets and no members: a consumer with manually assigned partitions commits without joining. The
    next member that joins a group without members decides its protocol; until then it stays as it is stored.
    """

    __slots__ = ("classic", "consumer", "id", "id_bytes", "offsets")

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.id_bytes = group_id.encode()
        self.offsets = GroupOffsets()
        self.classic: ClassicGroup | None = None
        self.consumer: ConsumerGroup | None = None
        """At most one of `classic` and `consumer` is set, except until `GroupShard` has stored a replacement."""

    @property
    def empty(self) -> bool:
        """Whether the group has no members and no pending members."""
        if self.consumer is not None:
            return not self.consumer.members
        return self.classic is None or not (self.classic.members or self.classic.pending)

    @property
    def type(self) -> str:
        return "Classic" if self.consumer is None else "Consumer"
