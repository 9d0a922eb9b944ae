"""From what viewers watch to positions, profiles, recommendations and an analytics store.

The queries read the topic of the viewers, and write three topics of latest values (compacted) and a SQLite table.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from moldau import NewTopic
from moldau.examples.place import Place, batches_to, from_topic, to_topic, updates_to_topic
from moldau.examples.study import Content
from moldau.examples.video_analytics.generator import CATEGORIES, WATCHING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPACTED = {"cleanup.policy": "compact"}
POSITIONS = "video.positions"
PROFILES = "video.profiles"
PAIRS = "video.pairs"
RECOMMENDATIONS = "video.recommendations"
TOPICS = [
    NewTopic(POSITIONS, partitions=2, configs=COMPACTED),
    NewTopic(PROFILES, partitions=2, configs=COMPACTED),
    NewTopic(PAIRS, partitions=2),
    NewTopic(RECOMMENDATIONS, partitions=2, configs=COMPACTED),
]
STORE = "viewing.sqlite"

SCHEMA = "user STRING, video STRING, category STRING, position_s INT, watched_s INT"


def queries(spark: SparkSession, place: Place) -> list[Any]:
    watching = from_topic(spark, place, WATCHING, SCHEMA)
    pairs = from_topic(spark, place, PAIRS, "other STRING")
    return [
        updates_to_topic(positions(watching), place, POSITIONS, key="user_video"),
        updates_to_topic(profiles(watching), place, PROFILES, key="user"),
        to_topic(seen_together(watching), place, PAIRS, key="video"),
        updates_to_topic(recommendations(pairs), place, RECOMMENDATIONS, key="video"),
        batches_to(viewing(watching), place, STORE, lambda rows, _: save(rows, place)),
    ]


def positions(watching: DataFrame) -> DataFrame:
    """The position at which a user resumes a video: the one of the last record. Records of a user are in order."""
    from pyspark.sql import functions as f

    return (
        watching.groupBy("user", "video")
        .agg(f.max_by("position_s", "offset").alias("position_s"))
        .select(f.concat_ws("/", "user", "video").alias("user_video"), "position_s")
    )


def profiles(watching: DataFrame) -> DataFrame:
    """The time that a user has spent, the number of videos, and the favourite category."""
    from pyspark.sql import functions as f

    spent = [f.sum(f.when(f.col("category") == one, f.col("watched_s")).otherwise(0)).alias(one) for one in CATEGORIES]
    # The greatest pair of time and name.
    best = f.array_max(f.array(*(f.struct(f.col(one).alias("spent"), f.lit(one).alias("name")) for one in CATEGORIES)))
    return (
        watching.groupBy("user")
        .agg(f.sum("watched_s").alias("watched_s"), f.size(f.collect_set("video")).alias("videos"), *spent)
        .select("user", "watched_s", "videos", best["name"].alias("favourite"))
    )


def seen_together(watching: DataFrame) -> DataFrame:
    """Two rows for each pair of videos that the same user has seen: video and other, other and video."""
    from moldau.examples.keyed_state import with_state

    return with_state(watching, "user", pairs_with_earlier, "video STRING, other STRING")


def pairs_with_earlier(state: dict[str, Any], row: Any) -> list[dict[str, str]]:
    """The state of a user: the videos that the user has seen."""
    seen = state.setdefault("seen", [])
    if row.video in seen:
        return []
    pairs = [pair for one in seen for pair in ((row.video, one), (one, row.video))]
    seen.append(row.video)
    return [{"video": video, "other": other} for video, other in pairs]


def recommendations(pairs: DataFrame) -> DataFrame:
    """For each video the one that most of its viewers have also seen; of several the first by name."""
    from pyspark.sql import functions as f

    by_video = pairs.groupBy(f.col("key").alias("video"))
    return by_video.agg(f.mode("other", deterministic=True).alias("next"), f.count("*").alias("pairs"))


def viewing(watching: DataFrame) -> DataFrame:
    """The seconds that were watched per minute and category."""
    from pyspark.sql import functions as f

    return (
        watching.withWatermark("timestamp", "1 minute")
        .groupBy(f.window("timestamp", "1 minute"), "category")
        .agg(f.sum("watched_s").alias("watched_s"))
        .select(f.date_format("window.start", "HH:mm").alias("minute"), "category", "watched_s")
    )


# -- Analytics store ---------------------------------------------------------------------------------------------------


def save(rows: DataFrame, place: Place) -> None:
    """Write totals, not additions: a batch that Spark repeats after a kill changes nothing."""
    found = [tuple(row) for row in rows.collect()]
    with _store(place) as store:
        store.executemany("INSERT OR REPLACE INTO viewing VALUES (?, ?, ?)", found)
        store.commit()


def stored(place: Place) -> dict[str, Content]:
    with _store(place) as store:
        rows = store.execute("SELECT minute, category, watched_s FROM viewing ORDER BY minute").fetchall()
    return {STORE: {f"{minute} {category}": watched_s for minute, category, watched_s in rows}}


def _store(place: Place) -> Any:
    from contextlib import closing

    store = sqlite3.connect(place.directory / STORE)
    store.execute(
        "CREATE TABLE IF NOT EXISTS viewing (minute TEXT, category TEXT, watched_s INT, PRIMARY KEY (minute, category))"
    )
    return closing(store)
