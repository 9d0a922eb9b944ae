"""Live view: the status of each sensor, and what the pager sees: the critical alerts."""

from __future__ import annotations

from collections import Counter

from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table

from moldau.examples.results import Results
from moldau.examples.sensor_health.alerts import ALERTS
from moldau.examples.sensor_health.generator import READINGS
from moldau.examples.sensor_health.pipeline import STATUSES
from moldau.examples.sensor_health.rules import CRITICAL, OK, SILENT, WARNING

COLOURS = {OK: "green", WARNING: "yellow", CRITICAL: "red", SILENT: "magenta"}
PAGES = 8


def picture(results: Results) -> RenderableType:
    latest = results.table(READINGS)
    sensors = Table("sensor", "celsius", "status", title="latest status")
    statuses = sorted(results.table(STATUSES).items())
    for sensor, value in statuses:
        status = value["status"]
        sensors.add_row(sensor, f"{latest.get(sensor, {}).get('celsius', '')}", f"[{COLOURS[status]}]{status}[/]")
    numbers = Table("status", "sensors", title="all sensors")
    for status, number in Counter(value["status"] for _, value in statuses).most_common():
        numbers.add_row(f"[{COLOURS[status]}]{status}[/]", str(number))
    pager = Table("sensor", "celsius", title="pager: critical alerts")
    critical = [record.value or {} for record in results.recent(ALERTS)]
    for alert in [one for one in critical if one["level"] == CRITICAL][:PAGES]:
        pager.add_row(alert["sensor"], f"{alert['celsius']}")
    return Columns([sensors, numbers, pager])
