"""Spark session of a Connect process, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.spark.session_holder import SessionHolder

APP_NAME: Final = "moldau-connect"
DEFAULT_MASTER: Final = "local[16]"
"""More task slots than cores: a task that waits for a slow target must not keep the others from running."""
LOCAL_ADDRESS: Final = "127.0.0.1"

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "moldau.connect.engine.worker_daemon",
    # A cancelled task must free its slot, also if its Python code does not end: Spark then kills the Python process.
    "spark.python.task.killTimeout": "2s",
    # The engine itself decides whether a failed batch is tried again.
    "spark.task.maxFailures": "1",
    # Nothing here reads the history of finished jobs, which would fill the memory of a JVM that runs for months.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.log.level": "ERROR",
}
LOCAL_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.driver.host": LOCAL_ADDRESS,
    "spark.driver.bindAddress": LOCAL_ADDRESS,
    # Batches stay in the Python processes; the JVM only plans and passes on.
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss1m",
}


def spark_settings(given: Mapping[str, Any]) -> dict[str, str]:
    """The settings of the session: ours, replaced by those that are given."""
    master = str(given.get("spark.master") or DEFAULT_MASTER)
    local = LOCAL_DEFAULTS if master.startswith("local") else {}
    return {**DEFAULTS, **local, **{name: str(value) for name, value in given.items()}, "spark.master": master}


def task_slots(master: str, otherwise: int = 16) -> int:
    """The number of tasks that run at the same time, as far as the master's name says it."""
    if not master.startswith("local"):
        return otherwise
    inside = master.partition("[")[2].rstrip("]").split(",")[0].strip()
    return int(inside) if inside.isdigit() else (1 if not inside else otherwise)


class SparkHolder(SessionHolder):
    """The session of a Connect process. Any thread may ask for it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._complete = spark_settings(settings)
        super().__init__(APP_NAME, self._complete)

    @property
    def slots(self) -> int:
        return task_slots(self._complete["spark.master"])
