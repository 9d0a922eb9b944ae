"""Aborted transactions of a segment: the `.txnindex` entries that `read_committed` fetches need. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from moldau.host.event_log import event_logger

logger = event_logger(__name__)

# version, producer id, first offset, last offset, last stable offset
_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTxn(NamedTuple):
    """An aborted transaction: its records are between its first offset and its last offset (that of the marker)."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(entries: Iterable[AbortedTxn]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode_aborted(data: bytes, path: str) -> list[AbortedTxn]:
    """The entries of a file. A torn or unknown entry ends the list and is logged."""
    entries: list[AbortedTxn] = []
    for at in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
        version, *fields = _ENTRY.unpack_from(data, at)
        if version != _VERSION:
            logger.error(
                "aborted transaction of an unknown version, it and all later ones are ignored",
                extra={"path": path, "position": at, "version": version},
            )
            return entries
        entries.append(AbortedTxn(*fields))
    if len(data) % _ENTRY.size:
        logger.error(
            "index of aborted transactions has a torn last entry",
            extra={"path": path, "bytes": len(data) % _ENTRY.size},
        )
    return entries


def overlapping(entries: Iterable[AbortedTxn], first_offset: int, end_offset: int) -> list[AbortedTxn]:
    """The transactions with records between `first_offset` and `end_offset` (exclusive)."""
    return [one for one in entries if one.last_offset >= first_offset and one.first_offset < end_offset]


def is_complete(entries: Iterable[AbortedTxn], end_offset: int) -> bool:
    """Whether later entries cannot overlap offsets below `end_offset`: every transaction before it had ended."""
    return any(one.last_stable_offset >= end_offset for one in entries)
