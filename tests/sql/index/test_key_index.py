"""Index of a table: answers include what was committed before the question, whatever happened to process and topic."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from moldau import Admin, Producer, TopicPartition
from moldau.client.admin import ConfigResource, NewTopic
from moldau.host.clock import SystemClock
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.index.index_store import FILE
from moldau.sql.index.key_index import KeyIndex
from moldau.sql.index.topic_follower import CURRENT_MS
from tests.spark import topics
from tests.sql.index.conftest import COLUMNS
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

Table = Callable[..., Declaration]
Opened = Callable[..., KeyIndex]

DAY_MS = 24 * 3600 * 1000


def values(index: KeyIndex, *keys: bytes) -> list[bytes]:
    return [record.value for record in index.get(keys, timeout_s=60)]


def built(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.getMessage().startswith("index is built") for record in caplog.records)


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="moldau.sql.index")


def test_the_latest_value_of_a_key_is_found_and_a_tombstone_removes_it(
    table: Table, producer: Producer, opened: Opened
) -> None:
    declaration = table(3)
    index = opened(declaration)
    assert values(index, b"a") == []
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3")):
        producer.send(declaration.topic, value, key=key).result()
    assert values(index, b"b", b"a", b"missing") == [b"2", b"3"]
    assert index.count() == 2
    producer.send(declaration.topic, None, key=b"a").result()
    assert values(index, b"a", b"b") == [b"2"]
    producer.send(declaration.topic, b"4", key=b"a").result()
    assert values(index, b"a") == [b"4"]


def test_records_without_a_key_are_in_no_table(topic: str, producer: Producer, opened: Opened) -> None:
    declaration = Declaration("totals", RelationKind.TABLE, topic, COLUMNS)
    producer.send(topic, b"1").result()
    producer.send(topic, b"2", key=b"a").result()
    assert opened(declaration).count() == 1


def test_only_committed_records_count_and_an_open_transaction_does_not_delay_answers(
    table: Table, bootstrap: str, opened: Opened
) -> None:
    declaration = table()
    index = opened(declaration)
    with Producer(bootstrap_servers=bootstrap, transactional_id=declaration.topic) as producer:
        with producer.transaction():
            producer.send(declaration.topic, b"1", key=b"a")
        assert values(index, b"a") == [b"1"]
        producer.begin_transaction()
        producer.send(declaration.topic, b"2", key=b"a").result()
        assert values(index, b"a") == [b"1"]
        producer.abort_transaction()
        assert values(index, b"a") == [b"1"]
        with producer.transaction():
            producer.send(declaration.topic, None, key=b"a")
        assert values(index, b"a") == []


def test_an_index_that_is_opened_again_reads_only_what_is_new(
    table: Table, producer: Producer, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    declaration = table(2)
    with opened(declaration) as index:
        for number in range(10):
            producer.send(declaration.topic, b"old", key=b"%d" % number).result()
        assert index.count() == 10
    producer.send(declaration.topic, b"new", key=b"3").result()
    producer.send(declaration.topic, None, key=b"4").result()
    again = opened(declaration)
    assert values(again, b"3", b"4", b"5") == [b"new", b"old"]
    assert built(caplog) == 1


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it is closed"])
def test_a_topic_that_is_created_again_is_another_one(
    table: Table, producer: Producer, opened: Opened, bootstrap: str, running: bool
) -> None:
    declaration = table()
    index = opened(declaration)
    producer.send(declaration.topic, b"old", key=b"a").result()
    assert values(index, b"a") == [b"old"]
    if not running:
        index.close()
    topics.replace(bootstrap, declaration.topic)
    with Producer(bootstrap_servers=bootstrap) as other:
        # As many records as before: the offsets alone do not tell that the topic is new.
        other.send(declaration.topic, b"new", key=b"b").result()
    if not running:
        index = opened(declaration)
    assert values(index, b"a", b"b") == [b"new"]


def test_a_deleted_topic_is_an_error(table: Table, opened: Opened, bootstrap: str) -> None:
    declaration = table()
    index = opened(declaration)
    assert values(index, b"a") == []
    topics.delete(bootstrap, declaration.topic)
    with pytest.raises(SqlError, match=r"topic .* of table totals does not exist"):
        index.get([b"a"])


def test_partitions_that_are_added_are_read(table: Table, producer: Producer, opened: Opened, bootstrap: str) -> None:
    declaration = table()
    index = opened(declaration)
    assert values(index, b"a") == []
    topics.grow(bootstrap, declaration.topic, 4)
    with Producer(bootstrap_servers=bootstrap) as other:
        other.send(declaration.topic, b"1", key=b"a", partition=3).result()
    assert values(index, b"a") == [b"1"]


def test_an_offset_after_the_end_of_the_log_builds_the_index_again(
    table: Table, producer: Producer, opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    declaration = table()
    with opened(declaration) as index:
        producer.send(declaration.topic, b"1", key=b"a").result()
        assert index.count() == 1
    with sqlite3.connect(tmp_path / declaration.topic / FILE) as file:
        file.execute("UPDATE positions SET next_offset = 1000")
        file.execute("INSERT INTO latest VALUES (?, ?, 0, ?, 999, 0)", (b"lost", b"", b"1"))
    file.close()
    assert values(opened(declaration), b"a", b"lost") == [b"1"]
    assert built(caplog) == 2


def test_records_that_were_deleted_before_they_were_read_build_the_index_again(
    table: Table, producer: Producer, opened: Opened, bootstrap: str
) -> None:
    declaration = table()
    with Admin(bootstrap_servers=bootstrap) as admin:
        with opened(declaration) as index:
            producer.send(declaration.topic, b"1", key=b"a").result()
            assert index.count() == 1
        producer.send(declaration.topic, None, key=b"a").result()
        producer.send(declaration.topic, b"2", key=b"b").result()
        admin.alter_configs({ConfigResource.topic(declaration.topic): {"cleanup.policy": "compact,delete"}})
        admin.delete_records({TopicPartition(declaration.topic, 0): 2})
    assert values(opened(declaration), b"a", b"b") == [b"2"]


def test_a_damaged_file_or_one_of_an_earlier_boot_is_built_again(
    table: Table, producer: Producer, opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    declaration = table()
    path = tmp_path / declaration.topic / FILE
    producer.send(declaration.topic, b"1", key=b"a").result()
    with opened(declaration) as index:
        assert index.count() == 1
    path.write_bytes(b"not a database" + os.urandom(8192))
    with opened(declaration) as index:
        assert values(index, b"a") == [b"1"]
    with sqlite3.connect(path) as file:
        file.execute("UPDATE facts SET value = ? WHERE name = 'boot'", (b"an earlier one",))
    file.close()
    with opened(declaration) as index:
        assert values(index, b"a") == [b"1"]
    assert built(caplog) == 3


class LaterClock(SystemClock):
    """The time in some days."""

    def __init__(self, days: float) -> None:
        self._later_ms = int(days * DAY_MS)

    def now_ms(self) -> int:
        return super().now_ms() + self._later_ms


@pytest.mark.parametrize(("days", "builds"), [(0.4, 1), (0.6, 2)])
def test_an_index_that_may_have_missed_tombstones_is_built_again(
    table: Table,
    producer: Producer,
    bootstrap: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    days: float,
    builds: int,
) -> None:
    """A tombstone stays for delete.retention.ms, a day. Half of it is left for the reading itself."""
    declaration = table()
    producer.send(declaration.topic, b"1", key=b"a").result()
    for clock in (SystemClock(), LaterClock(days)):
        settings = {"bootstrap.servers": bootstrap}
        with KeyIndex(declaration, settings, str(tmp_path / "index"), clock=clock) as index:
            assert values(index, b"a") == [b"1"]
    assert built(caplog) == builds


class MovedClock(SystemClock):
    """The time plus `later_ms`, which a test changes."""

    def __init__(self) -> None:
        self.later_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.later_ms


def test_an_index_that_runs_stays_current(
    table: Table, producer: Producer, bootstrap: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without records too: the time at which it was last current is stored again and again."""
    declaration = table()
    producer.send(declaration.topic, b"1", key=b"a").result()
    clock = MovedClock()
    settings, directory = {"bootstrap.servers": bootstrap}, str(tmp_path / "index")

    def stored_ms(index: KeyIndex) -> int:
        with index._store.snapshot() as snapshot:
            return int(snapshot.fact(CURRENT_MS) or 0)

    with KeyIndex(declaration, settings, directory, clock=clock) as index:
        assert values(index, b"a") == [b"1"]
        for _ in range(3):
            clock.later_ms += DAY_MS // 3
            wait_until(lambda: stored_ms(index) > clock.now_ms() - 3_600_000, "the time is stored")
    with KeyIndex(declaration, settings, directory, clock=clock) as index:
        assert values(index, b"a") == [b"1"]
    assert built(caplog) == 1


