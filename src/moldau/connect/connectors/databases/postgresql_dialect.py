"""PostgreSQL by ADBC: rows are read as Arrow columns by COPY, and written by COPY into a staging table.

Types without a type in Connect (JSON, UUID, enums, network addresses, intervals, geometry …) are read as their texts
and written from them. Arrays of numbers, texts and booleans are arrays; arrays of other types are arrays of texts.
NUMERIC without a precision may have any number of digits after the point: it is a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau.connect.connectors.databases.dialect import (
    ROWS_PER_CHUNK,
    Column,
    DatabaseSession,
    Dialect,
    InsertMode,
    NumericMapping,
    ReadOptions,
    TableName,
    WritePlan,
    date_schema,
    name_parts,
    numeric_schema,
    primitive,
    time_schema,
    time_text,
    timestamp_schema,
)
from moldau.connect.connectors.databases.errors import (
    MISSING_RIGHT_HINT,
    MISSING_TABLE_HINT,
    conflict,
    login_refused,
    refused,
    refused_row,
    unreachable,
)
from moldau.connect.connectors.databases.jdbc_url import DatabaseAddress
from moldau.connect.connectors.databases.value_columns import fitted, record_batch
from moldau.connect.schemas import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType

_SIMPLE: Final[Mapping[str, SchemaType]] = {
    "int2": SchemaType.INT16,
    "int4": SchemaType.INT32,
    "int8": SchemaType.INT64,
    "float4": SchemaType.FLOAT32,
    "float8": SchemaType.FLOAT64,
    "bool": SchemaType.BOOLEAN,
    "text": SchemaType.STRING,
    "varchar": SchemaType.STRING,
    "bytea": SchemaType.BYTES,
}

_TEXTS: Final = ("text", "character", "bit")
_LOGIN_REFUSED: Final = (
    "authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "not permitted to log in",
)
_FINAL_AT_LOGIN: Final = ("does not exist", "permission denied for database")

_COLUMNS_SQL: Final = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), b.typname, coalesce(e.typname, ''), a.atttypmod,
       a.attnotnull, a.atthasdef OR a.attidentity <> '' , coalesce(i.indisprimary, false),
       a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false)
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_type e ON b.typcategory = 'A' AND e.oid = b.typelem
LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey)
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass({name}) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


def column_schema(type_name: str, element: str, modifier: int, optional: bool, options: ReadOptions) -> Schema:
    """The schema of a column of a PostgreSQL type. Everything that is not listed is a text."""
    if element:
        kind = _SIMPLE.get(element, SchemaType.STRING)
        return Schema(SchemaType.ARRAY, optional, value_schema=primitive(kind, True))
    if type_name == "numeric" and modifier >= 0:
        precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
        return numeric_schema(precision, max(scale, 0), optional, options.numeric_mapping)
    if type_name == "numeric" and options.numeric_mapping in (
        NumericMapping.BEST_FIT,
        NumericMapping.BEST_FIT_EAGER_DOUBLE,
    ):
        return primitive(SchemaType.FLOAT64, optional)
    if type_name == "date":
        return date_schema(optional)
    if type_name == "time":
        return time_schema(optional)
    if type_name in ("timestamp", "timestamptz"):
        return timestamp_schema(optional)
    if type_name == "oid":
        return primitive(SchemaType.INT64, optional)
    return primitive(_SIMPLE.get(type_name, SchemaType.STRING), optional)


def select_expression(quoted: str, type_name: str, element: str, schema: Schema) -> str:
    """The expression that reads a column as something that ADBC gives with a plain Arrow type."""
    if element:
        return quoted if element in _SIMPLE else f"{quoted}::text[]"
    if schema.name == DECIMAL or (schema.name is None and schema.type is SchemaType.STRING):
        return quoted if type_name in ("text", "varchar") else f"{quoted}::text"
    if type_name == "numeric":
        return f"{quoted}::" + {SchemaType.FLOAT64: "float8", SchemaType.INT64: "int8"}.get(schema.type, "int4")
    return f"{quoted}::int8" if type_name == "oid" else quoted


class PostgreSQLSession(DatabaseSession):
    """A connection to a PostgreSQL server."""

    def __init__(self, dialect: PostgreSQLDialect, connection: Any) -> None:
        super().__init__(dialect)
        self._connection = connection
        self._stages: dict[tuple[Any, ...], str] = {}
        self._stages_made = 0

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import adbc_driver_manager

        try:
            yield
        except adbc_driver_manager.Error as error:
            raise translated(self.dialect, error) from None

    def execute(self, sql: str) -> None:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def tables(self, kinds: Sequence[str]) -> list[TableName]:
        letters = {"TABLE": "'r', 'p'", "VIEW": "'v', 'm'"}
        wanted = ", ".join(letters[kind] for kind in kinds if kind in letters)
        found = self.rows(
            "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE c.relkind IN ({wanted}) AND NOT c.relispartition AND n.nspname NOT LIKE 'pg\\_%' "
            "AND n.nspname <> 'information_schema' ORDER BY 1, 2"
        )
        return [TableName(name, schema) for schema, name in found]

    def columns(self, table: TableName, options: ReadOptions) -> list[Column]:
        return self._columns_of(self.dialect.quoted(table), options)

    def _columns_of(self, quoted: str, options: ReadOptions) -> list[Column]:
        return [
            self._column(row, options) for row in self.rows(_COLUMNS_SQL.replace("{name}", self.dialect.text(quoted)))
        ]

    def _column(self, row: tuple[Any, ...], options: ReadOptions) -> Column:
        name, declared, type_name, element, modifier, not_null, has_default, key, auto = row
        schema = column_schema(type_name, element, modifier, not not_null, options)
        select = select_expression(self.dialect.quote(name), type_name, element, schema)
        return Column(name, declared, schema, select, key=key, has_default=has_default, auto_increment=auto)

    def query_columns(self, query: str, options: ReadOptions) -> list[Column]:
        """A temporary view shows the types of a query with their precision; it is rolled back."""
        self.begin()
        try:
            self.execute(f"CREATE TEMP VIEW moldau_query AS {query}")
            return self._columns_of("pg_temp.moldau_query", options)
        finally:
            self.rollback()

    def read(self, sql: str, columns: Sequence[Column], options: ReadOptions) -> Iterator[pa.RecordBatch]:
        with self._connection.cursor() as cursor:
            with self._translated():
                cursor.execute(sql)
                reader = cursor.fetch_record_batch()
            while True:
                try:
                    with self._translated():
                        batch = reader.read_next_batch()
                except StopIteration:
                    return
                except pa.ArrowException as error:
                    # The reader passes errors of the server on as Arrow's.
                    raise unreachable(self.dialect.address, str(error)) from None
                arrays = [fitted(one, column, options.zone) for one, column in zip(batch.columns, columns, strict=True)]
                whole = record_batch(arrays, columns)
                for first in range(0, whole.num_rows, ROWS_PER_CHUNK):
                    yield whole.slice(first, ROWS_PER_CHUNK)

    def begin(self) -> None:
        with self._translated():
            self._connection.adbc_connection.set_autocommit(False)

    def commit(self) -> None:
        with self._translated():
            self._connection.adbc_connection.commit()
            self._connection.adbc_connection.set_autocommit(True)

    def rollback(self) -> None:
        import adbc_driver_manager

        self._stages.clear()
        try:
            self._connection.adbc_connection.rollback()
            self._connection.adbc_connection.set_autocommit(True)
        except adbc_driver_manager.Error:
            pass

    def write(self, plan: WritePlan, rows: pa.Table) -> None:
        quote = self.dialect.quote
        stage = self._staged(rows.select(plan.columns))
        table = self.dialect.quoted(plan.table)
        cast = self._casts(plan)
        if plan.mode is InsertMode.UPDATE:
            changes = ", ".join(f"{quote(name)} = {cast[name]}" for name in plan.others)
            matches = " AND ".join(f"t.{quote(name)} = {cast[name]}" for name in plan.keys)
            self.execute(f"UPDATE {table} AS t SET {changes} FROM {stage} AS s WHERE {matches}")
            return
        names, values = ", ".join(map(quote, plan.columns)), ", ".join(cast.values())
        sql = f"INSERT INTO {table} ({names}) SELECT {values} FROM {stage} AS s"
        if plan.mode is InsertMode.UPSERT:
            changes = ", ".join(f"{quote(name)} = EXCLUDED.{quote(name)}" for name in plan.others)
            action = f"UPDATE SET {changes}" if changes else "NOTHING"
            sql += f" ON CONFLICT ({', '.join(map(quote, plan.keys))}) DO {action}"
        self.execute(sql)

    def delete(self, plan: WritePlan, keys: pa.Table) -> None:
        quote = self.dialect.quote
        stage = self._staged(keys.select(plan.keys))
        cast = self._casts(plan)
        matches = " AND ".join(f"t.{quote(name)} = {cast[name]}" for name in plan.keys)
        self.execute(f"DELETE FROM {self.dialect.quoted(plan.table)} AS t USING {stage} AS s WHERE {matches}")

    def _casts(self, plan: WritePlan) -> dict[str, str]:
        """The expressions that turn staged values into those of the table's columns.

        A cast to a text type would cut long texts silently; an assignment refuses them, and needs no cast.
        """
        found = {}
        for name, kind in zip(plan.columns, plan.types, strict=True):
            expression = f"s.{self.dialect.quote(name)}"
            found[name] = expression if kind.startswith(_TEXTS) else f"{expression}::{kind}"
        return found

    def _staged(self, rows: pa.Table) -> str:
        """A temporary table with exactly these rows; tables are reused within a connection."""
        rows = pa.table([_stageable(column) for column in rows.columns], names=rows.column_names)
        shape = tuple((field.name, str(field.type)) for field in rows.schema)
        name = self._stages.get(shape)
        if name is None:
            # Never a name again: after a rollback it is unknown which tables were created before the transaction.
            self._stages_made += 1
            name = f"moldau_stage_{self._stages_made}"
            mode = "create"
        else:
            mode = "append"
            self.execute(f"DELETE FROM {name}")
        with self._translated(), self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, rows, mode=mode, temporary=True)
        self._stages[shape] = name
        return name

    def close(self) -> None:
        import adbc_driver_manager

        try:
            self._connection.close()
        except adbc_driver_manager.Error:
            pass


def _stageable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of a type that ADBC writes; times go as texts."""
    if pa.types.is_time(column.type):
        return column.cast(pa.string())
    if pa.types.is_int8(column.type):
        return column.cast(pa.int16())
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    return column


