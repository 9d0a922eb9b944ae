"""Keyed state of one sensor: its status, and a timer that runs out when the sensor falls silent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from moldau.examples.sensor_health.rules import SILENT, SILENT_AFTER_MS, status_of

CHANGE = "sensor STRING, status STRING, since_ms LONG"


class SensorWatch(StatefulProcessor):
    """Spark calls it with one sensor at a time. Its state: the time of the last reading, and the status since then."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("sensor", "last_ms LONG, status STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """New readings of the sensor. A gap between two of them is a silence, even if no timer ran out in it."""
        (sensor,) = key
        before = self._state.get()
        last_ms, status = before if before is not None else (0, "")
        for row in sorted(rows, key=lambda row: row.at_ms):
            if status not in ("", SILENT) and row.at_ms - last_ms > SILENT_AFTER_MS:
                status = SILENT
                yield Row(sensor=sensor, status=SILENT, since_ms=last_ms + SILENT_AFTER_MS)
            if status != status_of(row.celsius):
                status = status_of(row.celsius)
                yield Row(sensor=sensor, status=status, since_ms=row.at_ms)
            last_ms = row.at_ms
        if before is not None:
            self._handle.deleteTimer(before[0] + SILENT_AFTER_MS)
        self._handle.registerTimer(last_ms + SILENT_AFTER_MS)
        self._state.update((last_ms, status))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """The other sensors are far ahead, and this one has not reported: it is silent."""
        (sensor,) = key
        last_ms, _ = self._state.get()
        self._state.update((last_ms, SILENT))
        yield Row(sensor=sensor, status=SILENT, since_ms=expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        """Nothing to close."""
