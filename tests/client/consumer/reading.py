"""Helpers that read a number of records within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice

from moldau import Consumer
from moldau.client.consumer.decode import Record
from tests.client.consumer.conftest import PATIENCE_S


def take(consumer: Consumer, count: int) -> list[Record]:
    """The next `count` records, by iteration."""
    return list(islice(consumer, count))


def poll(consumer: Consumer, count: int) -> list[Record]:
    """At least `count` records, by poll."""
    records: list[Record] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records were read"
        records += consumer.poll(timeout=1.0)
    return records


def poll_until(consumer: Consumer, condition: Callable[[], bool]) -> None:
    """Poll until the condition holds. Fails if a record is returned."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        assert consumer.poll(timeout=0.05) == []


def wait_for_assignment(consumer: Consumer, count: int) -> None:
    """Poll until this many partitions are assigned. Fails if a record is returned."""
    poll_until(consumer, lambda: len(consumer.assignment()) >= count)


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]
