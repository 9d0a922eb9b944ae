"""Run of a pipeline: one update, or updates one after another until it is told to stop.

Spark 4.3 executes a pipeline as an update: each flow reads what is there and ends. A continuous run starts the next
update when a source topic has new records (docs/decisions/0021). Checkpoints are in the project's storage, so a run
that ended in any way continues where it was, and sinks write each row exactly once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from moldau.pipelines.errors import PipelineError, SourceLine
from moldau.pipelines.flow_events import FAILED, flow_event
from moldau.pipelines.graph import EXTERNAL, MATERIALIZED_VIEW, DataFlow
from moldau.pipelines.picture import draw
from moldau.pipelines.plain_words import TOO_BUSY, place_in, reason_of
from moldau.pipelines.project import PipelineProject
from moldau.pipelines.run_status import COMPLETE, STOPPED, STOPPING, RunStatus
from moldau.pipelines.source_topics import Ends, SourceTopics
from moldau.pipelines.spark_server import PipelineSpark
from moldau.pipelines.sql_files import text_lines
from moldau.pipelines.state_files import ProjectState

LOOK_S: Final = 0.2
"""How often a continuous run looks for new records."""
UPDATES_PER_SESSION: Final = 100
"""A session of Spark Connect keeps all its updates in memory."""
MAX_SLOW_STARTS: Final = 5
"""How many updates in a row may fail because the machine is too busy for Spark's limit."""
DEMO_TIMEOUT_S: Final = 300


@dataclass(frozen=True)
class RunOptions:
    once: bool = False
    full_refresh: bool = False
    datasets: tuple[str, ...] = ()
    """Only these, or all if empty."""
    master: str | None = None
    remote: str | None = None


