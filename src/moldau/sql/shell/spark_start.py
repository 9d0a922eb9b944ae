"""Start of the SQL session in the background: Spark needs seconds, and the prompt must not wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.sql.results import Result
    from moldau.sql.session import SqlSession
    from moldau.sql.statements import Statement

CONFIGURATION: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
LOCAL: Final[Mapping[str, str]] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""In one process, nothing needs to reach Spark from another machine."""
MAX_LOG: Final = 10_000_000
"""Bytes of Spark's log that the next shell appends to; a longer one begins again."""


def quiet_spark(master: str | None, log: IO[bytes]) -> SparkSession:
    """A Spark session whose JVM, and whose Python workers, write to `log` and not to the terminal."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    from moldau import spark

    chosen = {**CONFIGURATION, **(LOCAL if (master or "local").startswith("local") else {})}
    if SparkContext._gateway is None:
        configuration = SparkConf(loadDefaults=False).setAll([*chosen.items()])
        if master is not None:
            configuration.setMaster(master)
        gateway = launch_gateway(configuration, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)
    return spark.session("moldau sql", master=master, config=chosen)


class ShellSession:
    """The session of a shell, on a Spark of its own."""

    def __init__(self, session: SqlSession, spark: SparkSession) -> None:
        self.sql = session
        self._spark = spark

    def execute(self, statement: Statement, tag: str) -> Result:
        self._spark.sparkContext.addJobTag(tag)
        return self.sql.execute(statement)

    def cancel(self, tag: str) -> None:
        self._spark.sparkContext.cancelJobsWithTag(tag)

    def close(self) -> None:
        try:
            self.sql.close()
        finally:
            self._spark.stop()


class SessionStart:
    """The session that starts in a thread. `wait` blocks until it is there."""

    def __init__(self, start: Callable[[], ShellSession]) -> None:
        self._start = start
        self._done = threading.Event()
        self._session: ShellSession | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="moldau-sql-start", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> ShellSession:
        """The session. Raises why it cannot start."""
        self._done.wait()
        if self._session is None:
            assert self._error is not None
            raise self._error
        return self._session

    def close(self) -> None:
        """Stop the session. A start that is under way ends with this process, and with it the JVM."""
        if self._session is not None:
            self._session.close()

    def _run(self) -> None:
        try:
            self._session = self._start()
        except Exception as error:  # noqa: BLE001 - every statement reports it
            self._error = error
        finally:
            self._done.set()


def started(client_settings: Mapping[str, Any], master: str | None, log_path: Path) -> SessionStart:
    """Begin to start Spark and the SQL session on it."""

    def start() -> ShellSession:
        from moldau.sql.session import SqlSession

        with open_log(log_path) as log:
            spark = quiet_spark(master, log)
        return ShellSession(SqlSession(client_settings, spark=spark), spark)

    return SessionStart(start)


def open_log(path: Path) -> IO[bytes]:
    """The file for Spark's log. Where it cannot be written, Spark's log is lost, and the shell still works."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_long = path.exists() and path.stat().st_size > MAX_LOG
        return path.open("wb" if is_long else "ab")
    except OSError:
        return Path("/dev/null").open("wb")
