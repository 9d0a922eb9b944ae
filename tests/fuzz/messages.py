"""Plausible requests of every served API in every version.

A frame of random bytes fails in the first decoder. These requests name existing topics and partitions, carry valid
batches, and ask for operations that the broker performs. After a mutation, errors occur deep inside the broker.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from moldau.records import BatchRecord, Codec, ControlType, encode_batch, encode_marker, reseal
from moldau.wire.header import encode_request_header
from moldau.wire.message import Message
from tests.unit.wire.schema import Case, Maker, all_messages
from tools import notation

HOSTILE_INT16 = (0, 1, -1, 0x7F, 0xFF, 0x100, 0x7FFF, -0x8000)
HOSTILE_INT32 = (0, 1, -1, 0x7F, 0xFFFF, 1 << 20, 0x7FFFFFFF, -0x80000000)
HOSTILE_INT64 = (0, 1, -1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))

ODD_NAMES = ("", ".", "..", "x" * 249, "x" * 250, "größe", "a/b", "a\0b", "__consumer_offsets", "__cluster_metadata")

GROUPS = ("fuzz-group", "fuzz-group", "another", "g" * 300, "")
TRANSACTIONS = ("fuzz-transaction", "fuzz-transaction", "t" * 300, "")

# Settings that a request may read or change. Settings that can refuse all clients are not in this list.
SETTINGS: Mapping[str, Sequence[str]] = {
    "retention.ms": ("-1", "1", "1000", "x"),
    "retention.bytes": ("-1", "1048576"),
    "segment.bytes": ("1048576", "14", "2147483647"),
    "cleanup.policy": ("delete", "compact", "compact,delete", ""),
    "compression.type": ("producer", "gzip", "zstd", "lz4", "snappy", "uncompressed", "brotli"),
    "flush.messages": ("1", "2", "9223372036854775807", "0"),
    "flush.ms": ("0", "1", "1000"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "max.message.bytes": ("0", "1000", "1048588"),
    "index.interval.bytes": ("0", "4096"),
    "log.segment.bytes": ("1048576", "1"),
    "log.retention.ms": ("60000", "-1"),
    "message.max.bytes": ("1048588", "-5"),
    "log.dirs": ("/nowhere",),
    "no.such.setting": ("",),
}

# Likely contents of a field, by its name. Other fields get any value of their type.
LIKELY: Mapping[str, Sequence[int]] = {
    "acks": (-1, -1, 1, 1, 0, 2, -2),
    "config_operation": (0, 0, 1, 2, 3, 4, -1),
    "count": (1, 2, 3, 4, 5, 0, -1),
    "current_leader_epoch": (-1, -1, -1, 0, 1),
    "endpoint_type": (1, 1, 2, 0),
    "coordinator_epoch": (0, 0, 1, -1),
    "fetch_offset": (0, 0, 1, 2, 5, 50, -1),
    "generation_id": (-1, -1, 0, 1, 2),
    "generation_id_or_member_epoch": (-1, -1, 0, 1, 2),
    "index": (0, 0, 0, 1, 2, -1),
    "isolation_level": (0, 0, 1, 2),
    "last_fetched_epoch": (-1, -1, 0, 1),
    "leader_epoch": (-1, 0, 0, 1),
    "max_bytes": (1 << 20, 1000, 1, 0, -1, 0x7FFFFFFF),
    "key_type": (0, 0, 0, 1, 2, -1),
    "max_wait_ms": (0, 0, 0, 0, 1, -1),
    "min_bytes": (0, 1, 1, 1000, 0x7FFFFFFF, -1),
    "num_partitions": (-1, 1, 1, 2, 3, 0, -2),
    "offset": (-1, 0, 1, 2, 5, -2),
    "partition": (0, 0, 0, 1, 2, -1),
    "partition_index": (0, 0, 0, 1, 2, -1),
    "partition_max_bytes": (1 << 20, 1000, 1, 0, -1, 0x7FFFFFFF),
    "partitions": (0, 0, 1, 2, -1),
    "partition_indexes": (0, 0, 1, 2, -1),
    "producer_epoch": (0, 0, 0, 1, -1),
    "producer_id": (0, 1, 2, 3, 1_000, -1),
    "rebalance_timeout_ms": (0, 1, 100, 1000, -1),
    "replica_id": (-1, -1, -1, -1, -2, 0, 1),
    "replication_factor": (-1, 1, 1, 1, 0, 2, -2),
    "resource_type": (2, 2, 2, 4, 8, 32, 0, -1),
    "response_partition_limit": (0, 1, 2, 2000, -1, 0x7FFFFFFF),
    "member_epoch": (0, 0, 1, -1, -2),
    "session_timeout_ms": (6_000, 6_000, 0, -1),
    "session_epoch": (-1, -1, 0, 0, 1, 2, 0x7FFFFFFF),
    "session_id": (0, 0, 0, 1, -1),
    "timeout_ms": (0, 1, 100, 1000, -1),
    "transaction_timeout_ms": (1_000, 60_000, 0, -1),
    "timestamp": (-1, -2, -3, -4, -5, -6, -7, 0, 1_000, 1 << 50),
}

TOPIC_FIELDS = frozenset(("name", "topic", "topic_name", "topic_names"))


class Requests:
    """Creates requests for the given topics. All random choices come from one generator."""

    def __init__(self, rng: random.Random, topics: Mapping[str, bytes], node_id: int) -> None:
        self.rng = rng
        self.topics = topics
        """Names and ids of topics that probably exist."""
        self.node_id = node_id
        self.batches = valid_batches(rng)

    def frame(self, case: Case, version: int) -> bytes:
        """A whole request with its header, without the length field."""
        message = self.message(case, version)
        api = case.cls.API_KEY  # type: ignore[attr-defined]
        client_id = self.rng.choice((None, "", "fuzz", "größe", "c" * 200))
        return encode_request_header(api, version, self.rng.randrange(1 << 31), client_id) + message.encode(version)

    def message(self, case: Case, version: int) -> Message:
        unknown_tags = self.rng.random() < 0.1
        return PlausibleMaker(case, version, self.rng, unknown_tags, self).message()

    def records(self) -> bytes:
        """Usually a batch; half of the batches are damaged but have a valid checksum."""
        chance = self.rng.random()
        if chance < 0.5:
            return self.rng.choice(self.batches)
        if chance < 0.9:
            return damaged(self.rng, self.rng.choice(self.batches))
        if chance < 0.95:
            return b"".join(self.rng.choices(self.batches, k=2))
        return self.rng.randbytes(self.rng.randrange(100))


class PlausibleMaker(Maker):
    """Like the schema's generator of values, but with meaningful values."""

    def __init__(self, case: Case, version: int, rng: random.Random, unknown_tags: bool, source: Requests) -> None:
        super().__init__(case, version, rng, unknown_tags)
        self.source = source
        self._setting = ""

    def struct(self, struct: notation.Struct) -> Any:
        if struct.name.endswith("Config"):
            self._setting = self.rng.choice(list(SETTINGS))
        return super().struct(struct)

    def element(self, one: notation.Field) -> Any:
        rng, source = self.rng, self.source
        if one.struct is not None or one.type in ("bool", "float64"):
            return super().element(one)
        if one.name in LIKELY and one.type.startswith("int") and rng.random() < 0.95:
            return rng.choice(LIKELY[one.name])
        if one.name == "broker_ids":
            return rng.choice((source.node_id, source.node_id, source.node_id, 0, 1, -1))
        if one.type == "uuid":
            return rng.choice((*source.topics.values(), bytes(16), rng.randbytes(16)))
        if one.type == "string":
            return self._text(one.name)
        if one.type == "records":
            return source.records()
        return super().element(one)

    def _text(self, name: str) -> str:
        rng = self.rng
        if self._setting and name == "name":
            return self._setting
        if self._setting and name == "value":
            setting, self._setting = self._setting, ""
            return rng.choice(SETTINGS[setting])
        if name == "configuration_keys":
            return rng.choice(list(SETTINGS))
        if name in TOPIC_FIELDS:
            return rng.choice(list(self.source.topics) if rng.random() < 0.9 else ODD_NAMES)
        if name in ("protocol_type", "protocol_name"):
            return rng.choice(("consumer", "consumer", "range", ""))
        if name in ("group_id", "groups", "groups_names", "group_ids", "key", "coordinator_keys"):
            return rng.choice(GROUPS)
        if name in ("transactional_id", "transactional_ids", "v3_and_below_transactional_id"):
            return rng.choice(TRANSACTIONS)
        if name == "resource_name":
            return rng.choice((*self.source.topics, str(self.source.node_id), "", "99"))
        return rng.choice(("", "a", "moldau-fuzz", "1.0", "größe", "x" * 130))


