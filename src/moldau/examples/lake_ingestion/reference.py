"""The totals of all orders, computed by plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

from moldau.examples.lake_ingestion.generator import ORDERS
from moldau.examples.lake_ingestion.layers import WINDOW_MS
from moldau.examples.lake_ingestion.pipeline import RECENT, TOTALS
from moldau.examples.study import Read


def expected(read: Read) -> dict[str, Any]:
    orders: Counter[str] = Counter()
    cents: Counter[str] = Counter()
    windows: dict[str, dict[str, Any]] = {}
    for record in read(ORDERS):
        order = record.value or {}
        shop, window = order["shop"], order["at_ms"] // WINDOW_MS
        orders[shop] += 1
        cents[shop] += order["cents"]
        row = windows.setdefault(f"{window} {shop}", {"shop": shop, "window": window, "orders": 0, "cents": 0})
        row["orders"] += 1
        row["cents"] += order["cents"]
    return {TOTALS: {shop: [orders[shop], cents[shop]] for shop in orders}, RECENT: windows}
