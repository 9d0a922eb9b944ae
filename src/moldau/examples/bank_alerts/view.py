"""Live view: the last alerts, and the thresholds that were changed last."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table

from moldau.examples.bank_alerts.database import TRANSACTIONS
from moldau.examples.bank_alerts.generator import THRESHOLDS
from moldau.examples.bank_alerts.pipeline import ALERTS
from moldau.examples.results import Results

ROWS = 10


def picture(results: Results) -> RenderableType:
    title = f"alerts: {results.count(ALERTS):,} of {results.count(TRANSACTIONS):,} transactions"
    alerts = Table("transaction", "account", "amount", "threshold", title=title)
    for record in results.recent(ALERTS)[:ROWS]:
        if record.value:
            alerts.add_row(
                str(record.value["id"]), record.key, _money(record.value["cents"]), _money(record.value["threshold"])
            )
    thresholds = Table("account", "alert above", title=f"thresholds: {results.count(THRESHOLDS):,} set")
    for record in results.recent(THRESHOLDS)[:ROWS]:
        thresholds.add_row(record.key, "no alerts" if record.value is None else _money(record.value["cents"]))
    return Columns([alerts, thresholds])


def _money(cents: int) -> str:
    return f"{cents / 100:,.2f} €"
