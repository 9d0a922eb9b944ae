"""Keyed state with timers and upserts under kill -9 of the driver: every row once, every timer once."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from moldau import Consumer, Producer, TopicPartition
from tests.support.waiting import NotYet, wait_until

JOB = Path(__file__).with_name("helpers_job.py")
KEYS = [f"k{number}" for number in range(5)]
A_STEP = 300
"""The number of records that are written before each kill: a few batches of the job."""
PATIENCE_S = 400.0
BEGIN_MS = 1_700_000_000_000
FAR_MS = BEGIN_MS + 3_600_000

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(900)]


@contextmanager
def job(*arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The job in its own process group, which is killed at the end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, str(JOB), *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def results(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    place = TopicPartition(topic, 0)
    found = []
    with Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets(place)[place]
        while consumer.position(place) < end:
            found += [json.loads(record.value) for record in consumer.poll(timeout=1)]
    return found


def changes(path: Path) -> list[int]:
    """The ids in the order in which their rows were written; more than once if a row was written again."""
    database = sqlite3.connect(path, timeout=60)
    try:
        return [found for (found,) in database.execute("SELECT id FROM changes ORDER BY rowid")]
    finally:
        database.close()


KILLS = 10


def prepare(path: Path) -> None:
    """The table of the upserts, with triggers that record every change: an upsert alone hides a second one."""
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE events (id BIGINT PRIMARY KEY, key TEXT)")
    database.execute("CREATE TABLE changes (id BIGINT)")
    for event in ("INSERT", "UPDATE"):
        database.execute(
            f"CREATE TRIGGER on_{event} AFTER {event} ON events BEGIN INSERT INTO changes VALUES (new.id); END"
        )
    database.commit()
    database.close()


def test_a_killed_driver_loses_and_repeats_nothing(
    bootstrap: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    seed: int,
    soak: bool,
) -> None:
    if not soak:
        pytest.skip("with make soak: starts JVMs of its own; test_helpers.py stops and restarts the same queries")
    chance = random.Random(seed)
    source, target, database = new_topic(), new_topic(), tmp_path / "rows.db"
    prepare(database)
    arguments, log = (bootstrap, source, target, str(tmp_path)), tmp_path / "job.log"
    sent: list[str] = []

    def reached(written: int, upserted: int, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, log.read_text()[-4_000:]
        found = len(results(bootstrap, target)), len(changes(database))
        if found[0] < written or found[1] < upserted:
            raise NotYet(f"{found} of {written, upserted}")
        return True

    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(KILLS):
            before = len(sent)
            for _ in range(A_STEP):
                key = chance.choice(KEYS)
                event = json.dumps({"id": len(sent)}).encode()
                producer.send(source, event, key=key.encode(), timestamp=BEGIN_MS + len(sent)).result()
                sent.append(key)
            with job(*arguments, log=log) as process:
                some = before + chance.randrange(1, A_STEP - 100)
                wait_until(lambda: reached(some, before, process), "the job is in the middle", PATIENCE_S)  # noqa: B023
        # The clock moves far: all timers expire.
        for _ in range(2):
            producer.send(source, b"{}", key=b"clock", timestamp=FAR_MS).result()
    with job(*arguments, log=log) as process:
        expected = len(sent) + 2 + len(set(sent))
        wait_until(lambda: reached(expected, len(sent), process), "the job is done", PATIENCE_S)
    found = [row for row in results(bootstrap, target) if row["key"] != "clock"]
    for key in set(sent):
        ids = [number for number, one in enumerate(sent) if one == key]
        rows = [row for row in found if row["key"] == key]
        assert [row["id"] for row in rows if row["silent"] is None] == ids
        assert [row["number"] for row in rows if row["silent"] is None] == list(range(1, len(ids) + 1))
        assert [row["number"] for row in rows if row["silent"] is not None] == [len(ids)]
    assert sorted(changes(database)) == list(range(len(sent)))
