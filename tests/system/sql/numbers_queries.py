"""Numbers through two continuous queries, one of which counts, and the check that each number counts once."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from moldau import Admin, Consumer, Producer
from moldau.client.admin import NewTopic
from moldau.client.data_types import TopicPartition
from moldau.sql.catalogue import Catalogue
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.queries import QueryDefinition
from tests.support.sql_server import SqlServerProcess
from tests.support.waiting import wait_until

TIMEOUT_S = 300.0
KEYS = 7
PER_S = 50
PARTITIONS = 2
SOURCE = "numbers"
COPY = "copy"
TOTALS = "totals"

NUMBERS = Declaration(
    SOURCE,
    RelationKind.STREAM,
    SOURCE,
    (ColumnDeclaration("k", "STRING", is_key=True), ColumnDeclaration("n", "BIGINT")),
)


def create_topics(bootstrap: str, *topics: str, partitions: int = PARTITIONS) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions) for topic in topics])


def define(bootstrap: str, name: str, sql: str, kind: RelationKind, source: Declaration = NUMBERS) -> None:
    """Write a query to the catalogue, as a shell does."""
    target = Declaration(name, kind, name, query=name)
    now_ms = int(time.time() * 1_000)
    definition = QueryDefinition(name, uuid.uuid4().hex, sql, target, (source,), created_ms=now_ms)
    with Catalogue({"bootstrap.servers": bootstrap}) as catalogue:
        catalogue.put_query(definition)


def define_both(bootstrap: str) -> None:
    create_topics(bootstrap, SOURCE, COPY, TOTALS)
    sql = f"CREATE STREAM {COPY} AS SELECT k, n FROM {SOURCE} WHERE n >= 0 EMIT CHANGES"
    define(bootstrap, COPY, sql, RelationKind.STREAM)
    sql = f"CREATE TABLE {TOTALS} AS SELECT k, count(*) AS c, sum(n) AS s FROM {SOURCE} GROUP BY k EMIT CHANGES"
    define(bootstrap, TOTALS, sql, RelationKind.TABLE)


class Numbers:
    """A producer that writes numbers at a steady rate until it is ended."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="numbers")
        self.sent = 0

    def _serve(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            while not self._ended.wait(0.1):
                for _ in range(PER_S // 10):
                    value = json.dumps({"n": self.sent}).encode()
                    producer.send(SOURCE, value, f"k{self.sent % KEYS}".encode())
                    self.sent += 1

    def start(self) -> None:
        self._thread.start()

    def end(self) -> int:
        """Stop, and return how many numbers there are."""
        self._ended.set()
        self._thread.join(TIMEOUT_S)
        return self.sent


@contextmanager
def flowing_numbers(bootstrap: str) -> Iterator[Numbers]:
    numbers = Numbers(bootstrap)
    numbers.start()
    try:
        yield numbers
    finally:
        numbers.end()


class Results:
    """What both queries have written, for a reader of committed records, in the order of each partition."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        self._partitions = [TopicPartition(topic, index) for topic in (COPY, TOTALS) for index in range(PARTITIONS)]
        self.copied: Counter[int] = Counter()
        self.totals: dict[str, tuple[int, int]] = {}
        """The last value of each key: count and sum."""

    def __enter__(self) -> Results:
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning(*self._partitions)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read(self) -> None:
        """Read everything that is committed by now."""
        ends = self._consumer.end_offsets(*self._partitions)
        while any(self._consumer.position(partition) < end for partition, end in ends.items()):
            for record in self._consumer.poll(0.5):
                value = json.loads(record.value or b"null")
                if record.topic == COPY:
                    self.copied[value["n"]] += 1
                else:
                    self.totals[(record.key or b"").decode()] = value["c"], value["s"]

    @property
    def count(self) -> int:
        self.read()
        return sum(self.copied.values())

    def wait_copied(self, more_than: int) -> int:
        """Wait until the copy has more records than that, and return how many it has."""
        found: int = wait_until(lambda: count if (count := self.count) > more_than else 0, "the copy grows", TIMEOUT_S)
        return found

    def check_once(self, count: int) -> None:
        """Every number is in the copy once, and in its total once."""
        wait_until(lambda: self.count >= count, "every number is copied", TIMEOUT_S)
        wait_until(lambda: self._total() >= count, "every number is in its total", TIMEOUT_S)
        assert self.copied == Counter(range(count))
        assert self.totals == expected_totals(count)

    def _total(self) -> int:
        self.read()
        return sum(count for count, _ in self.totals.values())


def expected_totals(count: int) -> dict[str, tuple[int, int]]:
    by_key = {f"k{key}": range(key, count, KEYS) for key in range(KEYS)}
    return {key: (len(found), sum(found)) for key, found in by_key.items() if found}


def wait_running(server: SqlServerProcess, *names: str) -> None:
    for name in names:
        server.wait_state(name, "RUNNING")
