"""Live view: what each layer counts, and the sum of both."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from moldau.examples.lake_ingestion.generator import ORDERS
from moldau.examples.lake_ingestion.pipeline import LAYERS
from moldau.examples.results import Results


def picture(results: Results) -> RenderableType:
    layers = dict(results.stored.get(LAYERS, {}))
    table = Table("shop", "batch layer", "+ speed layer", "= orders", title="orders by shop")
    batch, speed = layers.get("batch", {}), layers.get("speed", {})
    for shop in sorted({*batch, *speed}):
        counted = batch.get(shop, 0), speed.get(shop, 0)
        table.add_row(shop, f"{counted[0]:,}", f"{counted[1]:,}", f"{sum(counted):,}")
    total = sum(batch.values()) + sum(speed.values())
    disagreements = layers.get("disagreements", 0)
    return Group(
        table,
        Text(f"{total:,} of {results.count(ORDERS):,} orders are counted"),
        Text(f"{layers.get('windows', 0)} windows were counted by both layers, {disagreements} of them differently"),
    )
