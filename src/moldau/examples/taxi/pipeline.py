"""Three queries: matches by keyed state, surge prices by windows, and fares by SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau import NewTopic
from moldau.examples.place import Place, from_topic, to_topic, updates_to_topic
from moldau.examples.taxi.generator import EVENTS, POSITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPACTED = {"cleanup.policy": "compact"}
MATCHES = "taxi.matches"
PRICES = "taxi.prices"
FARES = "taxi.fares"
TOPICS = [
    NewTopic(MATCHES, partitions=2),
    NewTopic(PRICES, partitions=2, configs=COMPACTED),
    NewTopic(FARES, partitions=2),
]

START_CENTS = 250
CENTS_PER_100_M = 18


def queries(spark: SparkSession, place: Place) -> list[Any]:
    events = from_topic(spark, place, EVENTS, "kind STRING, ride STRING, driver STRING, x INT, y INT")
    positions = from_topic(spark, place, POSITIONS, "x INT, y INT, surge_percent INT, last BOOLEAN")
    return [
        to_topic(matches(events).selectExpr("ride AS key", "*"), place, MATCHES, key="key"),
        updates_to_topic(prices(events), place, PRICES, key="area_minute"),
        updates_to_topic(fares(positions).selectExpr("ride AS key", "*"), place, FARES, key="key"),
    ]


# -- Matches: keyed state ----------------------------------------------------------------------------------------------


def matches(events: DataFrame) -> DataFrame:
    """Each rider with the nearest free driver of the area; without one, with the next driver who becomes free."""
    from moldau.examples.keyed_state import with_state

    return with_state(events, "key", match, "ride STRING, driver STRING, area STRING, metres INT")


def match(state: dict[str, Any], event: Any) -> list[dict[str, Any]]:
    """The state of an area: the places of its free drivers, and the requests that wait for one, the oldest first."""
    free, waiting = state.setdefault("free", {}), state.setdefault("waiting", [])
    if event.kind == "request":
        waiting.append([event.ride, event.x, event.y])
    else:
        free[event.driver] = [event.x, event.y]
    if not free or not waiting:
        return []
    ride, x, y = waiting.pop(0)
    metres, driver = min((abs(x - its_x) + abs(y - its_y), driver) for driver, (its_x, its_y) in free.items())
    del free[driver]
    return [{"ride": ride, "driver": driver, "area": event.key, "metres": metres}]


# -- Prices: windows ---------------------------------------------------------------------------------------------------


def prices(events: DataFrame) -> DataFrame:
    """The surge price of each area and minute, while the minute goes on."""
    from pyspark.sql import functions as f

    requests, free = (f.count_if(f.col("kind") == kind) for kind in ("request", "free"))
    ratio = f.floor(100 * f.col("requests") / f.greatest("free", f.lit(1)))
    return (
        events.withWatermark("timestamp", "1 minute")
        .groupBy(f.col("key").alias("area"), f.window("timestamp", "1 minute"))
        .agg(requests.alias("requests"), free.alias("free"))
        .select(
            f.concat_ws(" ", "area", f.date_format("window.start", "HH:mm")).alias("area_minute"),
            "requests",
            "free",
            f.least(f.lit(300), f.greatest(f.lit(100), ratio)).cast("int").alias("surge_percent"),
        )
    )


# -- Fares: SQL --------------------------------------------------------------------------------------------------------


def fares(positions: DataFrame) -> DataFrame:
    """The fare of each ride that has ended, from all its positions in their order."""
    return positions.sparkSession.sql(
        f"""
        WITH rides AS (
            SELECT key AS ride, array_sort(collect_list(struct(offset, x, y))) AS path,
                   max(surge_percent) AS surge_percent, bool_or(last) AS ended
            FROM {{positions}} GROUP BY key
        ), driven AS (
            SELECT *, zip_with(path, slice(path, 2, size(path)), (a, b) -> abs(b.x - a.x) + abs(b.y - a.y)) AS legs
            FROM rides WHERE ended
        ), measured AS (
            SELECT ride, surge_percent, aggregate(legs, 0, (sum, leg) -> sum + coalesce(leg, 0)) AS metres FROM driven
        )
        SELECT ride, metres, surge_percent,
               ({START_CENTS} + metres * {CENTS_PER_100_M} DIV 100) * surge_percent DIV 100 AS cents
        FROM measured
        """,
        positions=positions,
    )
