"""Live view: what each layer counts, and the sum of both."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from moldau.examples.lake_ingestion.layers import BatchView, by_shop, reconciled
from moldau.examples.lake_ingestion.pipeline import BATCH_VIEW, RECENT
from moldau.examples.results import Results


def picture(results: Results) -> RenderableType:
    stored = list(results.stored.get(BATCH_VIEW, []))
    view: BatchView = stored[0] if stored else BatchView(0, {})
    layers = reconciled(view, results.table(RECENT).values())
    batch, speed, both = by_shop(layers.batch.items()), by_shop(layers.speed.items()), layers.totals()
    table = Table("shop", "batch layer", "+ speed layer", "= orders", title="orders by shop")
    for shop, (orders, _) in sorted(both.items()):
        table.add_row(shop, *(f"{layer.get(shop, [0])[0]:,}" for layer in (batch, speed)), f"{orders:,}")
    agreed = f"{layers.in_both} counts of a window were made by both layers, {len(layers.disagreements)} are different"
    return Group(table, Text(agreed))
