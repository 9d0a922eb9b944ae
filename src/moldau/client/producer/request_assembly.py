"""Assembly of Produce requests: version, topic names or ids, and a fast path for a single batch."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from moldau.client.connection import Connection
from moldau.client.metadata import NO_TOPIC_ID
from moldau.client.producer.engine import Batch
from moldau.client.producer.partition_send_state import PartitionSendState
from moldau.client.producer.requests import (
    LAST_WITH_NAMES,
    MIN_VERSION,
    TOPIC_IDS_FROM,
    Part,
    beginning,
    encode,
    encode_one,
)
from moldau.client.producer.transaction_hooks import TransactionHooks
from moldau.records.batch_layout import Bytes
from moldau.wire.api import ApiKey

if TYPE_CHECKING:
    from moldau.client.network import Network
    from moldau.client.producer.config import ProducerConfig

Chosen = list[tuple[PartitionSendState, Batch]]
"""The batches of one request: at most one per lane."""


class RequestAssembly:
    """Builds the Produce requests of one producer."""

    def __init__(self, network: Network, config: ProducerConfig, transactions: TransactionHooks) -> None:
        self._network = network
        self._config = config
        self._transactions = transactions

    def version(self, connection: Connection, chosen: Chosen) -> int:
        """Return the highest version that both sides know and transactions allow.

        If a topic id is not known, it is a version with topic names.
        """
        version = connection.version(ApiKey.PRODUCE, self._transactions.max_produce_version, MIN_VERSION)
        if version >= TOPIC_IDS_FROM and any(self._topic_id(lane) == NO_TOPIC_ID for lane, _ in chosen):
            return connection.version(ApiKey.PRODUCE, LAST_WITH_NAMES, MIN_VERSION)
        return version

    def body(self, version: int, chosen: Chosen, headers: Sequence[bytes]) -> Sequence[Bytes]:
        """Return the request body with these batches and their headers."""
        if len(chosen) == 1:
            return self._alone(version, *chosen[0], headers[0])
        parts = [
            Part(lane.partition.topic, self._topic_id(lane), lane.partition.partition, header, batch.body or b"")
            for (lane, batch), header in zip(chosen, headers, strict=True)
        ]
        parts.sort(key=attrgetter("topic"))
        config = self._config
        transactional_id = self._transactions.transactional_id
        return encode(version, config.acks, config.request_timeout_ms, transactional_id, parts)

    def _alone(self, version: int, lane: PartitionSendState, batch: Batch, header: bytes) -> Sequence[Bytes]:
        topic_id = self._topic_id(lane)
        if lane.prefix_of != (version, topic_id):
            lane.prefix_of = (version, topic_id)
            lane.prefix = beginning(
                version,
                self._config.acks,
                self._config.request_timeout_ms,
                self._transactions.transactional_id,
                lane.partition.topic,
                topic_id,
                lane.partition.partition,
            )
        return encode_one(version, lane.prefix, header, batch.body or b"")

    def _topic_id(self, lane: PartitionSendState) -> bytes:
        topic = self._network.metadata.topics.get(lane.partition.topic)
        return NO_TOPIC_ID if topic is None else topic.id
