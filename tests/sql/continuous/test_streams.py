"""Streams in continuous queries: the result is that of the bounded SELECT of the same records."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from moldau.sql.continuous import ContinuousPlan, changes, progress_facts
from moldau.sql.errors import SqlError
from moldau.sql.results import RowChange
from tests.sql.continuous.conftest import DEADLINE_S, Declare, expected, settled, take
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from moldau.sql.session import SqlSession

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def some_orders(chance: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Orders of ten minutes, out of order by up to two minutes, in one partition.

    A query that is behind reads several partitions at different speed: records of the slower one would be late.
    """
    return [
        (
            {"customer": f"c{chance.randrange(4)}", "amount": chance.choice([1, 2, 5, None])},
            f"o{number}",
            0,
            START_MS + number * 10 * MINUTE_MS // count + chance.randrange(2 * MINUTE_MS),
        )
        for number in range(count)
    ]


@pytest.fixture
def orders(declare: Declare, records: Callable[..., None], name: str, seed: int) -> str:
    records(name, some_orders(random.Random(seed), 40), partitions=2)
    declare("STREAM", name, "id STRING, customer STRING, amount INT", key="id")
    return name


def test_aggregates_and_windows_end_with_the_rows_of_the_bounded_query(
    session: SqlSession, planned: Callable[[str], ContinuousPlan], orders: str
) -> None:
    text = f"SELECT customer, count(*) AS n, sum(amount) AS total FROM {orders} GROUP BY customer"
    made = planned(f"{text} EMIT CHANGES")
    assert (made.key, made.output_mode) == (("customer",), "update")
    settled(session, made, text)
    window = "HOPPING (SIZE 4 MINUTES, ADVANCE BY 2 MINUTES, GRACE PERIOD 3 MINUTES)"
    made = planned(f"SELECT customer, count(*) AS n FROM {orders} WINDOW {window} GROUP BY customer EMIT CHANGES")
    assert made.key == ("window_start", "window_end", "customer")
    settled(
        session,
        made,
        f"SELECT customer, count(*) AS n, window.start, window.end FROM {orders} "
        "GROUP BY customer, window(timestamp, '4 minutes', '2 minutes')",
    )


def test_joins_of_streams_and_session_windows_end_with_the_rows_of_the_bounded_query(
    session: SqlSession,
    declare: Declare,
    planned: Callable[[str], ContinuousPlan],
    records: Callable[..., None],
    orders: str,
    seed: int,
) -> None:
    paid = f"{orders}p"
    chance = random.Random(seed)
    some = [one for one in some_orders(random.Random(seed), 40) if chance.random() < 0.6]
    records(paid, [({"method": "card"}, key, 0, time + chance.randrange(2 * MINUTE_MS)) for _, key, _, time in some])
    declare("STREAM", paid, "id STRING, method STRING", key="id")
    # Time goes on with these records, so that everything before them is complete.
    end = START_MS + 60 * MINUTE_MS
    records(orders, [({"customer": "end", "amount": 0}, "end", 0, end)])
    records(paid, [({"method": "end"}, "end", 0, end + 30 * MINUTE_MS)])
    bound = "p.timestamp BETWEEN o.timestamp - INTERVAL 1 MINUTE AND o.timestamp + INTERVAL 1 MINUTE"
    select = f"SELECT o.id, o.customer, p.method FROM {orders} o LEFT JOIN {paid} p"
    made = planned(f"{select} WITHIN 1 MINUTE GRACE PERIOD 5 MINUTES ON o.id = p.id EMIT CHANGES")
    wanted = {row for row in expected(session, f"{select} ON o.id = p.id AND {bound}") if row[0] != "end"}
    assert {row[2] for row in wanted} == {"card", None}
    found = take(made, lambda rows: len({one.row for one in rows} & wanted) == len(wanted))
    assert {change.row for change in found} == wanted
    sessions = f"SELECT customer, session_window.start, count(*) AS n FROM {orders} "
    group = "GROUP BY customer, session_window(timestamp, '90 seconds')"
    made = planned(f"{sessions} {group} GRACE PERIOD 5 MINUTES EMIT CHANGES")
    assert made.output_mode == "append"
    wanted = {row for row in expected(session, f"{sessions} {group}") if row[0] != "end"}
    found = take(made, lambda rows: len(rows) >= len(wanted))
    assert {change.row for change in found} == wanted