@cache
def served() -> tuple[tuple[Case, range], ...]:
    """The request of every API that the broker serves, with its versions."""
    from moldau.broker import handlers  # noqa: F401  (registers them)
    from moldau.broker.requests.handler_registry import HANDLERS

    requests = {case.cls.API_KEY: case for case in all_messages() if str(case).endswith("Request")}  # type: ignore[attr-defined]
    return tuple(
        (requests[int(api)], range(handler.min_version, handler.max_version + 1))
        for api, handler in sorted(HANDLERS.items())
    )


def valid_batches(rng: random.Random) -> list[bytes]:
    """Batches as clients send them, and some that only a coordinator or an older client would send."""

    def some(count: int) -> list[BatchRecord]:
        return [
            BatchRecord(
                offset, rng.choice((0, 1_000, -1)), rng.choice((None, b"", b"key")), rng.randbytes(rng.randrange(80))
            )
            for offset in range(count)
        ]

    batches = [bytes(encode_batch(some(rng.randrange(1, 12)), codec=codec)) for codec in Codec for _ in range(3)]
    batches += [bytes(encode_batch(some(2), producer_id=7, producer_epoch=0, base_sequence=s)) for s in (0, 2, 5)]
    batches.append(bytes(encode_batch(some(1), producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)))
    batches.append(
        bytes(encode_marker(ControlType.ABORT, producer_id=8, producer_epoch=0, coordinator_epoch=0, timestamp=0))
    )
    batches.append(bytes(encode_batch([BatchRecord(0, 0, b"k", b"v" * 5_000, [("header", b"x"), ("", None)])])))
    old = bytearray(batches[0])
    old[16] = 1  # the magic of an older format
    batches.append(bytes(old))
    return batches


def damaged(rng: random.Random, batch: bytes) -> bytes:
    """The batch with some bytes changed after the checksum field, usually with a matching checksum."""
    data = bytearray(batch)
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(21, len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    if rng.random() < 0.9:
        reseal(data, 0, len(data))
    return bytes(data)
