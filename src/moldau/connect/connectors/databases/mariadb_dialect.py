"""MariaDB and MySQL by PyMySQL: rows come through a cursor on the server and become Arrow columns in chunks.

MySQL itself is untested: Debian has no server of it. TINYINT(1) and BIT(1) are INT8, as with Confluent's connector.
JSON, UUID, ENUM, SET and network addresses are texts; YEAR is INT32. TIMESTAMP is a point in time; DATETIME is one in
`db.timezone`. Zero dates (0000-00-00) are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau.connect.connectors.databases.dialect import (
    ROWS_PER_CHUNK,
    Column,
    DatabaseSession,
    Dialect,
    InsertMode,
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
from moldau.connect.connectors.databases.sqlite_dialect import plain_values
from moldau.connect.connectors.databases.value_columns import columns_of_rows
from moldau.connect.schemas import DATE, DECIMAL, SCALE, TIME, TIMESTAMP, Schema, SchemaType

CONNECT_TIMEOUT_S: Final = 10
SOCKET_TIMEOUT_S: Final = 300
"""How long a statement may stay without an answer."""

_LOGIN_REFUSED: Final = (1044, 1045, 1698, 1820, 1862, 4151)
_UNREACHABLE: Final = (1040, 1053, 1077, 1129, 1203, 1927, 2002, 2003, 2005, 2006, 2013)
_CONFLICT: Final = (1205, 1213)
_REFUSED_ROW: Final = (1048, 1062, 1264, 1265, 1292, 1364, 1366, 1367, 1406, 1411, 1451, 1452, 1690, 4025)
_HINTS: Final = {1146: MISSING_TABLE_HINT, 1142: MISSING_RIGHT_HINT, 1143: MISSING_RIGHT_HINT, 1227: MISSING_RIGHT_HINT}

_BINARY_CHARSET: Final = 63
_INTEGERS: Final = {
    1: (SchemaType.INT8, SchemaType.INT16),
    2: (SchemaType.INT16, SchemaType.INT32),
    9: (SchemaType.INT32, SchemaType.INT64),
    3: (SchemaType.INT32, SchemaType.INT64),
}
"""By the type codes of the protocol: the schema of a signed and of an unsigned column."""
_NAMES: Final = {
    0: "decimal", 1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp", 8: "bigint",
    9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year", 16: "bit", 245: "json", 246: "decimal",
}  # fmt: skip


def field_schema(field: Any, optional: bool, options: ReadOptions) -> Schema:
    """The schema of a column from its description in the protocol."""
    code, unsigned = field.type_code, bool(field.flags & 32)
    if code in _INTEGERS:
        return primitive(_INTEGERS[code][unsigned], optional)
    if code == 8:
        return (
            numeric_schema(20, 0, optional, options.numeric_mapping)
            if unsigned
            else primitive(SchemaType.INT64, optional)
        )
    if code in (0, 246):
        precision = field.length - (field.scale > 0) - (not unsigned)
        return numeric_schema(precision, field.scale, optional, options.numeric_mapping)
    fixed = {4: SchemaType.FLOAT32, 5: SchemaType.FLOAT64, 13: SchemaType.INT32}
    if code in fixed:
        return primitive(fixed[code], optional)
    if code == 16:
        return primitive(SchemaType.INT8 if field.length == 1 else SchemaType.BYTES, optional)
    logical = {7: timestamp_schema, 12: timestamp_schema, 10: date_schema, 11: time_schema}
    if code in logical:
        return logical[code](optional)
    binary = field.charsetnr == _BINARY_CHARSET and code != 245
    return primitive(SchemaType.BYTES if binary else SchemaType.STRING, optional)


class MariaDBSession(DatabaseSession):
    """A connection to a MariaDB or MySQL server."""

    def __init__(self, dialect: MariaDBDialect, connection: Any) -> None:
        super().__init__(dialect)
        self._connection = connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import pymysql

        try:
            yield
        except pymysql.err.Error as error:
            raise translated(self.dialect, error) from None

    def execute(self, sql: str) -> None:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def tables(self, kinds: Sequence[str]) -> list[TableName]:
        names = {"TABLE": "'BASE TABLE'", "VIEW": "'VIEW'"}
        wanted = ", ".join(names[kind] for kind in kinds if kind in names)
        found = self.rows(
            "SELECT table_schema, table_name FROM information_schema.tables "
            f"WHERE table_schema = DATABASE() AND table_type IN ({wanted}) ORDER BY table_name"
        )
        return [TableName(name, schema) for schema, name in found]

    def columns(self, table: TableName, options: ReadOptions) -> list[Column]:
        details = self.rows(
            "SELECT column_name, column_type, is_nullable, column_default, extra, column_key "
            "FROM information_schema.columns "
            f"WHERE table_schema = {self.dialect.text(table.schema or self.dialect.address.database)} "
            f"AND table_name = {self.dialect.text(table.name)} ORDER BY ordinal_position"
        )
        if not details:
            return []
        known = {row[0]: row for row in details}
        fields = self._fields(f"SELECT * FROM {self.dialect.quoted(table)} LIMIT 0")
        return [self._column(field, known.get(field.name), options) for field in fields]

    def query_columns(self, query: str, options: ReadOptions) -> list[Column]:
        fields = self._fields(f"SELECT * FROM ({query}) AS moldau_query LIMIT 0")
        return [self._column(field, None, options) for field in fields]

    def _fields(self, sql: str) -> list[Any]:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor._result.fields)

    def _column(self, field: Any, detail: tuple[Any, ...] | None, options: ReadOptions) -> Column:
        quoted = self.dialect.quote(field.name)
        optional = not field.flags & 1
        schema = field_schema(field, optional, options)
        is_bit = field.type_code == 16 and field.length == 1
        if detail is None:
            declared = _NAMES.get(field.type_code, "text")
            return Column(field.name, declared, schema, f"{quoted} + 0" if is_bit else quoted)
        _, declared, _, default, extra, key = detail
        auto = "auto_increment" in extra
        has_default = auto or "GENERATED" in extra.upper() or (default is not None and default != "NULL")
        select = f"{quoted} + 0" if is_bit else quoted
        return Column(
            field.name, declared, schema, select, key=key == "PRI", has_default=has_default,
            auto_increment=auto,
        )  # fmt: skip

    def read(self, sql: str, columns: Sequence[Column], options: ReadOptions) -> Iterator[pa.RecordBatch]:
        from pymysql.cursors import SSCursor

        cursor = SSCursor(self._connection)
        try:
            with self._translated():
                cursor.execute(sql)
            while True:
                with self._translated():
                    rows = cursor.fetchmany(ROWS_PER_CHUNK)
                if not rows:
                    return
                yield columns_of_rows(rows, columns, options.zone)
        finally:
            # The rest of the result would have to be read before another statement: the connection is of no more use.
            with self._translated():
                self._connection.close() if cursor._result and cursor._result.unbuffered_active else cursor.close()

    def begin(self) -> None:
        with self._translated():
            self._connection.begin()

    def commit(self) -> None:
        with self._translated():
            self._connection.commit()

    def rollback(self) -> None:
        import pymysql

        try:
            self._connection.rollback()
        except (pymysql.err.Error, OSError):
            pass

    def write(self, plan: WritePlan, rows: pa.Table) -> None:
        quote = self.dialect.quote
        table = self.dialect.quoted(plan.table)
        names = plan.columns
        if plan.mode is InsertMode.UPDATE:
            names = (*plan.others, *plan.keys)
            changes = _and_marks(", ", map(quote, plan.others))
            sql = f"UPDATE {_plain(table)} SET {changes} WHERE {_and_marks(' AND ', map(quote, plan.keys))}"
        else:
            columns, marks = ", ".join(map(quote, names)), ", ".join(["%s"] * len(names))
            sql = f"INSERT INTO {_plain(table)} ({_plain(columns)}) VALUES ({marks})"
        if plan.mode is InsertMode.UPSERT:
            # Without other columns, the key is set to itself: that keeps errors that INSERT IGNORE would hide.
            changes = ", ".join(f"{quote(name)} = VALUES({quote(name)})" for name in plan.others or plan.keys)
            sql += f" ON DUPLICATE KEY UPDATE {_plain(changes)}"
        self._many(sql, plan, rows.select(names))

    def delete(self, plan: WritePlan, keys: pa.Table) -> None:
        matches = _and_marks(" AND ", map(self.dialect.quote, plan.keys))
        sql = f"DELETE FROM {_plain(self.dialect.quoted(plan.table))} WHERE {matches}"
        self._many(sql, plan, keys.select(plan.keys))

    def _many(self, sql: str, plan: WritePlan, rows: pa.Table) -> None:
        kinds = dict(zip(plan.columns, plan.types, strict=True))
        values = [
            plain_values(_for_column(column, kinds.get(name, "")))
            for name, column in zip(rows.column_names, rows.columns, strict=True)
        ]
        with self._translated(), self._connection.cursor() as cursor:
            cursor.executemany(sql, list(zip(*values, strict=True)))

    def close(self) -> None:
        import pymysql

        try:
            self._connection.close()
        except (pymysql.err.Error, OSError):
            pass


def _plain(sql: str) -> str:
    """A part of a statement without values: PyMySQL would take a percent sign in a name for a value."""
    return sql.replace("%", "%%")


def _and_marks(between: str, names: Iterator[str]) -> str:
    return between.join(f"{_plain(name)} = %s" for name in names)


def _for_column(column: pa.ChunkedArray, declared: str) -> pa.ChunkedArray:
    """TIMESTAMP columns take the time of the session, which is UTC; DATETIME columns that of the rows' time zone."""
    if pa.types.is_timestamp(column.type) and declared.lower().startswith("timestamp"):
        return column.cast(pa.timestamp(column.type.unit, tz="UTC"))
    return column


