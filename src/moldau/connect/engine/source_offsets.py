"""Source offsets in the topic `connect-offsets`, in Kafka Connect's format.

The key of a record is `["NAME",{partition}]`, its value `{offset}`.

The topic is read with read_committed: offsets of a transaction that was not committed are never seen. The engine reads
a connector's offsets after it has fenced every earlier owner, so that nobody can change them in between.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from moldau.client.admin.offsets import OffsetSpec
from moldau.client.admin.topics import NewTopic
from moldau.client.blocking.admin import Admin
from moldau.client.blocking.consumer import Consumer
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError, TopicAlreadyExists, UnknownTopicOrPartition
from moldau.connect.connector import Offset, SourceOffsets, partition_key
from moldau.connect.stores.offset_store import offset_key, offset_value
from moldau.host.event_log import event_logger

log = event_logger(__name__)

POLL_S: Final = 1.0
DEFAULT_TOPIC: Final = "connect-offsets"
DEFAULT_PARTITIONS: Final = 25
"""Kafka Connect's number of partitions, if the topic does not exist yet."""
MAX_READ_ROUNDS: Final = 120
"""Polls without progress before reading fails: two minutes. Open transactions of other connectors end before that."""


class OffsetsUnreadable(MoldauError):
    """The offsets topic could not be read to its end."""


class OffsetRecord(NamedTuple):
    """The record of one source partition."""

    key: bytes
    value: bytes | None


def decode_offset(key: bytes | None, value: bytes | None) -> tuple[str, dict[str, Any], dict[str, Any] | None] | None:
    """Connector, partition and offset of a record; None for records that are not ours to understand."""
    try:
        connector, partition = json.loads(key or b"")
        offset = None if value is None else json.loads(value)
    except (ValueError, TypeError):
        return None
    if not isinstance(connector, str) or not isinstance(partition, dict) or not isinstance(offset, (dict, type(None))):
        return None
    return connector, partition, offset


class OffsetTable:
    """The topic as a table, for all connectors of a process. It reads on from where it was."""

    def __init__(self, topic: str, consumer: Mapping[str, Any], admin: Mapping[str, Any]) -> None:
        self.topic = topic
        self._consumer_settings = {
            **consumer,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
        }
        self._admin_settings = dict(admin)
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._admin: Admin | None = None
        self._partitions: list[TopicPartition] = []
        self._stored: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {}
        self._keys: dict[tuple[str, str], bytes] = {}

    def records(self, connector: str, offsets: Iterable[tuple[Offset, Offset | None]]) -> list[OffsetRecord]:
        """The records that store these offsets.

        A partition that is in the topic keeps the bytes of its key, whatever the order of its fields is now: Kafka
        Connect finds an offset by these bytes.
        """
        found = []
        with self._lock:
            for partition, offset in offsets:
                key = self._keys.get((connector, partition_key(partition))) or offset_key(connector, partition)
                found.append(OffsetRecord(key, offset_value(offset)))
        return found

    def of(self, connector: str) -> SourceOffsets:
        """The offsets of a connector, after everything that is in the topic now."""
        with self._lock:
            self._read_to_end()
            return SourceOffsets(self._stored.get(connector, {}).values())

    def close(self) -> None:
        with self._lock:
            for client in (self._consumer, self._admin):
                if client is not None:
                    client.close()
            self._consumer = self._admin = None

    def _read_to_end(self) -> None:
        consumer = self._opened()
        assert self._admin is not None
        # The log end offset and not the last stable offset: while another connector's transaction is open, committed
        # offsets of ours may come after its records.
        ends = self._admin.list_offsets(dict.fromkeys(self._partitions, OffsetSpec.LATEST))
        waited = 0
        while behind := [one for one in self._partitions if consumer.position(one) < ends[one].offset]:
            records = consumer.poll(timeout=POLL_S)
            for record in records:
                self._store(record.key, record.value)
            waited = 0 if records else waited + 1
            if waited > MAX_READ_ROUNDS:
                raise OffsetsUnreadable(
                    f"topic {self.topic} could not be read to the end of partition {behind[0].partition}; a hanging "
                    "transaction may block it: see moldau transactions"
                )

    def _opened(self) -> Consumer:
        if self._consumer is None:
            self._admin = self._admin or Admin(self._admin_settings)
            self._partitions = self._existing(self._admin)
            self._stored.clear()
            self._consumer = Consumer(self._consumer_settings)
            self._consumer.assign(self._partitions)
            for partition in self._partitions:
                self._consumer.seek(partition, 0)  # a compacted topic keeps its first offset
        return self._consumer

    def _existing(self, admin: Admin) -> list[TopicPartition]:
        try:
            found = admin.describe_topics([self.topic])
        except UnknownTopicOrPartition:
            try:
                new = NewTopic(self.topic, DEFAULT_PARTITIONS, configs={"cleanup.policy": "compact"})
                admin.create_topics([new])
            except TopicAlreadyExists:
                pass
            found = admin.describe_topics([self.topic])
        return [TopicPartition(self.topic, one.index) for one in found[self.topic].partitions]

    def _store(self, key: bytes | None, value: bytes | None) -> None:
        decoded = decode_offset(key, value)
        if decoded is None:
            log.warning("unknown record in the offsets topic", extra={"topic": self.topic, "key": repr(key)[:200]})
            return
        connector, partition, offset = decoded
        self._keys[connector, partition_key(partition)] = key or b""
        own = self._stored.setdefault(connector, {})
        if offset is None:
            own.pop(partition_key(partition), None)
            del self._keys[connector, partition_key(partition)]
        else:
            own[partition_key(partition)] = (partition, offset)


def advanced(before: SourceOffsets, reached: Sequence[tuple[Offset, Offset]]) -> SourceOffsets:
    """The offsets after a batch."""
    merged = {partition_key(partition): (partition, offset) for partition, offset in before}
    merged.update({partition_key(partition): (partition, offset) for partition, offset in reached})
    return SourceOffsets(merged.values())
