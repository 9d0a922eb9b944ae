"""What the sender asks of transactions and tells them, and the answers of a producer that has none.

All of it happens in the producer's loop, and none of it may wait. Whoever makes a partition free to go (`may_drain` is
True now, the producer id is there, the epoch has changed) calls `Sender.resume` afterwards: nobody asks again.
"""

from __future__ import annotations

from typing import Protocol

from moldau.client.errors import MoldauError
from moldau.client.model import TopicPartition
from moldau.records.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class Transactions(Protocol):
    """The transactional side of a producer."""

    @property
    def transactional_id(self) -> str | None:
        """None: this producer has no transactions, and gets its own id if it is idempotent."""

    @property
    def producer_id(self) -> int:
        """-1 while it is not known: nothing is sent then."""

    @property
    def epoch(self) -> int:
        """When it changes, every partition's numbers begin again at 0, as soon as nothing of the old is in flight."""

    @property
    def max_produce_version(self) -> int | None:
        """The highest version of Produce that may be used; None for the highest that the broker has."""

    def check_send(self) -> None:
        """Called by `send`, in any thread: raises where no record can be taken now (no transaction, a failed one)."""

    def batch_added(self, partition: TopicPartition) -> None:
        """There are records of this partition to be sent. Called each time that is noticed."""

    def may_drain(self, partition: TopicPartition) -> bool:
        """Whether records of this partition may leave now: it is part of the transaction."""

    def batch_failed(self, partition: TopicPartition, error: MoldauError) -> None:
        """Records of this partition will not be in the log."""


class NoTransactions:
    """A producer without transactions."""

    transactional_id = None
    producer_id = NO_PRODUCER_ID
    epoch = NO_PRODUCER_EPOCH
    max_produce_version = None

    def check_send(self) -> None:
        pass

    def batch_added(self, partition: TopicPartition) -> None:
        pass

    def may_drain(self, partition: TopicPartition) -> bool:
        return True

    def batch_failed(self, partition: TopicPartition, error: MoldauError) -> None:
        pass
