"""Live view: the last matches, the prices of the last minutes, and the last fares."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table

from moldau.examples.results import Results
from moldau.examples.taxi.pipeline import FARES, MATCHES, PRICES

ROWS = 8


def picture(results: Results) -> RenderableType:
    matches = Table("rider", "driver", "distance", title=f"matches: {results.count(MATCHES):,}")
    for record in results.recent(MATCHES)[:ROWS]:
        if record.value:
            matches.add_row(record.key, record.value["driver"], f"{record.value['metres']} m")
    prices = Table("area, minute", "requests", "free", "price", title="surge prices")
    for name, value in list(results.table(PRICES).items())[-ROWS:]:
        style = "red" if value["surge_percent"] > 150 else ""
        prices.add_row(name, str(value["requests"]), str(value["free"]), f"{value['surge_percent']} %", style=style)
    fares = Table("ride", "distance", "fare", title=f"fares: {results.count(FARES):,}")
    for record in results.recent(FARES)[:ROWS]:
        if record.value:
            fares.add_row(record.key, f"{record.value['metres']} m", f"{record.value['cents'] / 100:.2f} €")
    return Columns([matches, prices, fares])
