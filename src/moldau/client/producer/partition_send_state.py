"""Send state of a partition: the batches that wait, the batches in flight, and the pause after an error."""

from __future__ import annotations

from collections import deque

from moldau.client.data_types import NO_LEADER, TopicPartition
from moldau.client.errors import MoldauError
from moldau.client.producer.engine import Batch, PartitionQueue
from moldau.client.producer.sequences import Sequences


class PartitionSendState:
    """The sender's state of one partition. The sender calls it a lane."""

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
        """Batches that are taken from the accumulator and not on the wire, in the order in which they are sent."""
        self.on_wire = 0
        self.queued = False  # whether it is in `lanes` of its leader
        self.failures = 0  # consecutive ones
        self.resume_at = 0.0
        self.last_error: MoldauError | None = None  # for error messages
        self.prefix = b""  # the first bytes of a request for this partition alone
        self.prefix_of: tuple[int, bytes] | None = None  # the request version and topic id of `prefix`

    @property
    def has_work(self) -> bool:
        return bool(self.waiting) or self.queue.ready

    def put_back(self, batch: Batch) -> None:
        """Queue a batch that must be sent (again), so that batches in flight keep the order of their first sending."""
        order = {id(one): at for at, one in enumerate(self.sequences.in_flight)}
        mine = order.get(id(batch), len(order))
        at = 0
        while at < len(self.waiting) and order.get(id(self.waiting[at]), len(order)) < mine:
            at += 1
        self.waiting.insert(at, batch)

    def drop(self, batch: Batch) -> None:
        """Remove a batch that is not sent any more."""
        for at, one in enumerate(self.waiting):
            if one is batch:
                del self.waiting[at]
                return

    def was_sent(self, batch: Batch) -> bool:
        """Whether the batch was sent before. A part of a batch that was sent counts as sent."""
        return batch.attempts > 0
