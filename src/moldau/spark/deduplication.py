"""Deduplication by key within a time, with bounded state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.client.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def deduplicate(
    frame: DataFrame, key: str | Iterable[str], within: str = "10 minutes", *, time: str = "timestamp"
) -> DataFrame:
    """Return the first row of each key; later rows with the same key are left out if they are less than `within` later.

    `time` names the TIMESTAMP column by which that is judged. Spark removes a key from its state at the end of the
    first batch that begins with a watermark (the largest time seen, minus `within`) after it. So state is bounded by
    the keys of about two times `within`; a row that comes later than `within`, but before the removal, is left out
    too. A row that is older than the watermark is too late to be compared, and is left out.

        once = deduplicate(from_topic(spark, "payments", "id STRING, amount DOUBLE"), "id", within="1 hour")
    """
    if not frame.isStreaming:
        raise ConfigurationError("deduplicate is for streams; in a batch, call frame.dropDuplicates([…])")
    keys = [key] if isinstance(key, str) else list(key)
    return frame.withWatermark(time, within).dropDuplicatesWithinWatermark(keys)
