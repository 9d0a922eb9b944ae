"""Statuses of sensors do not depend on how Spark divides the readings into micro-batches.

The test calls the processor as Spark does: rows of each sensor in any order, then the timers that the watermark of the
earlier batches has passed. That Spark does call it so is seen in `test_kills.py`.
"""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest

from moldau.examples.sensor_health.generator import records
from moldau.examples.sensor_health.reference import status_changes
from moldau.examples.sensor_health.rules import LATENESS_MS, SILENT, SILENT_AFTER_MS

pytest.importorskip("pyspark")

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo

from moldau.examples.sensor_health.sensor_watch import SensorWatch

BEGIN_MS = 1_767_225_600_000


class SensorState:
    """The state and the timers of one sensor; both the handle and the value state of Spark."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None
        self.timers: set[int] = set()

    def getValueState(self, name: str, schema: str) -> SensorState:  # noqa: N802
        return self

    def get(self) -> tuple[Any, ...] | None:
        return self.value

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value

    def registerTimer(self, expiry_ms: int) -> None:  # noqa: N802
        self.timers.add(expiry_ms)

    def deleteTimer(self, expiry_ms: int) -> None:  # noqa: N802
        self.timers.discard(expiry_ms)


class Watch:
    """All sensors, and the watermark."""

    def __init__(self) -> None:
        self._states: dict[str, SensorState] = {}
        self._newest_ms = 0
        self.changes: dict[str, list[dict[str, Any]]] = {}

    def batch(self, readings: list[Row]) -> None:
        watermark_ms = self._newest_ms - LATENESS_MS
        for sensor in {row.sensor for row in readings}:
            self._add(
                sensor,
                self._processor(sensor).handleInputRows(
                    (sensor,), iter([row for row in readings if row.sensor == sensor]), None
                ),
            )
        for sensor, state in self._states.items():
            for expiry_ms in sorted(one for one in state.timers if one <= watermark_ms):
                state.timers.discard(expiry_ms)
                expired = ExpiredTimerInfo(expiry_ms)
                self._add(sensor, self._processor(sensor).handleExpiredTimer((sensor,), None, expired))
        self._newest_ms = max([self._newest_ms, *(row.at_ms for row in readings)])

    def _processor(self, sensor: str) -> SensorWatch:
        processor = SensorWatch()
        processor.init(self._states.setdefault(sensor, SensorState()))
        return processor

    def _add(self, sensor: str, rows: Any) -> None:
        self.changes.setdefault(sensor, []).extend(row.asDict() for row in rows)


def reading(sensor: str, at_ms: int, celsius: float = 50.0) -> Row:
    return Row(sensor=sensor, celsius=celsius, at_ms=at_ms)


def test_statuses_do_not_depend_on_batches(seed: int) -> None:
    chance = random.Random(seed)
    readings = [
        reading(one.key, one.at_ms, (one.value or {})["celsius"]) for one in islice(records(seed, BEGIN_MS, 2), 1000)
    ]
    watch = Watch()
    begin = 0
    while begin < len(readings):
        end = begin + chance.choice([1, 10, 50, 200])
        part = readings[begin:end]
        chance.shuffle(part)
        watch.batch(part)
        begin = end
    watch.batch([])  # as Spark's last batch without data
    by_sensor: dict[str, list[dict[str, Any]]] = {}
    for row in readings:
        by_sensor.setdefault(row.sensor, []).append(row.asDict())
    expected = {sensor: status_changes(sensor, rows, readings[-1].at_ms) for sensor, rows in by_sensor.items()}
    assert watch.changes == expected
    assert any(change["status"] == SILENT for changes in expected.values() for change in changes)


def test_a_sensor_is_silent_only_after_the_whole_time() -> None:
    watch = Watch()
    watch.batch([reading("a", 0), reading("b", 0)])
    watch.batch([reading("b", SILENT_AFTER_MS + LATENESS_MS - 1)])
    watch.batch([])
    assert [change["status"] for change in watch.changes["a"]] == ["ok"]
    watch.batch([reading("b", SILENT_AFTER_MS + LATENESS_MS)])
    watch.batch([])
    assert watch.changes["a"][1:] == [{"sensor": "a", "status": SILENT, "since_ms": SILENT_AFTER_MS}]
    watch.batch([reading("a", 2 * SILENT_AFTER_MS)])
    assert [change["status"] for change in watch.changes["a"]] == ["ok", SILENT, "ok"]


def test_a_reading_just_in_time_is_no_silence() -> None:
    watch = Watch()
    watch.batch([reading("a", 0), reading("a", SILENT_AFTER_MS)])
    watch.batch([reading("a", 2 * SILENT_AFTER_MS)])
    watch.batch([reading("a", 2 * SILENT_AFTER_MS + 1)])
    assert [change["status"] for change in watch.changes["a"]] == ["ok"]
