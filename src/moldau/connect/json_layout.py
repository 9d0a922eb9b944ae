"""Limits of schemaless JSON in Arrow, and the words that the native decoder and its reference share."""

from __future__ import annotations

from typing import Final

MAX_FIELDS: Final = 1000
"""Fields of one schemaless object over all rows of a batch. Objects whose field names are data (ids, dates) would
otherwise become columns without number; above this limit they are kept as JSON text."""

MAX_DEPTH: Final = 32
"""Levels of schemaless arrays and objects that become Arrow lists and structs; deeper values are kept as JSON text."""

MAX_NESTING: Final = 1000
"""Levels of nesting that a text may have: the limit of Kafka's parser (Jackson)."""

MAX_NUMBER: Final = 1000
"""Characters of a number: the limit of Kafka's parser (Jackson)."""

MAX_SPLITS: Final = 32
"""How often a field may change its type from one row to the next within one call. Each change begins a new batch;
after this many the field is kept as JSON text until the end of the call, so that batches do not become tiny."""

EXACT_INTEGERS: Final = 2**53
"""A column with integers and fractions holds doubles if no integer is larger than this."""


def describe(reason: str, position: int) -> str:
    """The reason why a row is bad."""
    return f"invalid JSON at byte {position}: {reason}"
