"""Pull queries: questions by key to an index of 1,000,000 keys while the table is written, and the building of it.

The index is in this process; writer and broker are others. A question is complete: Spark parses the text of a SELECT,
the broker is asked for the end of the topic, the index reaches it, and the row is returned. The writer sends 100-byte
records with random keys at a fixed rate, as transactions of 100 ms. A second run has no writer.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Context, Row, median, percentile, settle, spread
from moldau.spark import session
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.index.pull_queries import PullQueries
from moldau.sql.queries import QueryDefinition
from moldau.sql.statements import QueryText

KEYS, KEYS_QUICK = 1_000_000, 100_000
QUESTIONS, QUESTIONS_QUICK = 2_000, 500
WARM_UP = 100
PARTITIONS = 3
WRITES_PER_S = 5_000
TRANSACTION_S = 0.1
P99_MS = 50.0
BUILD_TIMEOUT_S = 300.0
COLUMNS = (
    ColumnDeclaration("customer", "STRING", is_key=True),
    ColumnDeclaration("total", "DOUBLE"),
    ColumnDeclaration("orders", "BIGINT"),
)
TABLE = Declaration("totals", RelationKind.TABLE, "totals", COLUMNS, text="CREATE TABLE totals …")


def key(number: int) -> bytes:
    return b"customer-%07d" % number


def value(number: int) -> bytes:
    return json.dumps({"total": number / 4, "orders": number, "note": "x" * 40}).encode()


def write(address: str, keys: int, seconds: float) -> None:
    """The process of the writer. Without `seconds`: each key once, in random order."""
    from moldau import Producer

    chance = random.Random(7)
    if not seconds:
        numbers = list(range(keys))
        chance.shuffle(numbers)
        with Producer(bootstrap_servers=address) as producer:
            for number in numbers:
                producer.send(TABLE.topic, value(number), key=key(number))
        return
    with Producer(bootstrap_servers=address, transactional_id="totals") as producer:
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            with producer.transaction():
                for _ in range(int(WRITES_PER_S * TRANSACTION_S)):
                    producer.send(TABLE.topic, value(chance.randrange(keys)), key=key(chance.randrange(keys)))
            time.sleep(max(0.0, now + TRANSACTION_S - time.monotonic()))


def _writer(address: str, keys: int, seconds: float) -> subprocess.Popen[bytes]:
    code = f"from bench.sql_pull import write; write({address!r}, {keys}, {seconds})"
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).resolve().parents[1])


def _ask(pulls: PullQueries, keys: int, questions: int) -> list[float]:
    times = []
    for _ in range(questions):
        wanted = key(random.randrange(keys)).decode()
        began = time.perf_counter()
        found = pulls.answer(QueryText(f"SELECT * FROM totals WHERE customer = '{wanted}'"), BUILD_TIMEOUT_S)
        times.append((time.perf_counter() - began) * 1e3)
        assert found is not None, "not answered from the index"
        assert [row[0] for row in found.rows] == [wanted], "a key is missing"
    return times


def run(context: Context) -> Iterator[Row]:
    keys = context.sized(KEYS, KEYS_QUICK)
    questions = context.sized(QUESTIONS, QUESTIONS_QUICK)
    spark = session("bench", master="local[2]", config={"spark.ui.enabled": "false"})
    with context.broker() as broker, context.scratch("index") as directory:
        broker.create_topic(TABLE.topic, PARTITIONS, cleanup_policy="compact")
        assert _writer(broker.address, keys, 0).wait() == 0
        settle()
        pulls = PullQueries(spark, {"bootstrap.servers": broker.address}, str(directory))
        began = time.perf_counter()
        pulls.open(QueryDefinition("totals", "totals", TABLE.text, TABLE, ()))
        _ask(pulls, keys, 1)
        build_s = time.perf_counter() - began
        context.say(f"index of {keys:,} keys built in {build_s:.1f} s")
        _ask(pulls, keys, WARM_UP)
        idle = _ask(pulls, keys, questions)
        rounds: list[float] = []
        busy: list[float] = []
        for _ in range(context.repeats):
            writer = _writer(broker.address, keys, 3600)
            try:
                _wait_for_writes(pulls)
                times = _ask(pulls, keys, questions)
            finally:
                writer.kill()
                writer.wait()
            busy += times
            rounds.append(percentile(times, 0.99))
            context.say(f"while it is written: p50 {percentile(times, 0.5):.1f}, p99 {rounds[-1]:.1f} ms")
        pulls.close_all()
    spark.stop()
    yield Row(
        f"Pull query: {keys:,} keys, written {WRITES_PER_S:,} times/s, p99",
        median(rounds),
        "ms",
        P99_MS,
        note=f"{spread(rounds)}; p50 {percentile(busy, 0.5):.1f}; nothing written: p99 {percentile(idle, 0.99):.1f}",
    )
    yield Row(f"Pull query: building the index of {keys:,} keys", keys / build_s, "keys/s", None, at_least=True)


def _wait_for_writes(pulls: PullQueries) -> None:
    before = pulls.positions(TABLE.name)
    deadline = time.monotonic() + 60
    while pulls.positions(TABLE.name) == before:
        assert time.monotonic() < deadline, "the writer does not write"
        _ask(pulls, 1, 1)
