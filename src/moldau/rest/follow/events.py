"""Events: records of a topic as JSON for followers, and the positions with which a follower continues.

An event's id has the next offset of each partition, as in `0:17,1:4`. Pure: no clock, no network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from moldau.client.consumer.decode import Record
from moldau.rest.errors import ProxyError, bad_request
from moldau.rest.record_formats import RecordFormat, plain_value

MAX_POSITIONS: Final = 10_000

Positions = Mapping[int, int]
"""The next offset of each partition."""


class FollowEvent(NamedTuple):
    """One record for followers."""

    partition: int
    offset: int
    data: str
    """The record as JSON, in one line."""
    id: str


class EventChunk:
    """Events that followers get together. Their bytes as server-sent events are made once for all followers."""

    def __init__(self, events: Sequence[FollowEvent]) -> None:
        self.events = events
        self.size = sum(len(event.data) + len(event.id) + 14 for event in events)

    @cached_property
    def sse(self) -> bytes:
        return "".join(f"id: {event.id}\ndata: {event.data}\n\n" for event in self.events).encode()

    def since(self, positions: Positions) -> EventChunk:
        """The events that a follower at these positions has not seen."""
        return EventChunk([event for event in self.events if event.offset >= positions.get(event.partition, 0)])


def position_text(positions: Positions) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def parse_positions(text: str) -> dict[int, int]:
    """The positions of an event's id. ProxyError 400: it is not one."""
    found: dict[int, int] = {}
    parts = text.split(",")
    for part in parts[:MAX_POSITIONS]:
        partition, colon, offset = part.partition(":")
        numbers = partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()
        if not (colon and numbers) or len(partition) > 9 or len(offset) > 18:
            raise bad_request(f"{text[:100]!r} is not the id of an event, such as 0:17,1:4")
        found[int(partition)] = int(offset)
    return found


def plain_record(one: Record, key: RecordFormat, value: RecordFormat) -> str:
    """The JSON of a record in formats without a schema."""
    return record_text(one, lambda: plain_value(key, one.key, "key"), lambda: plain_value(value, one.value, "value"))


def record_text(one: Record, key: Any, value: Any) -> str:
    """The JSON of a record. What cannot be read is null, and `error` says why: followers see that it exists."""
    found: dict[str, Any] = {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "timestamp": one.timestamp,
        "key": None,
        "value": None,
    }
    try:
        found["key"] = key()
        found["value"] = value()
    except ProxyError as error:
        found["error"] = error.message
    if one.headers:
        headers = [(name, RecordFormat.AUTO, data) for name, data in one.headers]
        found["headers"] = [{"name": name, "value": plain_value(kind, data, "header")} for name, kind, data in headers]
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))
