"""A partition as the sender sees it: what of it waits to be sent, what is in flight, and since when it must pause."""

from __future__ import annotations

from collections import deque

from moldau.client.errors import MoldauError
from moldau.client.model import NO_LEADER, TopicPartition
from moldau.client.producer.engine import Batch, PartitionQueue
from moldau.client.producer.identity import Sequences


class Lane:
    """The sender's notes about one partition."""

    __slots__ = (
        "failures", "last_error", "leader", "on_wire", "partition", "prefix", "prefix_of", "queue", "queued",
        "resume_at", "sequences", "waiting",
    )  # fmt: skip

    def __init__(self, queue: PartitionQueue, idempotent: bool) -> None:
        self.queue = queue
        self.partition = TopicPartition(queue.topic, queue.index)
        self.leader = NO_LEADER
        self.sequences = Sequences(idempotent)
        self.waiting: deque[Batch] = deque()
        """Taken from the accumulator and not on the wire, in the order in which they must leave."""
        self.on_wire = 0
        self.queued = False  # among those that its node will be sent from
        self.failures = 0  # in a row
        self.resume_at = 0.0
        self.last_error: MoldauError | None = None  # for messages
        self.prefix = b""  # how a request for this partition alone begins,
        self.prefix_of: tuple[int, bytes] | None = None  # in this version, with this topic id

    @property
    def has_work(self) -> bool:
        return bool(self.waiting) or self.queue.ready

    def put_back(self, batch: Batch) -> None:
        """It must be sent (again): before all that is behind it, behind all that was sent before it."""
        order = {id(one): at for at, one in enumerate(self.sequences.in_flight)}
        mine = order.get(id(batch), len(order))
        at = 0
        while at < len(self.waiting) and order.get(id(self.waiting[at]), len(order)) < mine:
            at += 1
        self.waiting.insert(at, batch)

    def drop(self, batch: Batch) -> None:
        """It will not be sent any more."""
        for at, one in enumerate(self.waiting):
            if one is batch:
                del self.waiting[at]
                return

    def was_sent(self, batch: Batch) -> bool:
        """Whether it is in flight; a part of one that was sent counts as sent."""
        return batch.attempts > 0
