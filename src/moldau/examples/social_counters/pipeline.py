"""Counters per post, and the posts that trend: those with the most actions of a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau import NewTopic
from moldau.examples.place import Place, from_topic, to_topic, updates_to_topic
from moldau.examples.social_counters.generator import ACTIVITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPACTED = {"cleanup.policy": "compact"}
COUNTERS = "social.counters"
ACTIONS = "social.actions"
TRENDING = "social.trending"
TOPICS = [
    NewTopic(COUNTERS, partitions=2, configs=COMPACTED),
    NewTopic(ACTIONS, partitions=2),
    NewTopic(TRENDING, partitions=1, configs=COMPACTED),
]
TOP = 5


def queries(spark: SparkSession, place: Place) -> list[Any]:
    activity = from_topic(spark, place, ACTIVITY, "action STRING, person STRING")
    changed = from_topic(spark, place, ACTIONS, "post STRING, actions LONG")
    return [
        updates_to_topic(counters(activity), place, COUNTERS, key="post"),
        updates_to_topic(actions(activity), place, ACTIONS, key="minute"),
        to_topic(trending(changed), place, TRENDING, key="minute"),
    ]


def counters(activity: DataFrame) -> DataFrame:
    """Likes, comments and people of each post."""
    return activity.sparkSession.sql(
        """
        SELECT key AS post,
               count_if(action = 'like') - count_if(action = 'unlike') AS likes,
               count_if(action = 'comment') AS comments,
               size(collect_set(person)) AS people
        FROM {activity} GROUP BY key
        """,
        activity=activity,
    )


def actions(activity: DataFrame) -> DataFrame:
    """The number of actions of each post and minute, while the minute goes on."""
    from pyspark.sql import functions as f

    return (
        activity.withWatermark("timestamp", "1 minute")
        .groupBy(f.window("timestamp", "1 minute"), f.col("key").alias("post"))
        .agg(f.count("*").alias("actions"))
        .select(f.date_format("window.start", "HH:mm").alias("minute"), "post", "actions")
    )


def trending(changed: DataFrame) -> DataFrame:
    """The first posts of each minute, each time that they change."""
    from moldau.examples.keyed_state import with_state

    return with_state(changed, "key", first_posts, "minute STRING, posts STRING")


def first_posts(state: dict[str, Any], row: Any) -> list[dict[str, str]]:
    """The state of a minute: the number of actions of each post, and the first posts that were written last."""
    counts = state.setdefault("counts", {})
    counts[row.post] = row.actions
    first = sorted(counts, key=lambda post: (-counts[post], post))[:TOP]
    posts = ", ".join(f"{post}: {counts[post]}" for post in first)
    if posts == state.get("posts"):
        return []
    state["posts"] = posts
    return [{"minute": row.key, "posts": posts}]
