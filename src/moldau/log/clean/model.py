"""What the two implementations of the inner loops share with their caller."""

from __future__ import annotations

from typing import Final, NamedTuple

NO_HORIZON: Final = -1
"""No delete horizon is to be set."""

ABSENT: Final = -1
"""The offset of a key that is not in the map."""


class Sifted(NamedTuple):
    """What is left of a batch."""

    kept: int
    """How many records stay."""
    records: bytes | None
    """Those that stay, uncompressed, one after another; None where the batch stays as it is."""
    max_timestamp: int
    """The latest of those that stay; -1 where none does."""
    rebased: bool
    """Timestamps are relative to the delete horizon now, which must become the batch's base timestamp."""
