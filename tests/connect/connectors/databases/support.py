"""Test databases and batches of records for the tests of database connectors."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from moldau.connect.connector import Connector, SourceOffsets
from moldau.connect.connectors.databases.sink import DatabaseSink
from moldau.connect.connectors.databases.source import DatabaseSource
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import Field, Schema, SchemaType, arrow_type
from tests.support.databases import PASSWORD, USER, DatabaseServer


@dataclass
class TestDatabase:
    """An empty database, seen by the test's own connection."""

    __test__ = False

    kind: str
    url: str
    login: dict[str, str]
    server: Any = None
    name: str = ""
    opened: list[Connector] = field(default_factory=list)

    def close(self) -> None:
        for connector in self.opened:
            connector.close()

    @classmethod
    def on_server(cls, kind: str, server: DatabaseServer, name: str) -> TestDatabase:
        url = f"jdbc:{kind}://127.0.0.1:{server.port}/{name}"
        return cls(kind, url, {"connection.user": USER, "connection.password": PASSWORD}, server, name)

    @classmethod
    def in_file(cls, path: Path) -> TestDatabase:
        sqlite3.connect(path).close()
        path.touch()
        return cls("sqlite", f"jdbc:sqlite:{path}", {}, None, str(path))

    def execute(self, *statements: str) -> None:
        if self.server is not None:
            self.server.execute(self.name, *statements)
            return
        with sqlite3.connect(self.name) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        if self.server is not None:
            return [tuple(row) for row in self.server.rows(self.name, query)]
        with sqlite3.connect(self.name) as connection:
            found = connection.execute(query).fetchall()
        connection.close()
        return found

    def source(self, **settings: Any) -> Any:
        """The source connector with these settings; dots are underscores."""
        found = DatabaseSource(self.source_config(**settings))
        self.opened.append(found)
        return found

    def source_config(self, **settings: Any) -> dict[str, Any]:
        given = {"topic.prefix": "db-", **_named(settings)}
        return self._config(DatabaseSource, given)

    def sink(self, **settings: Any) -> DatabaseSink:
        found = DatabaseSink(self.sink_config(**settings))
        self.opened.append(found)
        return found

    def sink_config(self, **settings: Any) -> dict[str, Any]:
        return self._config(DatabaseSink, _named(settings))

    def _config(self, kind: type[Connector], given: Mapping[str, Any]) -> dict[str, Any]:
        given = {"name": "test", "connection.url": self.url, **self.login, **given}
        return {**given, **kind.config_def.parse(given)}


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", ".").replace("..", "_"): str(value) for name, value in settings.items()}


def values_of(batches: Sequence[ConnectBatch]) -> list[Any]:
    return [value for batch in batches for value in batch.value.array.to_pylist()]


def polled(source: Any, offsets: SourceOffsets) -> tuple[list[Any], SourceOffsets]:
    """The values of one poll, and the offsets after it."""
    found, known = [], {str(partition): (partition, offset) for partition, offset in offsets}
    for one in source.poll(offsets):
        found += one.batch.value.array.to_pylist()
        known.update({str(partition): (partition, offset) for partition, offset in one.offsets})
    return found, SourceOffsets(known.values())


INT32 = Schema(SchemaType.INT32)
TEXT = Schema(SchemaType.STRING, optional=True)


def struct(**fields: Schema) -> Schema:
    return Schema(SchemaType.STRUCT, name="row", fields=tuple(Field(name, one) for name, one in fields.items()))


def column(schema: Schema | None, values: Sequence[Any]) -> ValueColumn:
    if schema is None:
        return ValueColumn.nothing(len(values))
    return ValueColumn(pa.array(list(values), arrow_type(schema)), schema)


def sink_batch(
    value: tuple[Schema | None, Sequence[Any]],
    key: tuple[Schema | None, Sequence[Any]] | None = None,
    *,
    first: int = 0,
    topic: str = "orders",
    partition: int = 0,
) -> ConnectBatch:
    """Records as a sink gets them, with offsets from `first` on."""
    values = column(*value)
    rows = len(values)
    origin = pa.record_batch(
        {
            "topic": pa.repeat(pa.scalar(topic), rows),
            "partition": pa.repeat(pa.scalar(partition, pa.int32()), rows),
            "offset": pa.array(range(first, first + rows), pa.int64()),
        }
    )
    return ConnectBatch(
        pa.repeat(pa.scalar(topic), rows),
        column(*key) if key is not None else ValueColumn.nothing(rows),
        values,
        pa.nulls(rows, pa.int64()),
        pa.nulls(rows, pa.int32()),
        (),
        origin,
    )