def translated(dialect: Dialect, error: Any) -> Exception:
    """The error of a statement as one that says what to do."""
    state = getattr(error, "sqlstate", None) or ""
    text = str(error)
    address = dialect.address
    if state.startswith("28"):
        return login_refused(address, text)
    if state[:2] in ("08", "53") or state in ("57P01", "57P02", "57P03"):
        return unreachable(address, text)
    if state in ("40001", "40P01", "55P03"):
        return conflict(address, text)
    if not state.strip("\0") and ("connection" in text or "terminat" in text):
        return unreachable(address, text)
    if state[:2] in ("22", "23"):
        return refused_row(address, text)
    hints = {"42P01": MISSING_TABLE_HINT, "42501": MISSING_RIGHT_HINT}
    return refused(address, text, hints.get(state, ""))


class PostgreSQLDialect(Dialect):
    """PostgreSQL at an address."""

    name: ClassVar[str] = "PostgreSQL"

    def __init__(self, address: DatabaseAddress) -> None:
        super().__init__(address)
        # Texts of dates and numbers must not depend on settings of the server or of the user.
        self.settings = {"datestyle": "ISO,YMD", "extra_float_digits": "1", "timezone": "UTC"}

    def open(self) -> DatabaseSession:
        try:
            import adbc_driver_manager
            import adbc_driver_postgresql.dbapi as driver
        except ImportError:
            raise ImportError("PostgreSQL needs a driver: pip install 'moldau[connect-databases]'") from None
        try:
            connection = driver.connect(self._conninfo(), autocommit=True)
        except adbc_driver_manager.Error as error:
            text = str(error)
            if any(part in text for part in _LOGIN_REFUSED):
                raise login_refused(self.address, text) from None
            if any(part in text for part in _FINAL_AT_LOGIN):
                raise refused(self.address, text, "Check connection.url and connection.user") from None
            raise unreachable(self.address, text) from None
        return PostgreSQLSession(self, connection)

    def _conninfo(self) -> str:
        address = self.address
        parts = {
            "host": ",".join(host for host, _ in address.hosts),
            "port": ",".join(str(port) for _, port in address.hosts),
            "dbname": address.database,
            "connect_timeout": "10",
            "application_name": "moldau connect",
            **address.parameters,
        }
        if address.user is not None:
            parts["user"] = address.user
        if address.password is not None:
            parts["password"] = address.password
        if address.schema is not None:
            self.settings["search_path"] = address.schema
        own = " ".join(f"-c {name}={value}" for name, value in self.settings.items())
        parts["options"] = f"{own} {parts.get('options', '')}".strip()
        return " ".join(f"{name}='{_escaped(value)}'" for name, value in parts.items())

    def table_name(self, text: str) -> TableName:
        parts = name_parts(text)
        if len(parts) > 1:
            return TableName(parts[-1], parts[-2])
        return TableName(parts[0], self.address.schema or "public")

    def declared_type(self, schema: Schema, *, key: bool) -> str:
        logical = {DECIMAL: "DECIMAL", DATE: "DATE", TIME: "TIME", TIMESTAMP: "TIMESTAMP"}.get(schema.name or "")
        if logical:
            return logical
        if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
            return self.declared_type(schema.value_schema, key=False) + "[]"
        found = {
            SchemaType.INT8: "SMALLINT",
            SchemaType.INT16: "SMALLINT",
            SchemaType.INT32: "INT",
            SchemaType.INT64: "BIGINT",
            SchemaType.FLOAT32: "REAL",
            SchemaType.FLOAT64: "DOUBLE PRECISION",
            SchemaType.BOOLEAN: "BOOLEAN",
            SchemaType.STRING: "TEXT",
            SchemaType.BYTES: "BYTEA",
        }.get(schema.type)
        if found is None:
            raise self.unwritable(schema)
        return found

    def current_time(self, session: DatabaseSession) -> int:
        ((now,),) = session.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8")
        return int(now) * 1000

    def moment(self, expression: str) -> str:
        return f"(extract(epoch FROM {expression}) * 1000000)::int8"

    def has_zone(self, column: Column) -> bool:
        return "with time zone" in column.declared

    def time_literal(self, nanoseconds: int, column: Column, zone: str) -> str:
        if self.has_zone(column):
            return f"'{time_text(nanoseconds, 'UTC')}+00'::timestamptz"
        return f"'{time_text(nanoseconds, zone)}'::timestamp"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