def test_changed_key_columns_build_the_index_again(
    table: Table, producer: Producer, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    declaration = table()
    producer.send(declaration.topic, b"1", key=b"07").result()
    with opened(declaration) as index:
        assert values(index, b"07") == [b"1"]
    numbers = Declaration(
        "totals", declaration.kind, declaration.topic, (ColumnDeclaration("customer", "INT", is_key=True),)
    )
    with opened(numbers) as index:
        lookups = index.keys.lookups({"customer": [7]})
        assert lookups is not None
        assert values(index, *lookups) == [b"1"]
    assert built(caplog) == 2


def test_json_keys_that_mean_the_same_are_found_together(table: Table, producer: Producer, opened: Opened) -> None:
    columns = (
        ColumnDeclaration("customer", "STRING", is_key=True),
        ColumnDeclaration("day", "INT", is_key=True),
        ColumnDeclaration("at", "TIMESTAMP", is_key=True),
        ColumnDeclaration("total", "DOUBLE"),
    )
    declaration = table(columns=columns, key_format="json")
    index = opened(declaration)
    keys = (
        b'{"customer":"a","day":1,"at":"2026-01-01T00:00:00.000Z"}',
        b'{ "day": 1, "customer": "a" }',
        b'{"customer":"a","day":2}',
        b'{"customer":null,"day":1}',
        b"not JSON",
        b"[1]",
    )
    for number, key in enumerate(keys):
        producer.send(declaration.topic, b"%d" % number, key=key).result()
    lookups = index.keys.lookups({"customer": ["a"], "day": [1, 3]})
    assert lookups is not None
    assert sorted(values(index, *lookups)) == [b"0", b"1"]
    assert index.count() == len(keys)
    producer.send(declaration.topic, None, key=keys[0]).result()
    assert values(index, *lookups) == [b"1"]


def test_a_question_that_the_index_cannot_answer_in_time_is_an_error(
    table: Table, producer: Producer, opened: Opened
) -> None:
    declaration = table()
    index = opened(declaration)
    assert values(index, b"a") == []
    index._follower.stop()
    assert values(index, b"a") == []  # nothing new was committed
    producer.send(declaration.topic, b"1", key=b"a").result()
    with pytest.raises(SqlError, match=r"did not reach the end of topic .* within 0.2 s; 1 offsets are left"):
        index.get([b"a"], timeout_s=0.2)


def test_questions_that_wait_when_the_index_is_closed_end_with_an_error(
    table: Table, producer: Producer, opened: Opened
) -> None:
    declaration = table()
    index = opened(declaration)
    assert values(index, b"a") == []
    index._follower.stop()
    producer.send(declaration.topic, b"1", key=b"a").result()
    errors: list[SqlError] = []

    def ask() -> None:
        try:
            index.get([b"a"], timeout_s=1)
        except SqlError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    index.close(remove=True)
    thread.join()
    assert len(errors) == 1
    with pytest.raises(SqlError):
        index.get([b"a"])


def test_a_broker_that_does_not_answer_is_an_error_and_questions_after_its_return_are_answered(
    table: Table, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        settings = {"bootstrap.servers": broker.bootstrap}
        with Admin(settings) as admin:
            admin.create_topics(NewTopic("totals", 1))
        declaration = replace(table(), topic="totals")
        with Producer(settings) as producer, KeyIndex(declaration, settings, str(tmp_path / "index")) as index:
            producer.send("totals", b"1", key=b"a").result()
            assert values(index, b"a") == [b"1"]
            broker.kill()
            with pytest.raises(SqlError, match="the end of topic 'totals' of table totals is not known"):
                index.get([b"a"], timeout_s=0.5)
            broker.start()
            producer.send("totals", b"2", key=b"a").result()
            assert values(index, b"a") == [b"2"]


def test_answers_are_never_older_than_what_was_committed_before_the_question(
    table: Table, bootstrap: str, opened: Opened, count: Callable[[int, int], int]
) -> None:
    """Writers with and without transactions; each asks for its own key right after each acknowledgement."""
    declaration = table(3)
    index = opened(declaration)
    rounds = count(60, 2_000)
    stale: list[str] = []

    def ask(key: bytes, number: int) -> None:
        (found,) = values(index, key)
        if int(found) < number:
            stale.append(f"{key!r}: {found!r} after {number}")

    def write(name: str, transactional: bool) -> None:
        settings = {"transactional.id": f"{declaration.topic}-{name}"} if transactional else {}
        key = name.encode()
        with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **settings}) as producer:
            for number in range(rounds):
                if transactional:
                    with producer.transaction():
                        producer.send(declaration.topic, b"%d" % number, key=key)
                    producer.begin_transaction()
                    producer.send(declaration.topic, b"-1", key=key)
                    producer.abort_transaction()
                else:
                    producer.send(declaration.topic, b"%d" % number, key=key).result()
                ask(key, number)

    threads = [threading.Thread(target=write, args=(f"w{n}", n % 2 == 1)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not stale
    assert [int(values(index, f"w{n}".encode())[0]) for n in range(4)] == [rounds - 1] * 4
