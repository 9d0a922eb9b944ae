"""Targets of upserts: SQLite, PostgreSQL by ADBC, and Delta tables by deltalake.

Each stores the number of the last batch of a query together with its rows. SQLite and PostgreSQL have a table
`moldau_batches` for it; a Delta table has it in its log.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final

from moldau.client.errors import ConfigurationError, MoldauError

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark.upserts import UpsertPlan

BATCHES: Final = "moldau_batches"
STAGED: Final = "moldau_staged"
WAIT_S: Final = 60.0
_CREATE_BATCHES: Final = (
    f"CREATE TABLE IF NOT EXISTS {BATCHES} (query TEXT NOT NULL, target TEXT NOT NULL, batch BIGINT NOT NULL, "
    "PRIMARY KEY (query, target))"
)


class UpsertFailed(MoldauError):
    """The target refused a batch."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def table_name(name: str) -> str:
    """The quoted name of a table, perhaps with its schema in front."""
    return ".".join(quoted(part) for part in name.split("."))


def column_type(kind: pa.DataType) -> str:
    """The type of a column of a new table. SQLite accepts PostgreSQL's names."""
    import pyarrow as pa

    tests: tuple[tuple[Any, str], ...] = (
        (pa.types.is_boolean, "BOOLEAN"),
        (pa.types.is_int16, "SMALLINT"),
        (pa.types.is_int32, "INTEGER"),
        (pa.types.is_integer, "BIGINT"),
        (pa.types.is_float32, "REAL"),
        (pa.types.is_floating, "DOUBLE PRECISION"),
        (pa.types.is_date, "DATE"),
        (pa.types.is_binary, "BYTEA"),
        (pa.types.is_string, "TEXT"),
        (pa.types.is_large_string, "TEXT"),
    )
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP WITH TIME ZONE" if kind.tz else "TIMESTAMP"
    for test, name in tests:
        if test(kind):
            return name
    raise ConfigurationError(f"a column of type {kind} cannot be stored; cast it, for example to STRING by to_json")


def create_table(plan: UpsertPlan, rows: pa.Table) -> str:
    fields = [field for field in rows.schema if field.name != plan.deleted]
    columns = ", ".join(f"{quoted(field.name)} {column_type(field.type)}" for field in fields)
    key = ", ".join(map(quoted, plan.key))
    return f"CREATE TABLE IF NOT EXISTS {table_name(plan.table)} ({columns}, PRIMARY KEY ({key}))"


def insert(plan: UpsertPlan, columns: list[str], source: str) -> str:
    names = ", ".join(map(quoted, columns))
    changed = ", ".join(f"{quoted(one)} = excluded.{quoted(one)}" for one in columns if one not in plan.key)
    action = f"UPDATE SET {changed}" if changed else "NOTHING"
    key = ", ".join(map(quoted, plan.key))
    return f"INSERT INTO {table_name(plan.table)} ({names}) {source} ON CONFLICT ({key}) DO {action}"


