"""Runs of continuous queries: one thread per run, which starts the query in Spark and waits for its end.

A thread may wait for Spark as long as it likes: the event loop is only told what has happened. A JVM that does not
answer at all is killed, which ends all its runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from moldau.client.errors import MoldauError
from moldau.host.clock import SystemClock
from moldau.host.event_log import event_logger
from moldau.spark.session_holder import SessionHolder
from moldau.sql.errors import SqlError
from moldau.sql.index.pull_queries import PullQueries
from moldau.sql.queries import QueryDefinition
from moldau.sql.server.open_transactions import end_open_transactions
from moldau.sql.server.progress_meter import BatchFacts
from moldau.sql.server.query_start import started_query
from moldau.sql.server.state_directory import StateDirectory
from moldau.sql.server.traces import trace_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = event_logger(__name__)

CLOCK: Final = SystemClock()
DEATH_WAIT_S: Final = 5.0
"""How long a run that has lost its connection to the JVM waits for the end of the JVM's process."""
DEATH_LOOK_S: Final = 0.05
POOL: Final = "spark.scheduler.pool"
SESSION_DIED: Final = "Spark's Java process has died; the query starts again in a new one"


class RunListener(Protocol):
    """Who is told about runs. The calls come from threads."""

    def run_started(self, query: str, run: int) -> None: ...

    def run_ended(self, query: str, run: int, trace: str | None, died: bool) -> None:
        """Nothing of the run runs any more. `trace`: why it failed; None if it was stopped."""

    def query_removed(self, query: str) -> None: ...


@dataclass(eq=False)
class _QueryRun:
    definition: QueryDefinition
    number: int
    stopping: threading.Event = field(default_factory=threading.Event)
    query: StreamingQuery | None = None
    generation: int = 0


