"""Spark session of a long-running process: started when it is first needed, replaced when its JVM dies.

PySpark keeps its JVM in attributes of its classes and does not expect that it dies. `SessionHolder` is the only place
that touches these attributes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moldau.host.event_log import event_logger
from moldau.host.threads import Lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = event_logger(__name__)


class SessionHolder:
    """The session of this process. Any thread may ask for it."""

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        """`name` is that of the application, `settings` are Spark's, with spark.master."""
        self._name = name
        self._settings = dict(settings)
        self._lock = Lock()
        self._session: SparkSession | None = None
        self.generation = 0
        """How many sessions there have been."""

    def session(self) -> tuple[SparkSession, int]:
        """The running session with its generation; starts one if there is none. That takes some seconds."""
        with self._lock:
            if self._session is not None and not _is_dead(self._session):
                return self._session, self.generation
            if self._session is not None:
                self._discard()
            self._session = self._started()
            self.generation += 1
            log.info(
                "Spark session started",
                extra={"master": self._settings.get("spark.master"), "generation": self.generation},
            )
            return self._session, self.generation

    def is_dead(self, generation: int) -> bool:
        """Whether the session of this generation has died, or is another one by now."""
        session = self._session
        return generation != self.generation or session is None or _is_dead(session)

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group. A session that has died has none."""
        session = self._session
        if session is None:
            return
        try:
            session.sparkContext.cancelJobGroup(group)
        except Exception as error:  # noqa: BLE001 - py4j raises errors of many types if the JVM is gone
            log.debug("jobs not cancelled", extra={"group": group, "reason": str(error)})

    def jvm_pid(self) -> int | None:
        """The process id of the JVM, if this process has started it."""
        process = _process()
        return None if process is None else int(process.pid)

    def kill(self) -> None:
        """End the JVM at once, if this process has started it: for one that does not answer. Waits for nothing."""
        process = _process()
        if process is not None and process.poll() is None:
            log.warning("Spark's JVM is killed", extra={"pid": process.pid})
            process.kill()

    def close(self) -> None:
        with self._lock:
            if self._session is not None:
                self._discard()

    def _started(self) -> SparkSession:
        from moldau.spark.sessions import session

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySpark's own
            return session(self._name, config=self._settings)

    def _discard(self) -> None:
        """Forget the session, and everything that PySpark remembers of its JVM."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        session, self._session = self._session, None
        assert session is not None
        dead = _is_dead(session)
        if dead:
            log.warning("Spark's JVM has died", extra={"generation": self.generation})
        gateway, process = SparkContext._gateway, _process()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for end in (session.stop, session.sparkContext.stop):
                try:
                    end()
                except Exception as error:  # noqa: BLE001 - py4j raises errors of many types if the JVM is gone
                    log.debug("session not stopped", extra={"reason": str(error)})
        SparkSession._instantiatedSession = None
        SparkSession._activeSession = None
        SparkContext._active_spark_context = None
        if dead and gateway is not None:
            SparkContext._gateway = None
            SparkContext._jvm = None
            try:
                gateway.shutdown()
            except Exception as error:  # noqa: BLE001 - as above
                log.debug("gateway not closed", extra={"reason": str(error)})
            if process is not None:
                process.kill()
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()


def _process() -> Any:
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def _is_dead(session: SparkSession) -> bool:
    """Whether the JVM has ended, or its Spark context has stopped."""
    process = _process()
    if process is not None and process.poll() is not None:
        return True
    context = session.sparkContext
    if context._jsc is None:
        return True
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:  # noqa: BLE001 - py4j raises errors of many types if the JVM is gone
        return True
