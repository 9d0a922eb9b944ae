"""Run of a study: broker, topics, generator, queries and live view, until a time or Ctrl-C; then the comparison."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moldau.examples.place import Place
from moldau.examples.processes import PipelineProcess, broker
from moldau.examples.results import Results
from moldau.examples.study import Study, StudyError, StudyRecord

if TYPE_CHECKING:
    from rich.console import Console

REFRESH_S: Final = 0.5
SEED: Final = 1


class StudyRun:
    """One run of a study. `stop` may be called by any thread, or by a signal handler."""

    def __init__(self, study: Study, place: Place, rate: float) -> None:
        self._study = study
        self._place = place
        self._rate = rate
        self._results = Results()
        self._ended = threading.Event()
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._sent = 0
        self._behind: dict[str, int] = {}  # by query

    def stop(self) -> None:
        self._stopped.set()

    def run(self, console: Console, seconds: float | None) -> None:
        """Generate data and show the results until `stop` or for some seconds; then let the queries read the rest."""
        threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._generate, self._follow)]
        # The study's own directory is that of the process's place, plus its name.
        whole = self._place._replace(directory=self._place.directory.parent)
        pipeline = PipelineProcess.running([self._study.location], whole, self._heard)
        try:
            for thread in threads:
                thread.start()
            self._show(console, pipeline, seconds)
            self._stopped.set()
            threads[0].join()
            self._raise_failure()
            console.print(f"{self._sent:,} records were sent; the queries read the rest of them")
            pipeline.finish()
        finally:
            pipeline.kill()
            self._stopped.set()
            self._ended.set()
            for thread in threads:
                if thread.is_alive():
                    thread.join()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise StudyError(f"{type(self._failure).__name__}: {self._failure}") from self._failure

    # -- threads ----------------------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as failure:  # noqa: BLE001 - raised in the main thread
            self._failure = failure
            self._stopped.set()

    def _generate(self) -> None:
        records = self._study.records(SEED, int(time.time() * 1000), self._rate)
        with self._study.sender(self._place) as send:
            for record in paced(records, self._stopped):
                send(record)
                self._sent += 1

    def _follow(self) -> None:
        self._results.follow(self._study, self._place, self._ended)

    def _heard(self, said: Mapping[str, Any]) -> None:
        if "error" in said:
            self._stopped.set()
        else:
            self._behind[said["query"]] = said["behind"]

    # -- view -------------------------------------------------------------------------------------------------------

    def _show(self, console: Console, pipeline: PipelineProcess, seconds: float | None) -> None:
        from rich.live import Live

        deadline = None if seconds is None else time.monotonic() + seconds
        with Live(console=console, auto_refresh=False) as live:
            while not self._stopped.wait(REFRESH_S):
                live.update(self._picture(), refresh=console.is_terminal)
                if pipeline.ended:
                    raise StudyError(pipeline.problem())
                if deadline is not None and time.monotonic() > deadline:
                    break
            live.update(self._picture())  # printed at the end, also if this is not a terminal

    def _picture(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        address = self._place.client["bootstrap.servers"]
        behind = f"the slowest query is {max(list(self._behind.values())):,} behind" if self._behind else "Spark starts"
        head = f"{self._study.title}. Broker {address}; {self._sent:,} records sent, {behind}."
        return Group(Text(head, style="bold"), self._study.picture(self._results), Text("Ctrl-C stops.", style="dim"))


def paced(records: Iterable[StudyRecord], stopped: threading.Event) -> Iterator[StudyRecord]:
    """The records, each when its time has come."""
    for record in records:
        ahead_s = record.at_ms / 1000 - time.time()
        if stopped.wait(ahead_s) if ahead_s > 0 else stopped.is_set():
            return
        yield record


def create_topics(study: Study, place: Place, *, fresh: bool) -> None:
    """Create the topics of the study. Those of an earlier run are an error, or are deleted first."""
    from moldau import Admin

    wanted = [*study.input_topics, *study.result_topics]
    with Admin(dict(place.client)) as admin:
        there = sorted({topic.name for topic in wanted} & {topic.name for topic in admin.list_topics()})
        if there and not fresh:
            raise StudyError(f"topics of an earlier run exist: {', '.join(there)}; delete them with --fresh")
        if there:
            admin.delete_topics(there)
        admin.create_topics(wanted)


@contextmanager
def prepared(study: Study, client: Mapping[str, str] | None, *, fresh: bool = False) -> Iterator[Place]:
    """A place for the study: on the given brokers, or on a broker of its own. What is local is deleted at the end."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-example-")))
        if client is None:
            client = {"bootstrap.servers": stack.enter_context(broker(directory / "broker"))}
        place = Place(dict(client), directory / study.name)
        place.directory.mkdir()
        create_topics(study, place, fresh=fresh)
        yield place
