"""Alerts and statuses of all sensors, computed by plain Python."""

from __future__ import annotations

from typing import Any

from moldau.examples.sensor_health.alerts import ALERTS, alert_of
from moldau.examples.sensor_health.generator import READINGS
from moldau.examples.sensor_health.pipeline import HISTORY, STATUSES
from moldau.examples.sensor_health.rules import LATENESS_MS, SILENT, SILENT_AFTER_MS, status_of
from moldau.examples.study import Content, Read


def expected(read: Read) -> dict[str, Content]:
    readings: dict[str, list[dict[str, Any]]] = {}
    for record in read(READINGS):
        readings.setdefault(record.key, []).append(record.value or {})
    now_ms = max(reading["at_ms"] for rows in readings.values() for reading in rows)
    changes = {sensor: status_changes(sensor, rows, now_ms) for sensor, rows in readings.items()}
    return {
        ALERTS: [alert for sensor, rows in readings.items() for row in rows if (alert := alert_of(sensor, row))],
        STATUSES: {sensor: rows[-1] for sensor, rows in changes.items()},
        HISTORY: [change for rows in changes.values() for change in rows],
    }


def status_changes(sensor: str, readings: list[dict[str, Any]], now_ms: int) -> list[dict[str, Any]]:
    """All changes of one sensor's status, in the order of time."""
    changes: list[dict[str, Any]] = []

    def change(status: str, since_ms: int) -> None:
        if not changes or changes[-1]["status"] != status:
            changes.append({"sensor": sensor, "status": status, "since_ms": since_ms})

    last_ms = readings[0]["at_ms"]
    for reading in readings:
        if reading["at_ms"] - last_ms > SILENT_AFTER_MS:
            change(SILENT, last_ms + SILENT_AFTER_MS)
        last_ms = reading["at_ms"]
        change(status_of(reading["celsius"]), last_ms)
    # At the end it is silent if the other sensors are far enough ahead.
    if last_ms + SILENT_AFTER_MS <= now_ms - LATENESS_MS:
        change(SILENT, last_ms + SILENT_AFTER_MS)
    return changes