def translated(dialect: Dialect, error: Exception) -> Exception:
    """The error of a statement as one that says what to do."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = " ".join(str(part) for part in error.args)
    if code in _LOGIN_REFUSED:
        return login_refused(dialect.address, text)
    if code in _UNREACHABLE or code == 0:
        return unreachable(dialect.address, text or "the connection was closed")
    if code in _CONFLICT:
        return conflict(dialect.address, text)
    if code in _REFUSED_ROW:
        return refused_row(dialect.address, text)
    return refused(dialect.address, text, _HINTS.get(code, ""))


class MariaDBDialect(Dialect):
    """MariaDB or MySQL at an address."""

    name: ClassVar[str] = "MariaDB"
    quote_mark: ClassVar[str] = "`"
    share_row: ClassVar[str] = "LOCK IN SHARE MODE"

    def open(self) -> DatabaseSession:
        try:
            import pymysql
            from pymysql.converters import encoders
        except ImportError:
            raise ImportError("MariaDB and MySQL need a driver: pip install 'moldau[connect-databases]'") from None
        # Dates, times and decimals stay texts: Arrow parses whole columns of them.
        decoders = dict.fromkeys((1, 2, 3, 8, 9, 13), int) | dict.fromkeys((4, 5), float)
        ((host, port),) = self.address.hosts
        try:
            connection = pymysql.connect(
                host=host,
                port=port,
                user=self.address.user,
                password=self.address.password or "",
                database=self.address.database,
                autocommit=True,
                charset="utf8mb4",
                conv={**encoders, **decoders},
                init_command=(
                    "SET time_zone = '+00:00', sql_mode = "
                    "CONCAT(REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', ''), ',STRICT_TRANS_TABLES')"
                ),
                connect_timeout=_seconds(self.address.parameters.get("connectTimeout"), CONNECT_TIMEOUT_S),
                read_timeout=_seconds(self.address.parameters.get("socketTimeout"), SOCKET_TIMEOUT_S),
                **self._tls(),
            )
        except pymysql.err.Error as error:
            raise translated(self, error) from None
        return MariaDBSession(self, connection)

    def _tls(self) -> dict[str, Any]:
        given = self.address.parameters
        mode = given.get("sslMode", "").lower().replace("-", "_")
        if not mode and "true" in (given.get("useSSL"), given.get("requireSSL")):
            mode = "required"
        if mode in ("", "disable", "disabled"):
            return {"ssl_disabled": True} if mode else {}
        options: dict[str, Any] = {"ssl": {"check_hostname": mode in ("verify_identity", "verify_full")}}
        if mode.startswith("verify") and "serverSslCert" in given:
            options["ssl"]["ca"] = given["serverSslCert"]
        elif not mode.startswith("verify"):
            options["ssl"]["verify_mode"] = "none"
        return options

    def table_name(self, text: str) -> TableName:
        parts = name_parts(text)
        return TableName(parts[-1], parts[-2] if len(parts) > 1 else self.address.database)

    def text(self, value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

    def declared_type(self, schema: Schema, *, key: bool) -> str:
        if schema.name == DECIMAL:
            return f"DECIMAL(65,{schema.parameters.get(SCALE, '0')})"
        logical = {DATE: "DATE", TIME: "TIME(3)", TIMESTAMP: "DATETIME(3)"}.get(schema.name or "")
        if logical:
            return logical
        found = {
            SchemaType.INT8: "TINYINT",
            SchemaType.INT16: "SMALLINT",
            SchemaType.INT32: "INT",
            SchemaType.INT64: "BIGINT",
            SchemaType.FLOAT32: "FLOAT",
            SchemaType.FLOAT64: "DOUBLE",
            SchemaType.BOOLEAN: "TINYINT",
            SchemaType.STRING: "VARCHAR(256)" if key else "LONGTEXT",
            SchemaType.BYTES: "VARBINARY(256)" if key else "LONGBLOB",
        }.get(schema.type)
        if found is None:
            raise self.unwritable(schema)
        return found

    def current_time(self, session: DatabaseSession) -> int:
        ((now,),) = session.rows("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")
        return int(now) * 1000

    def moment(self, expression: str) -> str:
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {expression})"

    def time_literal(self, nanoseconds: int, column: Column, zone: str) -> str:
        return f"'{time_text(nanoseconds, 'UTC' if self.has_zone(column) else zone)}'"

    def has_zone(self, column: Column) -> bool:
        return column.declared.lower().startswith("timestamp")


def _seconds(milliseconds: str | None, otherwise: int) -> int:
    return otherwise if not milliseconds else max(1, int(milliseconds) // 1000)
