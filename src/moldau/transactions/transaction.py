"""Transaction: an immutable value with the state of one transactional id, and its stored form.

`identity` is the producer id and epoch that the client last received. Usually it is the transaction's own producer id
and epoch. There are two exceptions, in which `next_producer_id` and `next_producer_epoch` hold it: a prepared
transaction that is kept for a new producer (two-phase commit), and the end of a transaction whose producer id has no
epochs left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from moldau.transactions.states import TRANSITIONS, TransactionState
from moldau.wire.errors import WireError
from moldau.wire.primitives import NO_TAGS
from moldau.wire.producer_identity import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdentity
from moldau.wire.stored.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionLogValueTopicPartitions,
)
from moldau.wire.topic_partition import TopicPartition, by_topic

NOT_STARTED = -1
NO_TIMEOUT = 2**31 - 1
"""The timeout of a two-phase transaction: it waits for its outcome up to the broker's maximum age."""
NEVER = -1

KEY_TYPE = 0
VALUE_VERSION = 1
NEXT_EPOCH_TAG = 3


@dataclass(frozen=True, slots=True)
class Transaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NOT_STARTED
    last_update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = 0
    """The client's transaction version: since version 2 a client gets a new epoch at the end of each transaction."""

    @property
    def identity(self) -> ProducerIdentity:
        """The identity that may act now, or as soon as the transaction has ended."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return ProducerIdentity(self.producer_id, self.producer_epoch)
        return ProducerIdentity(self.next_producer_id, max(0, self.next_producer_epoch))

    @property
    def is_kept(self) -> bool:
        """Whether this is a prepared transaction that waits for a new producer to end it."""
        return self.state is TransactionState.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def is_two_phase(self) -> bool:
        """Whether it may be prepared and then ended by another producer."""
        return self.timeout_ms == NO_TIMEOUT

    @property
    def committing(self) -> bool:
        return self.state is TransactionState.PREPARE_COMMIT

    def timed_out(self, now_ms: int, two_phase_max_age_ms: int) -> bool:
        if self.state is not TransactionState.ONGOING:
            return False
        limit_ms = two_phase_max_age_ms if self.is_two_phase else self.timeout_ms
        return limit_ms != NEVER and self.start_ms + limit_ms <= now_ms

    def expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state.at_rest and self.last_update_ms + expiration_ms <= now_ms

    def to(self, state: TransactionState, now_ms: int, **changes: Any) -> Transaction:
        """The transaction after a transition, which must be in TRANSITIONS."""
        assert state in TRANSITIONS[self.state], f"{self.transactional_id}: {self.state.label} → {state.label}"
        return replace(self, state=state, last_update_ms=now_ms, **changes)


# -- stored form -------------------------------------------------------------------------------------------------------


def encode_key(transactional_id: str) -> bytes:
    key = TransactionLogKey(transactional_id=transactional_id)
    return KEY_TYPE.to_bytes(2, "big") + key.encode(KEY_TYPE)


def decode_key(data: bytes) -> str | None:
    """The transactional id; None for an unknown key type, which a later version may write."""
    if int.from_bytes(data[:2], "big", signed=True) != KEY_TYPE:
        return None
    return TransactionLogKey.decode(data, KEY_TYPE, 2).transactional_id


def encode_value(transaction: Transaction) -> bytes:
    topics = by_topic(transaction.partitions)
    next_epoch = transaction.next_producer_epoch
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=[
            TransactionLogValueTopicPartitions(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()
        ]
        if topics
        else None,
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
        unknown_tags={NEXT_EPOCH_TAG: next_epoch.to_bytes(2, "big")} if next_epoch != NO_PRODUCER_EPOCH else NO_TAGS,
    )
    return VALUE_VERSION.to_bytes(2, "big") + value.encode(VALUE_VERSION)


def decode_value(transactional_id: str, data: bytes) -> Transaction:
    """The stored transaction; WireError if the value cannot be decoded."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if not 0 <= version <= VALUE_VERSION:
        raise WireError(f"transaction {transactional_id!r} is stored in version {version}, which is not known")
    value = TransactionLogValue.decode(data, version, 2)
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise WireError(f"transaction {transactional_id!r} is stored in state {value.transaction_status}") from None
    next_epoch = value.unknown_tags.get(NEXT_EPOCH_TAG)
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        NO_PRODUCER_EPOCH if next_epoch is None else int.from_bytes(next_epoch, "big", signed=True),
        value.client_transaction_version,
    )
