"""Rules of the factory: which temperature is which status, and how long a sensor may be silent."""

from __future__ import annotations

OK = "ok"
WARNING = "warning"
CRITICAL = "critical"
SILENT = "silent"

WARM_CELSIUS = 60
HOT_CELSIUS = 70

SILENT_AFTER_MS = 30_000
LATENESS_MS = 20_000
"""How much later than others a reading may be read: it was on the way, or a query that catches up is further in one
partition than in the other. A sensor is called silent only after this time, too."""


def status_of(celsius: float) -> str:
    if celsius > HOT_CELSIUS:
        return CRITICAL
    return WARNING if celsius > WARM_CELSIUS else OK
