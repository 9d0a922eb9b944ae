"""Batches of several partitions as one request: in which version, with names or ids, and by the shortest way."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from moldau.client.connection import Connection
from moldau.client.metadata import NO_TOPIC_ID
from moldau.client.producer.engine import Batch
from moldau.client.producer.lanes import Lane
from moldau.client.producer.requests import (
    LAST_WITH_NAMES,
    MIN_VERSION,
    TOPIC_IDS_FROM,
    Part,
    beginning,
    encode,
    encode_one,
)
from moldau.client.producer.transactionality import Transactions
from moldau.records.model import Bytes
from moldau.wire.api import ApiKey

if TYPE_CHECKING:
    from moldau.client.network import Network
    from moldau.client.producer.config import ProducerConfig

Chosen = list[tuple[Lane, Batch]]
"""At most one batch of each lane."""


class Requests:
    """Makes the requests of one producer."""

    def __init__(self, network: Network, config: ProducerConfig, transactions: Transactions) -> None:
        self._network = network
        self._config = config
        self._transactions = transactions

    def version(self, connection: Connection, chosen: Chosen) -> int:
        """The highest that both sides know and transactions allow; one with names where an id is not known."""
        version = connection.version(ApiKey.PRODUCE, self._transactions.max_produce_version, MIN_VERSION)
        if version >= TOPIC_IDS_FROM and any(self._topic_id(lane) == NO_TOPIC_ID for lane, _ in chosen):
            return connection.version(ApiKey.PRODUCE, LAST_WITH_NAMES, MIN_VERSION)
        return version

    def body(self, version: int, chosen: Chosen, headers: Sequence[bytes]) -> Sequence[Bytes]:
        """The request with these batches, each behind its header."""
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

    def _alone(self, version: int, lane: Lane, batch: Batch, header: bytes) -> Sequence[Bytes]:
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

    def _topic_id(self, lane: Lane) -> bytes:
        topic = self._network.metadata.topics.get(lane.partition.topic)
        return NO_TOPIC_ID if topic is None else topic.id
