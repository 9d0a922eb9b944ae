"""Alerts: their bytes, their partition, and the gateway that sends them.

A pager reads only partition 0, the critical one. Any number of warnings in the other partitions does not delay it.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from typing import Any

from moldau import Producer, RecordMetadata
from moldau.client.producer.partitioners import PartitionChoice, partition_of_key
from moldau.examples.sensor_health.rules import CRITICAL, OK, WARNING, status_of

ALERTS = "sensors.alerts"
CRITICAL_PARTITION = 0

LEVELS = (CRITICAL, WARNING)
HEAD = struct.Struct(">Bqd")
"""The level's place in LEVELS, milliseconds since 1970, degrees. The sensor's name follows."""


def alert_of(sensor: str, reading: Mapping[str, Any]) -> dict[str, Any] | None:
    """The alert of a reading that is too high."""
    level = status_of(reading["celsius"])
    return None if level == OK else {"sensor": sensor, "level": level, **reading}


class AlertSerializer:
    """17 bytes and the sensor's name; the same in JSON would be five times as long."""

    def serialize(self, topic: str, alert: Mapping[str, Any]) -> bytes:
        level = LEVELS.index(alert["level"])
        return HEAD.pack(level, alert["at_ms"], alert["celsius"]) + str(alert["sensor"]).encode()


class AlertDeserializer:
    """The reverse of AlertSerializer."""

    def deserialize(self, topic: str, data: bytes) -> dict[str, Any]:
        level, at_ms, celsius = HEAD.unpack_from(data)
        return {"sensor": data[HEAD.size :].decode(), "level": LEVELS[level], "celsius": celsius, "at_ms": at_ms}


class CriticalPartitioner:
    """Partition 0 for critical alerts; the other partitions, by sensor, for all other alerts."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        choice: PartitionChoice,
    ) -> int:
        if value["level"] == CRITICAL:
            return CRITICAL_PARTITION
        return 1 + partition_of_key(key_bytes or b"", choice.count - 1)


class Gateway:
    """Sends the alerts of readings. A delivery callback counts those that the broker has stored."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._producer = Producer(
            dict(client),
            key_serializer="str",
            value_serializer=AlertSerializer(),
            partitioner_class=CriticalPartitioner(),
        )
        self.delivered: Counter[int] = Counter()
        """Alerts that the broker has confirmed, by partition."""
        self.failed: list[Exception] = []

    def look_at(self, sensor: str, reading: Mapping[str, Any]) -> None:
        """Send an alert if the reading is too high."""
        alert = alert_of(sensor, reading)
        if alert is not None:
            self._producer.send(ALERTS, alert, key=sensor, timestamp=alert["at_ms"], on_delivery=self._delivered)

    def _delivered(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        if metadata is not None:
            self.delivered[metadata.partition] += 1
        elif error is not None:
            self.failed.append(error)

    def close(self) -> None:
        """Send the remaining alerts. All callbacks have been called when this returns."""
        self._producer.close()
