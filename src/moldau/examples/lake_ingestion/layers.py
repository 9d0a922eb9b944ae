"""The batch layer, and the sum of both layers.

The batch layer covers all windows up to a boundary, which it stores with its counts. The speed layer covers the windows
from this boundary on. When the batch layer runs again the boundary moves, and the sum does not change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

WINDOW_MS = 10_000
LATENESS_MS = 20_000
"""How late an order may arrive. An order that is later is missing in the sum until the batch layer runs again."""

Counts = dict[tuple[int, str], tuple[int, int]]
"""Number of orders and sum of cents, by window and shop."""


class BatchView(NamedTuple):
    """What the batch layer has counted: all windows before the boundary."""

    boundary: int
    counts: Counts

    def to_json(self) -> str:
        return json.dumps(
            {"boundary": self.boundary, "counts": [[*place, *count] for place, count in self.counts.items()]}
        )

    @classmethod
    def from_json(cls, text: str) -> BatchView:
        fields = json.loads(text)
        counts = {(window, shop): (orders, cents) for window, shop, orders, cents in fields["counts"]}
        return cls(fields["boundary"], counts)


class Reconciled(NamedTuple):
    """Both layers, each with the windows that it is responsible for."""

    batch: Counts
    speed: Counts
    in_both: int
    """How many windows of shops both layers have counted."""
    disagreements: list[tuple[int, str]]
    """Those of them that have different results."""

    def totals(self) -> dict[str, list[int]]:
        """Number of orders and sum of cents by shop."""
        return by_shop([*self.batch.items(), *self.speed.items()])


def by_shop(counts: Iterable[tuple[tuple[int, str], tuple[int, int]]]) -> dict[str, list[int]]:
    totals: dict[str, list[int]] = {}
    for (_, shop), (orders, cents) in counts:
        before = totals.get(shop, [0, 0])
        totals[shop] = [before[0] + orders, before[1] + cents]
    return totals


def batch_layer(directory: Path) -> BatchView:
    """Count everything in the lake, and replace the stored view."""
    from deltalake import DeltaTable

    table = DeltaTable(str(directory / "lake")).to_pyarrow_table(columns=["window", "shop", "cents", "at_ms"])
    boundary = (max(table["at_ms"].to_pylist()) - LATENESS_MS) // WINDOW_MS
    grouped = table.group_by(["window", "shop"]).aggregate([("cents", "count"), ("cents", "sum")])
    counts = {
        (row["window"], row["shop"]): (row["cents_count"], row["cents_sum"])
        for row in grouped.to_pylist()
        if row["window"] < boundary
    }
    view = BatchView(boundary, counts)
    new = directory / "batch-view.new"
    new.write_text(view.to_json())
    new.replace(directory / "batch-view.json")
    return view


def stored_batch_view(directory: Path) -> BatchView:
    """The view of the last run; empty before the first run."""
    path = directory / "batch-view.json"
    return BatchView.from_json(path.read_text()) if path.exists() else BatchView(0, {})


def reconciled(batch: BatchView, recent: Iterable[Mapping[str, Any]]) -> Reconciled:
    """Before the boundary the batch layer counts, from there on the speed layer."""
    counts = {(row["window"], row["shop"]): (row["orders"], row["cents"]) for row in recent}
    speed = {place: count for place, count in counts.items() if place[0] >= batch.boundary}
    before = [place for place in {*batch.counts, *counts} if place[0] < batch.boundary]
    disagreements = sorted(place for place in before if counts.get(place) != batch.counts.get(place))
    return Reconciled(batch.counts, speed, len(before), disagreements)
