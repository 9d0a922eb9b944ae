"""Interface between the sender and transactions, and its implementation for a producer without transactions.

All calls run in the producer's loop and must not wait. An implementation calls `Sender.resume` after each change that
lets records be sent (`may_drain` becomes True, the producer id is known, the epoch has changed): the sender does not
ask again on its own.
"""

from __future__ import annotations

from typing import Protocol

from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.records.batch_layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class TransactionHooks(Protocol):
    """The transactions of a producer, as the sender uses them."""

    @property
    def transactional_id(self) -> str | None:
        """None if the producer has no transactions. It then requests its own producer id if it is idempotent."""

    @property
    def producer_id(self) -> int:
        """The producer id, or -1 if it is not known yet; nothing is sent then."""

    @property
    def epoch(self) -> int:
        """The producer epoch. When it changes, the sequence numbers of each partition begin again at 0, as soon as no
        batch of the old epoch is in flight."""

    @property
    def max_produce_version(self) -> int | None:
        """The highest version of Produce that may be used, or None for the highest that the broker serves."""

    def check_send(self) -> None:
        """Raise if no record can be added now (no open transaction, or a failed one). `send` calls it in any thread."""

    def batch_added(self, partition: TopicPartition) -> None:
        """There are records of this partition to send. The sender calls it each time it notices that."""

    def may_drain(self, partition: TopicPartition) -> bool:
        """Whether records of this partition may be sent now, because the partition is part of the transaction."""

    def batch_failed(self, partition: TopicPartition, error: MoldauError) -> None:
        """Records of this partition have failed."""


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
