"""Shared values of the two implementations of the compaction loops."""

from __future__ import annotations

from typing import Final, NamedTuple

NO_HORIZON: Final = -1
"""Do not set a delete horizon."""

ABSENT: Final = -1
"""The offset of a key that is not in the map."""


class Sifted(NamedTuple):
    """The records of a batch that are kept."""

    kept: int
    """The number of kept records."""
    records: bytes | None
    """The kept records, uncompressed and concatenated; None if the batch stays unchanged."""
    max_timestamp: int
    """The largest timestamp of the kept records; -1 if there are none."""
    rebased: bool
    """Timestamps are now relative to the delete horizon, which must become the batch's base timestamp."""
