"""Process of the Spark queries of studies.

`python -m moldau.examples.pipeline_process NAME...` reads lines of JSON from its standard input:

1. the place, see `Place.to_json`; each study gets a directory of its own in it;
2. "run", to run all queries until the next line, or "finish", to read what is in the topics now and to end.

After "run" it waits for "finish". The end of its input ends it as well, so it does not outlive its parent process. It
prints a line of JSON per completed batch: {"study": …, "query": …, "batch": …, "rows": …, "behind": …}. If a query
fails, it prints {"error": …}.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from moldau.examples import study as studies
from moldau.examples.place import Place
from moldau.examples.study import Study

RUN: Final = "run"
FINISH: Final = "finish"
TRIGGER: Final = "1 second"
LOOK_EVERY_S: Final = 0.2
TOO_SLOW: Final = "Python worker failed to connect back"
"""Spark's error for a Python process that takes longer than 10 seconds to start, as on a busy machine."""
MAX_STARTS: Final = 10
FINISHED_AT_ONCE: Final = 2
"""The number of studies whose queries read the rest at the same time."""

CONFIGURATION: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # A study should be there soon: the full compiler and a parallel collector cost more at the start than they save.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.streaming.pollingDelay": "50ms",
    # Keyed state of any Python class (transformWithState) needs this store.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


class QueryFailed(Exception):
    """The error of a query."""


def main(names: Sequence[str]) -> int:
    place = Place.from_json(sys.stdin.readline())
    order = sys.stdin.readline().strip()
    found = [(study, study_place(place, study)) for study in map(studies.find, names)]
    try:
        spark = start_spark()
        if order == RUN:
            order = run(spark, found)
        if order == FINISH:
            finish(spark, found)
        spark.stop()
    except QueryFailed as error:
        say(error=str(error))
        return 1
    return 0


def start_spark() -> Any:
    from moldau.spark import session

    spark = session("moldau-examples", master="local[2]", config=CONFIGURATION)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def study_place(place: Place, study: Study) -> Place:
    return place._replace(directory=place.directory / study.name)


class StudyQuery:
    """A query that was started. It is started again if Spark gave up a Python process that was slow to start."""

    def __init__(self, study: Study, writer: Any) -> None:
        self._study = study
        self._writer = writer
        self._reported = -1
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        self._query = self._writer.start()

    def stop(self) -> None:
        self._query.stop()

    def report(self) -> bool:
        """Say what the last batch has read, and how many records the query is behind. Return whether it still runs."""
        from moldau.spark import lag

        is_active = bool(self._query.isActive)
        failure = self._query.exception()
        if failure is not None and TOO_SLOW in str(failure) and self._starts < MAX_STARTS:
            self._start()
            return True
        if failure is not None:
            raise QueryFailed(f"{self._study.name}, query {self._query.name}: {failure}")
        progress = self._query.lastProgress
        if progress is not None and progress["batchId"] > self._reported:
            self._reported = progress["batchId"]
            facts = {"batch": progress["batchId"], "rows": progress["numInputRows"]}
            say(study=self._study.name, query=self._query.name, behind=sum(lag(progress).values()), **facts)
        return is_active


def run(spark: Any, found: Sequence[tuple[Study, Place]]) -> str:
    """Run the queries until the next order, and return it."""
    orders: list[str] = []
    ordered = threading.Event()

    def wait_for_order() -> None:
        orders.append(sys.stdin.readline().strip())
        ordered.set()

    threading.Thread(target=wait_for_order, daemon=True).start()
    running = [
        StudyQuery(study, writer.trigger(processingTime=TRIGGER))
        for study, place in found
        for writer in study.queries(spark, place)
    ]
    while not ordered.wait(LOOK_EVERY_S):
        for query in running:
            query.report()
    for query in running:
        query.stop()
    return orders[0]


def finish(spark: Any, found: Sequence[tuple[Study, Place]]) -> None:
    """Let all queries read what is there. Those of a study run one after another, studies run side by side."""
    waiting = [read_rest(spark, study, place) for study, place in found]
    while waiting:
        for steps in waiting[:FINISHED_AT_ONCE]:
            if next(steps, "done") == "done":
                waiting.remove(steps)
        time.sleep(LOOK_EVERY_S)


def read_rest(spark: Any, study: Study, place: Place) -> Iterator[None]:
    """Run the queries one after another until they have read what was there at their start. Yields while one runs."""
    for writer in study.queries(spark, place):
        query = StudyQuery(study, writer.trigger(availableNow=True))
        while query.report():
            yield


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