def test_a_record_of_a_stream_meets_the_row_of_the_table_as_it_is_then(
    declare: Declare, planned: Callable[[str], ContinuousPlan], records: Callable[..., None], name: str
) -> None:
    stream, table = f"{name}s", f"{name}t"
    records(table, [({"region": "eu"}, "c1")])
    records(stream, [({"customer": "c1"}, "o1"), ({"customer": "c2"}, "o2")])
    declare("STREAM", stream, "id STRING, customer STRING", key="id")
    declare("TABLE", table, "id STRING, region STRING", key="id")
    live = changes(
        planned(f"SELECT s.id, t.region FROM {stream} s LEFT JOIN {table} t ON s.customer = t.id EMIT CHANGES")
    )
    found: list[RowChange] = []
    reader = Thread(target=lambda: found.extend(live))
    reader.start()
    try:
        wait_until(lambda: len(found) == 2, "the first rows", DEADLINE_S)
        # A change of the table alone emits nothing; the next record of the stream meets it.
        records(table, [({"region": "us"}, "c1"), ({"region": "ap"}, "c2")])
        records(stream, [({"customer": "c1"}, "o3"), ({"customer": "c2"}, "o4")])
        wait_until(lambda: len(found) == 4, "the next rows", DEADLINE_S)
        records(table, [(None, "c1")])
        records(stream, [({"customer": "c1"}, "o5")])
        wait_until(lambda: len(found) == 5, "the last row", DEADLINE_S)
    finally:
        live.stop()
        reader.join(DEADLINE_S)
    assert [sorted(change.row for change in found[:2]), sorted(change.row for change in found[2:4])] == [
        [("o1", "eu"), ("o2", None)],
        [("o3", "us"), ("o4", "ap")],
    ]
    assert found[4].row == ("o5", None)


def test_late_records_are_dropped_and_counted(
    planned: Callable[[str], ContinuousPlan], records: Callable[..., None], declare: Declare, name: str
) -> None:
    records(name, [({"n": 1}, "a", 0, START_MS + number * MINUTE_MS) for number in range(15)])
    declare("STREAM", name, "id STRING, n INT", key="id")
    live: Any = changes(
        planned(f"SELECT id, window.start, count(*) AS n FROM {name} GROUP BY id, window(timestamp, '1 minute') "
                "GRACE PERIOD 2 MINUTES EMIT CHANGES")
    )  # fmt: skip
    found: list[RowChange] = []
    reader = Thread(target=lambda: found.extend(live))
    reader.start()
    try:
        wait_until(lambda: len(found) == 15, "a row for each minute", DEADLINE_S)
        wait_until(lambda: any(_watermark(one) > "2023-11-14T22:2" for one in live.reports), "time", DEADLINE_S)
        records(name, [({"n": 1}, "a", 0, START_MS), ({"n": 1}, "a", 0, START_MS + 14 * MINUTE_MS)])
        wait_until(lambda: len(found) == 16, "the row that is not late", DEADLINE_S)
        wait_until(lambda: any(progress_facts(one)[3] for one in live.reports), "the count", DEADLINE_S)
    finally:
        live.stop()
        reader.join(DEADLINE_S)
    assert found[15].row[2] == 2


def test_columns_of_records_have_their_values_in_joins_unions_and_with(
    planned: Callable[[str], ContinuousPlan], records: Callable[..., None], declare: Declare, name: str
) -> None:
    """Parts of records that a query does not use are not read; those that it uses are."""
    records(name, [({"n": 7}, "a", 0, START_MS)])
    declare("STREAM", name, "id STRING, n INT", key="id")
    text = (
        f"WITH x AS (SELECT id, offset, timestamp FROM {name}), y AS (SELECT * FROM x) "
        f"SELECT id, offset, unix_millis(timestamp) AS at FROM x "
        f"UNION ALL SELECT y.id, length(key), unix_millis(y.timestamp) "
        f"FROM y JOIN (TABLE {name}) z ON y.id = z.id AND y.timestamp = z.timestamp "
        f"UNION ALL SELECT CAST(n AS STRING), partition, size(headers) FROM {name} EMIT CHANGES"
    )
    found = take(planned(text), lambda rows: len(rows) == 3)
    assert {change.row for change in found} == {("a", 0, START_MS), ("a", 1, START_MS), ("7", 0, None)}


def _watermark(report: Any) -> str:
    return str(report["eventTime"].get("watermark", ""))


def test_a_limit_ends_the_query_and_a_failure_is_an_error_in_words(
    planned: Callable[[str], ContinuousPlan], orders: str
) -> None:
    made = planned(f"SELECT id, amount FROM {orders} EMIT CHANGES LIMIT 3")
    assert made.record_key == ("id",)
    assert len(list(changes(made))) == 3
    failing = planned(f"SELECT id, 1 / (length(id) - length(id)) AS x FROM {orders} EMIT CHANGES")
    with pytest.raises(SqlError, match="division by zero"):
        list(changes(failing))
    assert len(take(planned(f"SELECT DISTINCT customer FROM {orders} EMIT CHANGES"), lambda rows: len(rows) == 4)) == 4
