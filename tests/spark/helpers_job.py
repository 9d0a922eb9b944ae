"""Spark job with the helpers of `moldau.spark`, run as a program: keyed state with timers, and upserts.

    helpers_job.py BOOTSTRAP SOURCE TARGET DIRECTORY

The records of SOURCE are numbered by key, into TARGET; each is also a row in a SQLite table. It ends when its standard
input ends, so that it never outlives the process that started it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import Row

from moldau.spark import KeyedProcessor, KeyState, from_topic, keyed_state, session, to_topic, upsert_batch

LOOK_EVERY_S = 0.2


class Numbers(KeyedProcessor):
    """Numbers the rows of each key; ten seconds of event time after the last one it says how many there were."""

    def on_rows(self, key: Any, rows: Iterator[Row], state: KeyState) -> Iterable[dict[str, Any]]:
        found = state.get()
        number = 0 if found is None else found.number
        for row in sorted(rows, key=lambda row: row.offset):
            number += 1
            state.set(last=row.timestamp)
            yield {"key": key, "id": row.id, "number": number}
        for timer in state.timers():
            state.cancel_timer(timer)
        state.set(number=number)
        stored = state.get()
        assert stored is not None
        state.set_timer(stored.last + timedelta(seconds=10))

    def on_timer(self, key: Any, at: datetime, state: KeyState) -> Iterable[dict[str, Any]]:
        found = state.get()
        assert found is not None
        yield {"key": key, "number": found.number, "silent": at}


def main() -> int:
    bootstrap, source, target, directory = sys.argv[1:]
    told_to_stop = threading.Event()

    def until_input_ends() -> None:
        sys.stdin.read()
        told_to_stop.set()

    threading.Thread(target=until_input_ends, daemon=True).start()
    config = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.local.dir": f"{directory}/local",
    }
    spark = session(master="local[2]", config=config)
    spark.sparkContext.setLogLevel("ERROR")
    options = {"maxOffsetsPerTrigger": "100"}
    events = from_topic(spark, source, "id LONG", bootstrap_servers=bootstrap, options=options)
    numbered = keyed_state(
        events.withWatermark("timestamp", "1 second"),
        Numbers(),
        key="key",
        state="number LONG, last TIMESTAMP",
        schema="key STRING, id LONG, number LONG, silent TIMESTAMP",
        timers="event",
    )
    to_state = to_topic(numbered, target, bootstrap_servers=bootstrap, checkpoint=f"{directory}/state")
    rows = events.where("id IS NOT NULL").select("id", "key")
    upserts = rows.writeStream.foreachBatch(upsert_batch(f"sqlite://{directory}/rows.db", "events", key="id"))
    to_table = upserts.option("checkpointLocation", f"{directory}/upserts").start()
    assert to_state is not None
    while not told_to_stop.wait(LOOK_EVERY_S):
        for query in (to_state, to_table):
            if (failure := query.exception()) is not None:
                print(failure, flush=True)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
