"""Aborted transactions, as a segment's `.txnindex` lists them and a `read_committed` fetch needs them. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

logger = logging.getLogger(__name__)

# version, producer id, first offset, last offset, last stable offset
_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTxn(NamedTuple):
    """A transaction that was aborted: its records lie between its first and last offset (that of the marker)."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(entries: Iterable[AbortedTxn]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode_aborted(data: bytes, path: str) -> list[AbortedTxn]:
    """The entries of a file; a torn or unknown one ends the list, with a line in the log."""
    entries: list[AbortedTxn] = []
    for at in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
        version, *fields = _ENTRY.unpack_from(data, at)
        if version != _VERSION:
            logger.error("%s: entry at byte %d has version %d; it and what follows is ignored", path, at, version)
            return entries
        entries.append(AbortedTxn(*fields))
    if len(data) % _ENTRY.size:
        logger.error("%s: %d bytes at its end are no whole entry", path, len(data) % _ENTRY.size)
    return entries
