"""Producers with short time-outs, and reading of stored records."""

from __future__ import annotations

from typing import Any

from moldau import Producer
from moldau.records.batch_layout import BatchHeader, BatchRecord
from tests.compat import wire
from tests.support.raw import RawConnection

PATIENCE_S = 60.0
"""Longer than any test here takes, also on a slow machine."""


def producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer(bootstrap_servers=bootstrap, **{"retry_backoff_ms": 10, "linger_ms": 0, **settings})


def stored(bootstrap: str, topic: str, partition: int = 0) -> list[BatchRecord]:
    with RawConnection(bootstrap) as connection:
        batches = wire.stored_batches(connection, topic, partition)
    return [record for _, batch in batches for record in wire.decode_batch(batch, 0)]


def values(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in stored(bootstrap, topic, partition)]


def headers(bootstrap: str, topic: str, partition: int = 0) -> list[BatchHeader]:
    with RawConnection(bootstrap) as connection:
        return [header for header, _ in wire.stored_batches(connection, topic, partition)]
