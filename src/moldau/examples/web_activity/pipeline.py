"""Three queries in SQL: sessions, views per page and minute, and errors per host and minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau import NewTopic
from moldau.examples.place import Place, from_topic, to_topic, updates_to_topic
from moldau.examples.web_activity.generator import PAGE_VIEWS
from moldau.examples.web_activity.log_collector import HOST_LOGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SESSIONS = "web.sessions"
PAGE_COUNTS = "web.page-counts"
HOST_ERRORS = "web.host-errors"
COMPACTED = {"cleanup.policy": "compact"}
TOPICS = [
    NewTopic(SESSIONS, partitions=1),
    NewTopic(PAGE_COUNTS, partitions=1, configs=COMPACTED),
    NewTopic(HOST_ERRORS, partitions=1, configs=COMPACTED),
]

SESSION_GAP_MS = 30_000
"""A user who looks at no page for 30 seconds has left. The next page view begins a new session."""
LATENESS_MS = 60_000
"""How much later than others a page view may be read: a browser was offline, or a query that catches up is further in
one partition than in the other. A session is written when no page view can prolong it."""
LOG_LATENESS = "10 minutes"
"""How far the log of one host may be behind the others: a collector first reads the whole file of a host."""

# {page_views} and {log_lines} are the streams that `queries` gives to spark.sql.
SESSIONS_SQL = f"""
    SELECT key AS user, unix_millis(session.start) AS first_ms, max(at_ms) AS last_ms, count(*) AS views
    FROM (SELECT *, session_window(at, '{SESSION_GAP_MS} milliseconds') AS session FROM {{page_views}})
    GROUP BY key, session
"""

PAGE_COUNTS_SQL = """
    SELECT concat_ws(' ', minute, page) AS key, minute, page, views
    FROM (
        SELECT date_format(window.start, 'yyyy-MM-dd HH:mm') AS minute, page, count(*) AS views
        FROM {page_views} GROUP BY window(at, '1 minute'), page
    )
"""

HOST_ERRORS_SQL = """
    SELECT concat_ws(' ', minute, host) AS key, minute, host, requests, errors
    FROM (
        SELECT date_format(window.start, 'yyyy-MM-dd HH:mm') AS minute, host,
               count(*) AS requests, count_if(status >= 500) AS errors
        FROM {log_lines} GROUP BY window(at, '1 minute'), host
    )
"""


def queries(spark: SparkSession, place: Place) -> list[Any]:
    views = page_views(spark, place)
    lines = log_lines(spark, place)
    return [
        to_topic(spark.sql(SESSIONS_SQL, page_views=views), place, SESSIONS, key="user"),
        updates_to_topic(spark.sql(PAGE_COUNTS_SQL, page_views=views), place, PAGE_COUNTS, key="key"),
        updates_to_topic(spark.sql(HOST_ERRORS_SQL, log_lines=lines), place, HOST_ERRORS, key="key"),
    ]


def page_views(spark: SparkSession, place: Place) -> DataFrame:
    views = from_topic(spark, place, PAGE_VIEWS, "page STRING, at_ms LONG")
    return views.selectExpr("*", "timestamp_millis(at_ms) AS at").withWatermark("at", f"{LATENESS_MS} milliseconds")


def log_lines(spark: SparkSession, place: Place) -> DataFrame:
    """A line has a time, a status and a page."""
    lines = from_topic(spark, place, HOST_LOGS, "host STRING, line STRING")
    at, status = "CAST(split_part(line, ' ', 1) AS TIMESTAMP) AS at", "CAST(split_part(line, ' ', 2) AS INT) AS status"
    return lines.selectExpr("host", at, status).withWatermark("at", LOG_LATENESS)