class PipelineRunner:
    def __init__(
        self,
        project: PipelineProject,
        options: RunOptions,
        show: Callable[[RunStatus], None],
        say: Callable[[str], None],
    ) -> None:
        self._project = project
        self._options = options
        self._show = show
        self._say = say
        # A plain flag: a signal handler must not take a lock that the interrupted code may hold, as an Event would.
        self._stopping = False
        self._state = ProjectState(project.state)
        self._spark: PipelineSpark | None = None
        self._changes = threading.RLock()
        """The listener of Spark's queries runs in another thread."""
        mode = "once" if options.once else "continuous"
        self.status = RunStatus(project.name, mode, os.getpid(), _now_ms())

    def stop(self) -> None:
        """End after the current update; called again, end at once. Called from a signal handler."""
        if self._stopping:
            if self._spark is not None:
                self._spark.kill()
            os._exit(130)
        self._stopping = True
        self.status.state = STOPPING

    def run(self) -> None:
        """Run until the pipeline is complete or stopped. Raises PipelineError."""
        with self._state:
            try:
                self._publish()
                self._run_locked()
                self.status.state = COMPLETE if self._options.once and not self._stopping else STOPPED
            except PipelineError as error:
                self.status.state, self.status.error = FAILED, str(error)
                raise
            finally:
                self._publish()

    def _run_locked(self) -> None:
        topics = SourceTopics()
        self._spark = PipelineSpark(self._project, self._state.log, self._state.descriptor)
        try:
            self._spark.start(self._options.master, self._options.remote)
            updates = PipelineUpdates(self._project, self._spark, self._progress)
            graph = updates.load()
            with self._changes:
                self.status.use_graph(graph)
            self._publish()
            self._provide_demo_data(topics)
            topics.require(graph)
            self._update_until_stopped(updates, topics)
        finally:
            topics.close()
            self._spark.close()

    def _provide_demo_data(self, topics: SourceTopics) -> None:
        program = self._project.demo_data
        if program is None or not topics.missing(self.status.graph.source_topics):
            return
        self._say(f"the source topics do not exist yet: {program} creates them with demonstration data")
        command = [sys.executable, program]
        done = subprocess.run(
            command, cwd=self._project.root, capture_output=True, text=True, timeout=DEMO_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise PipelineError(reason_of(done.stderr.strip()[-4000:]), where=SourceLine(program))

    def _update_until_stopped(self, updates: PipelineUpdates, topics: SourceTopics) -> None:
        wanted = self.status.graph.source_topics
        full_refresh = self._options.full_refresh
        began, slow_starts = time.monotonic(), 0
        while not self._stopping:
            before = topics.ends(wanted)
            with self._changes:
                self.status.begin_update()
            self._publish()
            try:
                updates.run(full_refresh, self._options.datasets, self._event)
            except PipelineError as error:
                # Spark's limit is fixed. The flows that were complete have nothing to do in the next update.
                slow_starts += 1
                if error.reason != TOO_BUSY or slow_starts > MAX_SLOW_STARTS:
                    raise
                self._say(f"{error}; the update is tried again")
                full_refresh = False
                continue
            full_refresh, slow_starts = False, 0
            with self._changes:
                now = time.monotonic()
                self.status.end_update(now - began)
                began = now
            self._count_views(updates)
            self._publish_lags(topics, before)
            if self._options.once:
                return
            if self.status.updates % UPDATES_PER_SESSION == 0:
                updates.renew()
            self._wait_for_records(topics, before)

    def _wait_for_records(self, topics: SourceTopics, read: Ends) -> None:
        """Wait until a source topic has more than the last update has read. Without source topics every turn is an
        update, because only Spark knows whether its sources have something."""
        wanted = self.status.graph.source_topics
        kinds = {node.kind for node in self.status.graph.nodes.values()}
        while not self._stopping:
            time.sleep(LOOK_S)
            ends = topics.ends(wanted)
            if ends != read or not wanted or EXTERNAL in kinds:
                return

    def _count_views(self, updates: PipelineUpdates) -> None:
        for name, dataset in self.status.datasets.items():
            if dataset.kind == MATERIALIZED_VIEW and (not self._options.datasets or name in self._options.datasets):
                dataset.rows = updates.count(name)

    def _publish_lags(self, topics: SourceTopics, read: Ends) -> None:
        with self._changes:
            self.status.set_lags(topics.ends(self.status.graph.source_topics), read)
        self._publish()

    def _event(self, message: str) -> None:
        event = flow_event(message)
        if event is not None:
            with self._changes:
                self.status.take_event(event)
            self._publish()

    def _progress(self, progress: dict[str, Any]) -> None:
        with self._changes:
            self.status.take_progress(progress)
        self._publish()

    def _publish(self) -> None:
        with self._changes:
            if self._stopping and self.status.state not in (STOPPED, COMPLETE, FAILED):
                self.status.state = STOPPING
            self.status.changed_ms = _now_ms()
            self._state.write_status(self.status.to_json())
            if self.status.graph.nodes:
                self._state.write_picture(draw(self.status.to_json()))
            self._show(self.status)


class PipelineUpdates:
    """Updates of a pipeline in a session of Spark Connect. The definitions are loaded once."""

    def __init__(
        self, project: PipelineProject, spark: PipelineSpark, progress: Callable[[dict[str, Any]], None]
    ) -> None:
        self._project = project
        self._spark = spark
        self._progress = progress
        self._listener: Any = None
        self._definitions: Any = None
        self._first_graph = ""
        self._listen()

    def load(self) -> Any:
        """Load the definitions; return the graph."""
        from moldau.pipelines.definitions import load_definitions

        self._first_graph = self._new_graph()
        self._definitions = load_definitions(self._project, self._spark.session, self._first_graph)
        return self._definitions.graph

    def run(self, full_refresh: bool, datasets: tuple[str, ...], event: Callable[[str], None]) -> None:
        """Run one update. Raises PipelineError with the dataset that failed."""
        from pyspark.errors import PySparkException
        from pyspark.pipelines.spark_connect_pipeline import start_run

        graph_id, self._first_graph = self._first_graph, ""
        if not graph_id:
            graph_id = self._new_graph()
            self._definitions.register_again(self._spark.session, graph_id)
        failures: list[str] = []
        try:
            for result in start_run(
                self._spark.session,
                graph_id,
                full_refresh=list(datasets) if full_refresh else [],
                full_refresh_all=full_refresh and not datasets,
                refresh=[] if full_refresh else list(datasets),
                dry=False,
                storage=self._project.storage,
            ):
                message = result["pipeline_event_result"].event.message if "pipeline_event_result" in result else ""
                found = flow_event(message)
                if found is not None and found.state == FAILED:
                    failures.append(message)
                event(message)
        except PySparkException as error:
            raise self._failure(failures, str(error)) from error
        if failures and flow_event(failures[-1]) is None:
            raise self._failure(failures, "")

    def _failure(self, failures: list[str], text: str) -> PipelineError:
        """The error of an update: of the last flow that failed, or of the update itself."""
        event = flow_event(failures[-1]) if failures else None
        if event is None:
            return PipelineError(reason_of(text))
        flow: DataFlow | None = self._definitions.graph.flow(event.flow)
        where = None if flow is None else flow.where
        place = place_in(event.error or "")
        if flow is not None and where is not None and where.file.endswith(".sql") and place is not None:
            begins = text_lines((self._project.root / where.file).read_text(encoding="utf-8")).get(flow.name, 1)
            where = SourceLine(where.file, begins + place[0] - 1, place[1])
        return PipelineError(
            reason_of(event.error or text), dataset=event.flow if flow is None else flow.target, where=where
        )

    def count(self, table: str) -> int:
        """The rows of a table now."""
        return int(self._spark.session.table(f"`{table}`").count())

    def renew(self) -> None:
        """Use a new session, which frees what the old one kept."""
        self._spark.session.streams.removeListener(self._listener)
        self._spark.renew()
        self._listen()

    def _new_graph(self) -> str:
        from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

        return create_dataflow_graph(
            self._spark.session,
            default_catalog=self._project.catalog,
            default_database=self._project.database,
            sql_conf={
                name: text for name, text in self._project.configuration.items() if name.startswith("spark.sql.")
            },
        )

    def _listen(self) -> None:
        from pyspark.sql.streaming.listener import StreamingQueryListener

        take = self._progress

        class ProgressListener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802 - Spark's name
            def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802
            def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

            def onQueryProgress(self, event: Any) -> None:  # noqa: N802
                take(json.loads(event.progress.json))

        self._listener = ProgressListener()
        self._spark.session.streams.addListener(self._listener)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
