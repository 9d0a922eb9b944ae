"""Facts of a running query from Spark's progress reports: rows, rate, lag, and records that were not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.spark.progress import lag

BAD_RECORDS: Final = "bad_records"
LATE_RECORDS: Final = "late_records"


def progress_facts(progress: Any) -> tuple[int, float, int | None, dict[str, int]]:
    """Of a report (`query.lastProgress`): rows read by the micro-batch, rows per second, lag over all partitions (None
    if unknown), and dropped records of the micro-batch by reason."""
    if progress is None:
        return 0, 0.0, None, {}
    behind = lag(progress)
    return (
        int(_field(progress, "numInputRows") or 0),
        float(_field(progress, "processedRowsPerSecond") or 0.0),
        sum(behind.values()) if behind else None,
        _dropped(progress),
    )


def _dropped(progress: Any) -> dict[str, int]:
    late = sum(int(_field(one, "numRowsDroppedByWatermark") or 0) for one in _field(progress, "stateOperators") or ())
    bad = 0
    for name, row in dict(_field(progress, "observedMetrics") or {}).items():
        if name.startswith(BAD_RECORDS):
            values = row.values() if isinstance(row, Mapping) else tuple(row)
            bad += sum(int(value or 0) for value in values)
    return {reason: count for reason, count in ((BAD_RECORDS, bad), (LATE_RECORDS, late)) if count}


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