class QueryRuns:
    """The runs of this server. `start`, `stop` and `remove` return at once; `poll` waits for Spark."""

    def __init__(
        self,
        holder: SessionHolder,
        state: StateDirectory,
        client_settings: Mapping[str, str],
        listener: RunListener,
        leads: Callable[[], bool],
        indexes: PullQueries,
    ) -> None:
        """`leads` says, in any thread, whether this server still may run queries."""
        self._indexes = indexes
        self._leads = leads
        self._holder = holder
        self._state = state
        self._client = dict(client_settings)
        self._listener = listener
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, int], _QueryRun] = {}

    @property
    def live(self) -> int:
        """How many runs have begun and not ended."""
        return len(self._runs)

    # -- called by the event loop --------------------------------------------------------------------------------------

    def start(self, definition: QueryDefinition, number: int) -> None:
        run = _QueryRun(definition, number)
        with self._lock:
            self._runs[definition.id, number] = run
        self._spawn(f"sql-{definition.name}", lambda: self._serve(run))

    def stop(self, query: str, number: int) -> None:
        """End a run. The listener is told when that is done; a run that has not started yet ends before it does."""
        with self._lock:
            run = self._runs.get((query, number))
        if run is not None:
            run.stopping.set()
            self._spawn(f"sql-stop-{run.definition.name}", lambda: self._stop(run))

    def remove(self, definition: QueryDefinition) -> None:
        """Remove the state of a query that does not run."""
        self._spawn(f"sql-remove-{definition.name}", lambda: self._remove(definition))

    def warm_up(self) -> None:
        """Start the Spark session, so that the first statement need not wait for it."""
        self._spawn("sql-session", self._warm_up)

    def kill_session(self) -> None:
        """End the JVM, and so all runs, at once."""
        self._holder.kill()

    # -- called in threads ---------------------------------------------------------------------------------------------

    def poll(self) -> dict[tuple[str, int], list[BatchFacts]]:
        """The newest progress reports of all runs, by id of the query and number of the run."""
        with self._lock:
            runs = list(self._runs.items())
        found = {}
        for key, run in runs:
            query = run.query
            if query is None or run.stopping.is_set():
                continue
            try:
                found[key] = _facts(query)
            except Exception as error:  # noqa: BLE001 - py4j raises errors of many types if the JVM is gone
                log.debug("progress not read", extra={"query": run.definition.name, "reason": str(error)})
        return found

    def close_indexes(self) -> None:
        """Close the indexes of a server that no longer runs the queries."""
        self._indexes.close_all()

    def found_state(self) -> set[str]:
        """The ids of the queries that have state in the state directory."""
        return self._state.queries()

    def clear_away(self, orphans: Iterable[str]) -> None:
        """Remove the state of queries that were terminated while no server ran."""
        for query in orphans:
            if self._leads():
                log.info("state of a terminated query removed", extra={"id": query})
                self._give_up(query)

    def _warm_up(self) -> None:
        try:
            self._holder.session()
        except Exception as error:  # noqa: BLE001 - the first query or statement meets it again, and reports it
            log.warning("Spark not started", extra={"reason": str(error)})

    def _serve(self, run: _QueryRun) -> None:
        """One run, from its start to its end."""
        definition = run.definition
        trace: str | None = None
        died = False
        try:
            checkpoint = self._state.checkpoint(definition.id)
            spark, run.generation = self._holder.session()
            spark.sparkContext.setLocalProperty(POOL, definition.id)
            self._indexes.open(definition)
            if not run.stopping.is_set():
                with started_query(spark.newSession(), definition, self._client, checkpoint) as query:
                    self._await(run, query)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it ends this run and no other
            died = run.generation > 0 and self._died(run.generation, error)
            trace = SESSION_DIED if died else trace_of(error, definition)
        if run.stopping.is_set():
            trace = None
            self._end_transactions(definition.id)
        with self._lock:
            self._runs.pop((definition.id, run.number), None)
        facts = {"query": definition.name, "run": run.number}
        if trace is not None:
            log.warning("query failed", extra={**facts, "reason": trace.splitlines()[0]})
        else:
            log.info("query stopped", extra=facts)
        self._listener.run_ended(definition.id, run.number, trace, died)

    def _await(self, run: _QueryRun, query: StreamingQuery) -> None:
        """Wait for the end of a query that has started."""
        run.query = query
        log.info("query started", extra={"query": run.definition.name, "run": run.number})
        if run.stopping.is_set():
            query.stop()  # `stop` came too early to find the query
        else:
            self._listener.run_started(run.definition.id, run.number)
        query.awaitTermination()

    def _stop(self, run: _QueryRun) -> None:
        query = run.query
        if query is None:
            return  # the run's own thread stops it as soon as it has started
        try:
            query.stop()
        except Exception as error:  # noqa: BLE001 - the thread of the run learns how it has ended
            log.debug("query not stopped", extra={"query": run.definition.name, "reason": str(error)})

    def _remove(self, definition: QueryDefinition) -> None:
        if self._leads():
            self._give_up(definition.id)
        self._listener.query_removed(definition.id)

    def _give_up(self, query: str) -> None:
        """Leave nothing of a query: neither open transactions nor files."""
        self._indexes.close(query, remove=True)
        self._end_transactions(query)
        self._state.remove(query)

    def _end_transactions(self, query: str) -> None:
        """Abort what a micro-batch has left open. The next start does the same, so an error does no harm."""
        try:
            spark_id = self._state.spark_id(query)
            # A server that was replaced must not end the transactions of the one that has replaced it.
            if spark_id is not None and self._leads():
                end_open_transactions(self._client, spark_id)
        except (MoldauError, OSError) as error:
            log.info("transactions not ended", extra={"id": query, "reason": str(error)})

    def _died(self, generation: int, error: BaseException) -> bool:
        """Whether the error is the end of the JVM. Its connections break some time before its process has ended."""
        if isinstance(error, SqlError):
            return False
        if not _is_lost_connection(error):
            return self._holder.is_dead(generation)
        deadline = CLOCK.monotonic() + DEATH_WAIT_S
        waiting = threading.Event()
        while CLOCK.monotonic() < deadline:
            if self._holder.is_dead(generation):
                return True
            waiting.wait(DEATH_LOOK_S)  # nothing announces the end of another process
        return False

    def _spawn(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()


def _is_lost_connection(error: BaseException) -> bool:
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(error, (OSError, Py4JError)) and not isinstance(error, Py4JJavaError)


def _facts(query: Any) -> list[BatchFacts]:
    from moldau.sql.continuous import progress_facts

    found = []
    for progress in query.recentProgress:
        rows, _, lag, dropped = progress_facts(progress)
        started = progress["timestamp"] if isinstance(progress, Mapping) else progress.timestamp
        found.append(BatchFacts(str(started), rows, lag, dropped))
    return found
