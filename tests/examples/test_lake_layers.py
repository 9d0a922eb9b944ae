"""Layers of the study of the lake: their sum is exact, a repeated batch is added once, and late orders are found."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.examples.lake_ingestion.generator import records
from moldau.examples.lake_ingestion.layers import LATENESS_MS, WINDOW_MS, batch_layer, reconciled, stored_batch_view
from moldau.examples.lake_ingestion.pipeline import add_to_lake
from moldau.examples.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN_MS = 1_767_225_600_000
ROW = "order STRING, shop STRING, cents LONG, at_ms LONG, window LONG"

Order = dict[str, Any]


def orders_of(seed: int, count: int) -> list[Order]:
    return [{"order": one.key, **(one.value or {})} for one in islice(records(seed, BEGIN_MS, 5), count)]


def frame(spark: SparkSession, orders: list[Order]) -> DataFrame:
    rows = [(one["order"], one["shop"], one["cents"], one["at_ms"], one["at_ms"] // WINDOW_MS) for one in orders]
    return spark.createDataFrame(rows, ROW)


def speed_layer(orders: list[Order]) -> list[dict[str, Any]]:
    """What the speed layer writes for these orders."""
    counts: dict[tuple[int, str], dict[str, Any]] = {}
    for one in orders:
        window, shop = one["at_ms"] // WINDOW_MS, one["shop"]
        row = counts.setdefault((window, shop), {"window": window, "shop": shop, "orders": 0, "cents": 0})
        row["orders"] += 1
        row["cents"] += one["cents"]
    return list(counts.values())


def totals(orders: list[Order]) -> dict[str, list[int]]:
    shops = {one["shop"] for one in orders}
    return {
        shop: [sum(one["shop"] == shop for one in orders), sum(one["cents"] for one in orders if one["shop"] == shop)]
        for shop in shops
    }


def test_the_sum_is_exact_however_far_the_batch_layer_is_behind(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    place = Place({}, tmp_path)
    orders = orders_of(seed, 600)
    boundaries = [stored_batch_view(tmp_path).boundary]
    assert reconciled(stored_batch_view(tmp_path), speed_layer(orders)).totals() == totals(orders)
    for number, (begin, end) in enumerate([(0, 200), (200, 400), (400, 600)]):
        add_to_lake(place, frame(spark, orders[begin:end]), number)
        # Spark repeats the batch: the crash came after the commit of the lake, and before the one of the query.
        add_to_lake(place, frame(spark, orders[begin:end]), number)
        view = batch_layer(tmp_path)
        assert view == stored_batch_view(tmp_path)
        both = reconciled(view, speed_layer(orders))
        assert both.totals() == totals(orders)
        assert both.disagreements == []
        boundaries.append(view.boundary)
    assert boundaries == sorted(set(boundaries)), "each run of the batch layer covers more"


def test_an_order_that_is_too_late_is_a_disagreement_and_counted_by_the_batch_layer(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    place = Place({}, tmp_path)
    orders = orders_of(seed, 400)
    add_to_lake(place, frame(spark, orders), 0)
    view = batch_layer(tmp_path)
    late = {"order": "late", "shop": orders[0]["shop"], "cents": 1, "at_ms": orders[0]["at_ms"]}
    assert late["at_ms"] < orders[-1]["at_ms"] - 2 * LATENESS_MS
    add_to_lake(place, frame(spark, [late]), 1)
    # The speed layer has dropped the order: its watermark had passed. The sum lacks it until the batch layer runs.
    assert reconciled(view, speed_layer(orders)).totals() == totals(orders)
    both = reconciled(batch_layer(tmp_path), speed_layer(orders))
    assert both.totals() == totals([*orders, late])
    assert both.disagreements == [(late["at_ms"] // WINDOW_MS, late["shop"])]
