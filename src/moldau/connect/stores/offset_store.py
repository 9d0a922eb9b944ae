"""Offset topic: the offsets of source connectors, by connector and source partition.

A record's key is `["NAME",{partition}]`, its value the offset object; a tombstone resets the partition. These are the
bytes of Kafka Connect 4.3 (KafkaOffsetBackingStore with JsonConverter). Kafka Connect finds an offset by the bytes of
its key. Therefore a partition that is in the topic already keeps its bytes, whatever the order of fields that a
connector uses now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from moldau.connect.connector import Offset, SourceOffsets, partition_key
from moldau.connect.stores.json_bytes import StoredFormatError, decode, encode
from moldau.service.state_topic import StateRecord

Entry = tuple[bytes, bytes | None]


def offset_key(connector: str, partition: Offset) -> bytes:
    return encode([connector, dict(partition)])


def offset_value(offset: Offset | None) -> bytes | None:
    return None if offset is None else encode(dict(offset))


def parse_key(data: bytes | None) -> tuple[str, dict[str, object]] | None:
    """The connector and the source partition of a key; None if it has another format."""
    if data is None:
        return None
    try:
        value = decode(data)
    except StoredFormatError:
        return None
    if not isinstance(value, list) or len(value) != 2:
        return None
    connector, partition = value
    if not isinstance(connector, str) or not isinstance(partition, dict):
        return None
    return connector, partition


@dataclass(frozen=True)
class _Stored:
    key: bytes
    partition: Offset
    offset: Offset


class OffsetState:
    """What the offset topic says."""

    def __init__(self) -> None:
        self._stored: dict[str, dict[str, _Stored]] = {}

    def apply(self, record: StateRecord) -> None:
        """Take over one record. Records of a wrong format are passed over."""
        parsed = parse_key(record.key)
        if parsed is None:
            return
        assert record.key is not None
        connector, partition = parsed
        partitions = self._stored.setdefault(connector, {})
        which = partition_key(partition)
        if record.value is None:
            partitions.pop(which, None)
        else:
            try:
                offset = decode(record.value)
            except StoredFormatError:
                offset = None
            if isinstance(offset, dict):
                partitions[which] = _Stored(record.key, partition, offset)
        if not partitions:
            del self._stored[connector]

    def offsets(self, connector: str) -> SourceOffsets:
        return SourceOffsets((one.partition, one.offset) for one in self._stored.get(connector, {}).values())

    def entry(self, connector: str, partition: Offset, offset: Offset | None) -> Entry:
        """The record that stores an offset (None: resets it), with the key bytes of the partition if it is known."""
        stored = self._stored.get(connector, {}).get(partition_key(partition))
        return (offset_key(connector, partition) if stored is None else stored.key), offset_value(offset)

    def entries(self, connector: str, offsets: Iterable[tuple[Offset, Offset | None]]) -> list[Entry]:
        return [self.entry(connector, partition, offset) for partition, offset in offsets]

    def reset_entries(self, connector: str) -> list[Entry]:
        """The tombstones of all offsets of a connector."""
        return [(one.key, None) for one in self._stored.get(connector, {}).values()]