def split(plan: UpsertPlan, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows to put, without the column that marks deleted ones, and the rows to delete."""
    import pyarrow.compute as pc

    if plan.deleted is None:
        return rows, rows.slice(0, 0)
    gone = pc.fill_null(rows.column(plan.deleted), False)
    return rows.filter(pc.invert(gone)).drop_columns([plan.deleted]), rows.filter(gone)


class SqliteTarget:
    """A SQLite file. Times are stored as ISO texts in UTC."""

    def __init__(self, path: str) -> None:
        self._path = path

    def apply(self, plan: UpsertPlan, query: str, batch: int, rows: pa.Table) -> bool:
        connection = sqlite3.connect(self._path, timeout=WAIT_S, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            changed = self._change(connection, plan, query, batch, rows)
            connection.execute("COMMIT")
            return changed
        except sqlite3.Error as error:
            raise UpsertFailed(f"batch {batch} was not written to table {plan.table}: {error}") from error
        finally:
            connection.close()

    def _change(self, connection: sqlite3.Connection, plan: UpsertPlan, query: str, batch: int, rows: pa.Table) -> bool:
        connection.execute(_CREATE_BATCHES)
        asked = (query, plan.table)
        found = connection.execute(f"SELECT batch FROM {BATCHES} WHERE query = ? AND target = ?", asked).fetchone()
        if found is not None and found[0] >= batch:
            return False
        connection.execute(create_table(plan, rows))
        puts, removals = split(plan, rows)
        where = " AND ".join(f"{quoted(one)} = ?" for one in plan.key)
        keys = removals.select(list(plan.key)).to_pylist()
        connection.executemany(
            f"DELETE FROM {table_name(plan.table)} WHERE {where}",
            [tuple(_sqlite_value(row[one]) for one in plan.key) for row in keys],
        )
        source = f"VALUES ({', '.join('?' * puts.num_columns)})"
        connection.executemany(
            insert(plan, puts.column_names, source),
            [tuple(map(_sqlite_value, row.values())) for row in puts.to_pylist()],
        )
        connection.execute(f"INSERT OR REPLACE INTO {BATCHES} VALUES (?, ?, ?)", (*asked, batch))
        return True


def _sqlite_value(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


class PostgresTarget:
    """A PostgreSQL database. Rows go to a temporary table by COPY, and from there into the table."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __repr__(self) -> str:
        return "PostgresTarget(…)"

    def apply(self, plan: UpsertPlan, query: str, batch: int, rows: pa.Table) -> bool:
        dbapi = _postgresql()
        connection = dbapi.connect(self._address)
        try:
            with connection.cursor() as cursor:
                changed = self._change(cursor, plan, query, batch, rows)
            connection.commit()
            return changed
        except dbapi.Error as error:
            raise UpsertFailed(f"batch {batch} was not written to table {plan.table}: {error}") from error
        finally:
            connection.close()

    def _change(self, cursor: Any, plan: UpsertPlan, query: str, batch: int, rows: pa.Table) -> bool:
        cursor.execute(_CREATE_BATCHES)
        asked = (query, plan.table)
        # The row is locked until the end of the transaction: of two drivers with one batch, the second one sees it.
        cursor.execute(f"INSERT INTO {BATCHES} VALUES ($1, $2, -1) ON CONFLICT DO NOTHING", asked)
        cursor.execute(f"SELECT batch FROM {BATCHES} WHERE query = $1 AND target = $2 FOR UPDATE", asked)
        if cursor.fetchone()[0] >= batch:
            return False
        cursor.execute(create_table(plan, rows))
        puts, removals = split(plan, rows)
        if removals.num_rows:
            gone = f"{STAGED}_gone"
            cursor.adbc_ingest(gone, removals.select(list(plan.key)), mode="create", temporary=True)
            match = " AND ".join(f"t.{quoted(one)} = s.{quoted(one)}" for one in plan.key)
            cursor.execute(f"DELETE FROM {table_name(plan.table)} t USING {gone} s WHERE {match}")
        if puts.num_rows:
            cursor.adbc_ingest(STAGED, puts, mode="create", temporary=True)
            names = ", ".join(map(quoted, puts.column_names))
            cursor.execute(insert(plan, puts.column_names, f"SELECT {names} FROM {STAGED} WHERE true"))
        cursor.execute(f"UPDATE {BATCHES} SET batch = $1 WHERE query = $2 AND target = $3", (batch, *asked))
        return True


def _postgresql() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise ImportError(
            "upserts into PostgreSQL need its driver: pip install 'moldau[connect-databases]'",
            name="adbc_driver_postgresql",
        ) from error
    return dbapi


class DeltaTarget:
    """A Delta table in a directory."""

    def __init__(self, path: str) -> None:
        self._path = path

    def apply(self, plan: UpsertPlan, query: str, batch: int, rows: pa.Table) -> bool:
        delta = _deltalake()
        properties = delta.CommitProperties(app_transactions=[delta.Transaction(query, batch)])
        puts, removals = split(plan, rows)
        if not delta.DeltaTable.is_deltatable(self._path):
            delta.write_deltalake(self._path, puts, mode="error", commit_properties=properties)
            return True
        table = delta.DeltaTable(self._path)
        known = table.transaction_version(query)
        if known is not None and known >= batch:
            return False
        match = " AND ".join(f"t.{quoted(one)} = s.{quoted(one)}" for one in plan.key)
        if plan.deleted is None:
            merge = table.merge(puts, match, source_alias="s", target_alias="t", commit_properties=properties)
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
            return True
        marked = f"coalesce(s.{quoted(plan.deleted)}, false)"
        columns = {quoted(one): f"s.{quoted(one)}" for one in puts.column_names}
        merge = table.merge(rows, match, source_alias="s", target_alias="t", commit_properties=properties)
        merge = merge.when_matched_delete(predicate=marked)
        merge = merge.when_matched_update(updates=columns, predicate=f"NOT {marked}")
        merge.when_not_matched_insert(updates=columns, predicate=f"NOT {marked}").execute()
        del removals
        return True


def _deltalake() -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise ImportError(
            "upserts into Delta tables need deltalake: pip install 'moldau[connect-lake]'", name="deltalake"
        ) from error
    return deltalake
