"""Process of the Spark queries of studies. It never outlives its parent process.

`python -m moldau.examples.pipeline_process NAME...` reads lines of JSON from its standard input:

1. the place, see `Place.to_json`; each study gets a directory of its own in it;
2. "run", to run all queries until the next line, or "finish", to read what is in the topics now and to end.

After "run" it waits for "finish", or for the end of its input, which ends it at once. It prints a line of JSON per
completed batch: {"study": …, "query": …, "batch": …, "rows": …, "behind": …}, and {"error": …} if a query fails.
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
FINISHED_AT_ONCE: Final = 3
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


def run(spark: Any, found: Sequence[tuple[Study, Place]]) -> str:
    """Run the queries until the next order, and return it."""
    orders: list[str] = []
    ordered = threading.Event()

    def wait_for_order() -> None:
        orders.append(sys.stdin.readline().strip())
        ordered.set()

    threading.Thread(target=wait_for_order, daemon=True).start()
    running = [
        (study, query.trigger(processingTime=TRIGGER).start())
        for study, place in found
        for query in study.queries(spark, place)
    ]
    reported: dict[str, int] = {}
    while not ordered.wait(LOOK_EVERY_S):
        for study, query in running:
            report(study, query, reported)
    for _, query in running:
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
    for query in study.queries(spark, place):
        started = query.trigger(availableNow=True).start()
        reported: dict[str, int] = {}
        while started.isActive:
            report(study, started, reported)
            yield
        report(study, started, reported)


def report(study: Study, query: Any, reported: dict[str, int]) -> None:
    """Say what the last batch has read, and how many records its query is behind."""
    from moldau.spark import lag

    failure = query.exception()
    if failure is not None:
        raise QueryFailed(f"{study.name}, query {query.name}: {failure}")
    progress = query.lastProgress
    if progress is not None and progress["batchId"] > reported.get(query.name, -1):
        reported[query.name] = progress["batchId"]
        behind = sum(lag(progress).values())
        say(study=study.name, query=query.name, batch=progress["batchId"], rows=progress["numInputRows"], behind=behind)


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
