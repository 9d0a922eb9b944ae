"""Spark session of an SQL server: one JVM for all queries and statements, each with a session of its own in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from moldau.spark.session_holder import SessionHolder

APP_NAME: Final = "moldau-sql"
LOCAL_ADDRESS: Final = "127.0.0.1"
MIN_SLOTS: Final = 4
"""Task slots on a small machine: a query whose task waits for a broker must not keep all others from running."""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "moldau.sql.server.worker_daemon",
    # Nothing here reads the history of finished jobs, which would fill the memory of a JVM that runs for months.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.streaming.ui.retainedQueries": "5",
    "spark.sql.streaming.numRecentProgressUpdates": "30",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}
LOCAL_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.driver.host": LOCAL_ADDRESS,
    "spark.driver.bindAddress": LOCAL_ADDRESS,
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss1m",
}


def spark_settings(given: Mapping[str, str], cores: int | None = None) -> dict[str, str]:
    """The settings of the session: ours, replaced by those that are given."""
    cores = cores or os.cpu_count() or 1
    master = given.get("spark.master") or f"local[{max(MIN_SLOTS, cores)}]"
    local: Mapping[str, str] = {}
    if master.startswith("local"):
        # Sessions of queries take it from here: Spark's default of 200 makes each micro-batch of an aggregate slow.
        local = {**LOCAL_DEFAULTS, "spark.sql.shuffle.partitions": str(cores)}
    return {**DEFAULTS, **local, **given, "spark.master": master}


def server_session(given: Mapping[str, str]) -> SessionHolder:
    """The holder of the server's session."""
    return SessionHolder(APP_NAME, spark_settings(given))
