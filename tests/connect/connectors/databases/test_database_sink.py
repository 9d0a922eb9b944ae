"""Database sink at the level of the connector: modes, keys, deletes, tables, exactly once, and what goes wrong."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from moldau.client.data_types import TopicPartition
from moldau.connect.connector import RetriableError, SinkCommit, SinkSlice, SinkTask, SourceOffsets
from moldau.connect.connectors.databases.errors import DatabaseError, FencedError
from moldau.connect.connectors.databases.sink import DatabaseSink
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from tests.connect.connectors.databases.support import INT32, TEXT, TestDatabase, sink_batch, struct

KEY = struct(id=INT32)
VALUE = struct(id=INT32, name=TEXT)
UPSERT = {"insert_mode": "upsert", "pk_mode": "record_key", "auto_create": "true", "delete_enabled": "true"}


def started(database: TestDatabase, **settings: Any) -> DatabaseSink:
    found = database.sink(**settings)
    found.start()
    return found


def put(sink: DatabaseSink, *batches: ConnectBatch, start: int | None = None, end: int | None = None) -> int:
    """One slice of one task, committed."""
    first = batches[0].origin.column("offset")[0].as_py() if start is None else start
    last = batches[-1].origin.column("offset")[-1].as_py() + 1 if end is None else end
    part = SinkSlice(TopicPartition("orders", 0), first, last)
    copy: DatabaseSink = pickle.loads(pickle.dumps(sink))
    written = copy.write(part, iter(batches), SinkTask("test", 1, 0, 0))
    sink.commit(SinkCommit("test", 1, [part], [written]))
    return written


def records(*pairs: tuple[int, str | None], first: int = 0) -> ConnectBatch:
    """Records with the key `id`; without a name, tombstones."""
    values = [None if name is None else {"id": key, "name": name} for key, name in pairs]
    return sink_batch((VALUE, values), (KEY, [{"id": key} for key, _ in pairs]), first=first)


def orders(database: TestDatabase) -> list[tuple[Any, ...]]:
    return database.rows("SELECT id, name FROM orders ORDER BY id")


def offset_of(sink: DatabaseSink) -> int | None:
    written = sink.written_offsets()
    assert written is not None
    return written.get(TopicPartition("orders", 0))


# -- modes -------------------------------------------------------------------------------------------------------------


def test_upserts_keep_the_last_record_of_a_key_and_tombstones_delete(database: TestDatabase) -> None:
    sink = started(database, **UPSERT)
    assert put(sink, records((1, "a"), (2, "b"), (1, "a2"), (3, "c"), (2, None))) == 5
    assert orders(database) == [(1, "a2"), (3, "c")]
    put(sink, records((3, None), (3, "back"), (4, None), (1, None), first=5))
    assert orders(database) == [(3, "back")]
    assert offset_of(sink) == 9


def test_inserts_and_deletes_happen_in_their_order(database: TestDatabase) -> None:
    sink = started(database, **{**UPSERT, "insert_mode": "insert"})
    put(sink, records((1, "a"), (2, "b"), (1, None), (1, "again"), (2, None)))
    assert orders(database) == [(1, "again")]
    with pytest.raises(DatabaseError, match=r"(?i)unique|duplicate"):
        put(sink, records((5, "new"), (1, "twice"), first=5))
    assert orders(database) == [(1, "again")]
    assert offset_of(sink) == 5


def test_updates_change_existing_rows_only(database: TestDatabase) -> None:
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR(50), other INTEGER)")
    database.execute("INSERT INTO orders VALUES (1, 'old', 7), (2, 'old', 8)")
    sink = started(database, insert_mode="update", pk_mode="record_key")
    put(sink, records((1, "a"), (1, "b"), (9, "none")))
    assert database.rows("SELECT * FROM orders ORDER BY id") == [(1, "b", 7), (2, "old", 8)]


def test_every_mode_of_the_primary_key(database: TestDatabase) -> None:
    rows = (VALUE, [{"id": 5, "name": "x"}])
    put(
        started(database, name="a", pk_mode="kafka", auto_create="true", table_name_format="k_${topic}"),
        sink_batch(rows, first=7),
    )
    assert database.rows("SELECT * FROM k_orders") == [("orders", 0, 7, 5, "x")]
    put(
        started(database, name="b", pk_mode="record_value", pk_fields="id", auto_create="true", table_name_format="v"),
        sink_batch(rows),
    )
    put(
        started(database, name="c", pk_mode="record_key", pk_fields="key", auto_create="true", table_name_format="p"),
        sink_batch(rows, (Schema(SchemaType.STRING), ["k"])),
    )
    assert database.rows("SELECT * FROM p") == [("k", 5, "x")]
    put(
        started(database, name="d", auto_create="true", fields_whitelist="name", table_name_format="n"),
        sink_batch(rows),
    )
    assert database.rows("SELECT * FROM n") == [("x",)]
    with pytest.raises(DatabaseError, match=r"(?i)unique|duplicate"):
        put(started(database, name="e", table_name_format="v"), sink_batch(rows))


def test_records_that_fit_no_table_are_refused_with_the_setting_to_change(sqlite_database: TestDatabase) -> None:
    sink = started(sqlite_database, **{**UPSERT, "delete_enabled": "false"})
    with pytest.raises(DataError, match=r"offset 1 of topic orders has no value; set delete\.enabled"):
        put(sink, records((1, "a"), (2, None)))
    with pytest.raises(DataError, match="have no key for the primary key"):
        put(sink, sink_batch((VALUE, [{"id": 1, "name": "a"}])))
    with pytest.raises(DataError, match="no schema; a database sink needs structs"):
        put(sink, replace(records((1, "a")), value=ValueColumn(pa.array([{"id": 1}]), None)))
    with pytest.raises(DatabaseError, match="Flatten"):
        put(
            sink,
            sink_batch((struct(id=INT32, inner=struct(x=INT32)), [{"id": 1, "inner": {"x": 1}}]), (KEY, [{"id": 1}])),
        )


def test_refused_rows_are_rejected_and_all_others_are_written(database: TestDatabase) -> None:
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR(50) CHECK (name <> 'bad'))")
    sink = started(database, insert_mode="upsert", pk_mode="record_key")
    names = ["bad" if number in (3, 10, 11) else "x" for number in range(20)]
    batch = records(*((number, None if number == 7 else name) for number, name in enumerate(names)))
    rejected: list[int] = []

    def reject(refused: ConnectBatch, rows: pa.BooleanArray, error: Exception) -> None:
        assert refused.origin is not None
        rejected.extend(refused.origin.filter(rows).column("offset").to_pylist())

    part = SinkSlice(TopicPartition("orders", 0), 0, 20)
    assert sink.write(part, iter([batch]), SinkTask("test", 1, 0, 0, reject)) == 16
    assert rejected == [3, 7, 10, 11]
    assert [row[0] for row in orders(database)] == [n for n in range(20) if n not in rejected]
    assert offset_of(sink) == 20
    with pytest.raises(DatabaseError):
        put(sink, records((30, "x"), (31, "bad"), first=20))
    assert offset_of(sink) == 20


# -- tables ------------------------------------------------------------------------------------------------------------

MOMENT = datetime(2024, 2, 29, 1, 2, 3, 456_000, UTC)
ALL_TYPES = struct(
    i8=Schema(SchemaType.INT8), i16=Schema(SchemaType.INT16), i32=INT32, i64=Schema(SchemaType.INT64),
    f32=Schema(SchemaType.FLOAT32), f64=Schema(SchemaType.FLOAT64), yes=Schema(SchemaType.BOOLEAN),
    words=Schema(SchemaType.STRING), raw=Schema(SchemaType.BYTES),
    money=Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"}),
    day=Schema(SchemaType.INT32, name=DATE, version=1), clock=Schema(SchemaType.INT32, name=TIME, version=1),
    moment=Schema(SchemaType.INT64, name=TIMESTAMP, version=1),
)  # fmt: skip
ALL_VALUES = {
    "i8": -8, "i16": 16, "i32": 32, "i64": 2**60, "f32": 1.5, "f64": 2.5, "yes": True, "words": "ščř 'x' \\ %s",
    "raw": b"\x00\xff", "money": Decimal("1234.50"), "day": date(2024, 2, 29), "clock": time(13, 14, 15, 678_000),
    "moment": MOMENT,
}  # fmt: skip


def test_every_type_is_written_and_read_back(database: TestDatabase) -> None:
    optional = struct(**{field.name: field.schema.as_optional() for field in ALL_TYPES.fields})
    nulls = dict.fromkeys(ALL_VALUES)
    sink = started(database, auto_create="true", db_timezone="Europe/Prague")
    put(sink, sink_batch((optional, [ALL_VALUES, nulls])))
    (shown,) = database.rows(
        {
            "sqlite": "SELECT moment FROM orders WHERE i32 = 32",
            "postgresql": "SELECT moment::text FROM orders WHERE i32 = 32",
            "mariadb": "SELECT CAST(moment AS CHAR) FROM orders WHERE i32 = 32",
        }[database.kind]
    )
    assert shown[0] == "2024-02-29 02:02:03.456"
    source = database.source(mode="bulk", table_whitelist="orders", db_timezone="Europe/Prague")
    (one,) = source.poll(SourceOffsets())
    found, empty = one.batch.value.array.to_pylist()
    if database.kind == "sqlite":
        found["money"] = Decimal(str(found["money"]))
    assert {**found, "yes": bool(found["yes"]), "money": Decimal(found["money"])} == ALL_VALUES
    assert set(empty.values()) == {None}


def test_a_missing_table_is_not_created_without_leave(database: TestDatabase) -> None:
    sink = started(database, pk_mode="record_key")
    with pytest.raises(DatabaseError, match=r"orders does not exist .* auto\.create=true"):
        put(sink, records((1, "a")))


def test_missing_columns_are_added_if_they_may_be(database: TestDatabase) -> None:
    sink = started(database, **UPSERT)
    put(sink, records((1, "a")))
    wider = struct(
        id=INT32, name=TEXT, size=Schema(SchemaType.INT64, optional=True), kind=Schema(SchemaType.STRING, default="new")
    )
    batch = sink_batch((wider, [{"id": 2, "name": "b", "size": 5, "kind": "k"}]), (KEY, [{"id": 2}]), first=1)
    with pytest.raises(DatabaseError, match=r"no column size, kind; add it, set auto\.evolve=true"):
        put(sink, batch)
    sink = started(database, **UPSERT, auto_evolve="true")
    # The wider schema arrives in the middle of a slice: MariaDB commits what came before.
    put(
        sink,
        records((3, "c"), first=1),
        sink_batch((wider, [{"id": 2, "name": "b", "size": 5, "kind": "k"}]), (KEY, [{"id": 2}]), first=2),
    )
    assert database.rows("SELECT id, name, size FROM orders ORDER BY id") == [
        (1, "a", None),
        (2, "b", 5),
        (3, "c", None),
    ]
    required = struct(id=INT32, name=TEXT, must=INT32)
    with pytest.raises(DatabaseError, match=r"no column must, and auto\.evolve cannot add it: the field is required"):
        put(sink, sink_batch((required, [{"id": 2, "name": "b", "must": 5}]), (KEY, [{"id": 2}]), first=3))
    assert offset_of(sink) == 3


def test_a_column_that_records_cannot_fill_is_named(database: TestDatabase) -> None:
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR(50), must INTEGER NOT NULL)")
    sink = started(database, insert_mode="upsert", pk_mode="record_key")
    with pytest.raises(DatabaseError, match=r"column must of table .* is NOT NULL without a default"):
        put(sink, records((1, "a")))


def test_a_value_that_is_too_long_is_refused_and_not_cut(postgresql_database: TestDatabase) -> None:
    postgresql_database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR(3))")
    sink = started(postgresql_database, insert_mode="upsert", pk_mode="record_key")
    with pytest.raises(DatabaseError, match="too long"):
        put(sink, records((1, "abcd")))


def test_types_without_a_type_in_connect_are_written_from_texts(postgresql_database: TestDatabase) -> None:
    postgresql_database.execute("CREATE TABLE orders (id UUID PRIMARY KEY, doc JSONB, tags INT[])")
    schema = struct(id=Schema(SchemaType.STRING), doc=TEXT, tags=Schema(SchemaType.ARRAY, value_schema=INT32))
    row = {"id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "doc": '{"a": [1]}', "tags": [1, 2]}
    sink = started(postgresql_database, insert_mode="upsert", pk_mode="record_value", pk_fields="id")
    put(sink, sink_batch((schema, [row])))
    assert postgresql_database.rows("SELECT id::text, doc->'a'->>0, tags FROM orders") == [(row["id"], "1", [1, 2])]


# -- exactly once ------------------------------------------------------------------------------------------------------


def test_a_repeated_slice_writes_only_what_is_missing(database: TestDatabase) -> None:
    sink = started(database, auto_create="true")  # plain inserts: every repetition would be seen
    batches = [records(*((number, "x") for number in range(first, first + 5)), first=first) for first in (0, 5)]
    put(sink, batches[0])
    put(sink, *batches)
    put(sink, *batches)
    assert [row[0] for row in orders(database)] == list(range(10))
    assert offset_of(sink) == 10


class Killed(BaseException):
    """The process dies here."""


STEPS = ("begin", "write", "commit", "after commit")


@pytest.mark.parametrize("step", STEPS)
def test_a_task_that_dies_between_two_steps_is_repeated_without_effect(
    step: str, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = started(database, auto_create="true", batch_size=3)
    batch = records(*((number, "x") for number in range(10)))
    session = sink._driver_session()
    kind = type(session)
    calls = 0
    method = step.removeprefix("after ")
    original = getattr(kind, method)

    def dying(self: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if step.startswith("after"):
            original(self, *arguments)
        if calls == 2:
            self.close()  # as the operating system does with the connections of a dead process
            raise Killed
        return None if step.startswith("after") else original(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(kind, method, dying)
        patched.setattr(kind, "rollback", lambda self: None)
        with pytest.raises(Killed):
            put(sink, batch)
    again = started(database, auto_create="true", batch_size=3)
    done = offset_of(again)
    assert done == {"begin": 3, "write": 3, "commit": 3, "after commit": 6}[step]
    put(again, batch)
    assert [row[0] for row in orders(database)] == list(range(10))


def test_a_process_that_slept_through_a_takeover_writes_nothing(database: TestDatabase) -> None:
    old = started(database, **UPSERT)
    put(old, records((1, "a")))
    new = started(database, **UPSERT)
    with pytest.raises(FencedError, match="taken over"):
        put(old, records((1, "zombie"), first=1))
    assert orders(database) == [(1, "a")]
    with pytest.raises(FencedError):
        old.commit(SinkCommit("test", 1, []))
    put(new, records((1, "b"), first=1))
    assert orders(database) == [(1, "b")] and offset_of(new) == 2


def test_offsets_that_the_user_changes_are_changed_in_the_database(database: TestDatabase) -> None:
    old = started(database, **UPSERT)
    put(old, records((1, "a"), (2, "b")))
    partition, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    changing = database.sink(**UPSERT)
    changing.change_offsets({partition: 1, other: 5})
    assert changing.written_offsets() == {partition: 1, other: 5}
    with pytest.raises(FencedError, match="taken over"):
        put(old, records((3, "zombie"), first=2))
    changing.change_offsets({other: None})
    assert changing.written_offsets() == {partition: 1}
    changing.change_offsets(None)
    assert changing.written_offsets() == {}


def test_the_offsets_of_dropped_records_are_stored(database: TestDatabase) -> None:
    sink = started(database, **UPSERT)
    part = SinkSlice(TopicPartition("orders", 0), 0, 7)
    assert sink.write(part, iter(()), SinkTask("test", 1, 0, 0)) == 0
    assert offset_of(sink) == 7


def test_without_a_table_of_offsets_the_group_decides(database: TestDatabase) -> None:
    sink = started(database, **UPSERT, offsets_table_name="")
    put(sink, records((1, "a")))
    put(sink, records((1, "a")))
    assert orders(database) == [(1, "a")] and sink.written_offsets() is None


def test_a_connector_sees_its_own_offsets_only(database: TestDatabase) -> None:
    first, second = started(database, **UPSERT), started(database, **UPSERT, name="other 'one'\\")
    put(first, records((1, "a")))
    assert second.written_offsets() == {}
    put(first, records((2, "b"), first=1))


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_wrong_settings_are_named_by_validation(database: TestDatabase) -> None:
    def problems(**settings: Any) -> list[str]:
        return list(DatabaseSink.check(database.sink_config(**settings)))

    assert problems() == []
    assert problems(insert_mode="upsert") == ["pk.mode"]
    assert problems(delete_enabled="true") == ["delete.enabled"]
    assert problems(pk_mode="kafka", pk_fields="a,b") == ["pk.fields"]


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_sink_continues_after_its_database_was_killed(kind: str, request: pytest.FixtureRequest) -> None:
    database: TestDatabase = request.getfixturevalue(f"{kind}_database")
    sink = started(database, **UPSERT)
    put(sink, records((1, "a")))
    database.server.kill()
    with pytest.raises(RetriableError, match="does not answer"):
        put(sink, records((2, "b"), first=1))
    database.server.start()
    sink.close()
    put(sink, records((2, "b"), first=1))
    assert orders(database) == [(1, "a"), (2, "b")] and offset_of(sink) == 2


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_missing_right_is_named(kind: str, request: pytest.FixtureRequest) -> None:
    database: TestDatabase = request.getfixturevalue(f"{kind}_database")
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR(10))")
    user = f"weak_{database.name}"
    if kind == "postgresql":
        database.execute(
            f"CREATE USER {user} PASSWORD 'p'",
            f"GRANT CREATE ON SCHEMA public TO {user}",
            f"GRANT SELECT ON orders TO {user}",
        )
    else:
        database.execute(
            f"CREATE USER {user} IDENTIFIED BY 'p'", f"GRANT CREATE, SELECT ON {database.name}.* TO {user}"
        )
    weak: dict[str, Any] = {**UPSERT, "connection_user": user, "connection_password": "p"}
    expected = "Grant the right"
    with pytest.raises(DatabaseError, match=expected):
        put(started(database, **weak), records((1, "a")))
    database.execute(f"DROP OWNED BY {user}" if kind == "postgresql" else "SELECT 1", f"DROP USER {user}")


def test_two_tasks_that_create_the_same_table_both_succeed(postgresql_database: TestDatabase) -> None:
    sink = started(postgresql_database, **UPSERT)

    def write(partition: int) -> int:
        batch = sink_batch((VALUE, [{"id": partition, "name": "x"}]), (KEY, [{"id": partition}]), partition=partition)
        part = SinkSlice(TopicPartition("orders", partition), 0, 1)
        copy: DatabaseSink = pickle.loads(pickle.dumps(sink))
        return copy.write(part, iter([batch]), SinkTask("test", 1, partition, 0))

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(write, range(8))) == 8
    assert len(orders(postgresql_database)) == 8
