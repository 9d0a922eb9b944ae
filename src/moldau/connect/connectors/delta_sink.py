"""Sink of Delta tables, exactly once, without Spark's jars: `DeltaSink`.

The mark of a commit (`lake_sink.py`) is an application transaction of Delta: the table stores the number, and refuses
one of two commits at once that have the same application.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import pyarrow as pa

from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType
from moldau.connect.connectors.file_store import FileStore
from moldau.connect.connectors.lake_sink import (
    MAX_TRIES,
    LakeSink,
    TableMark,
    file_schema,
    json_options,
    lake_settings,
    merged_schema,
    new_columns,
)
from moldau.connect.connectors.sink_commit_log import StagedFile
from moldau.connect.errors import DataError


class DeltaSink(LakeSink):
    """Delta tables, one per topic by default, in directories below `path`."""

    partition_by: ClassVar[str] = "partition.by"
    config_def: ClassVar[ConfigDef] = lake_settings(
        "${topic}",
        [
            ConfigKey("partition.by", ConfigType.LIST, "Columns of the partitions of tables that are created.", ()),
            ConfigKey(
                "delta.storage.options",
                ConfigType.PASSWORD,
                "Options of the package deltalake for object stores, as JSON: AWS_ACCESS_KEY_ID …",
                None,
            ),
        ],
    )

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        problems = super().check(config)
        try:
            json_options(config["delta.storage.options"])
        except ValueError:
            problems["delta.storage.options"] = ["It must be a JSON object"]
        try:
            import deltalake  # noqa: F401
        except ImportError:
            problems["path"] = ["Delta tables need: pip install 'moldau[connect-lake]'"]
        if any("." in field for field in config["partition.by"]):
            problems["partition.by"] = ["Fields inside of structs cannot be columns of partitions"]
        return problems

    def check_schema(self, table: str, schema: pa.Schema) -> None:
        opened = self._open(table)
        if opened is not None:
            self._missing(table, opened, schema)

    def apply(self, table: str, mark: TableMark, files: Sequence[StagedFile]) -> None:
        from deltalake.exceptions import CommitFailedError

        for _ in range(MAX_TRIES):
            try:
                if self._added(table, mark, files):
                    return
            except CommitFailedError:
                continue  # Another writer was faster, perhaps with this very commit: look again.
        raise MoldauError(f"Delta table {table} was changed by others {MAX_TRIES} times while a commit was tried")

    def _added(self, table: str, mark: TableMark, files: Sequence[StagedFile]) -> bool:
        from deltalake import DeltaTable, Schema
        from deltalake.transaction import CommitProperties, Transaction

        store = self._store()
        opened = self._open(table)
        if opened is not None and (opened.transaction_version(mark.log) or -1) >= mark.number:
            return True
        schema = merged_schema(table, [file_schema(store, one) for one in files])
        if opened is None:
            columns = list(self.config["partition.by"])
            DeltaTable.create(self._uri(table), schema, "ignore", columns, storage_options=self._options() or None)
            return False
        if missing := self._missing(table, opened, schema):
            opened.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
            return False
        columns_of_partitions = opened.metadata().partition_columns
        opened.create_write_transaction(
            [_add_action(store, one, columns_of_partitions) for one in files],
            "append",
            opened.schema(),
            columns_of_partitions,
            commit_properties=CommitProperties(app_transactions=[Transaction(mark.log, mark.number)]),
        )
        return True

    def _missing(self, table: str, opened: Any, schema: pa.Schema) -> list[pa.Field]:
        existing = pa.schema(opened.schema().to_arrow())
        if sorted(opened.metadata().partition_columns) != sorted(self.config["partition.by"]):
            raise DataError(
                f"Delta table {table} is partitioned by {opened.metadata().partition_columns or 'nothing'}: set "
                "partition.by to the same columns"
            )
        return new_columns(table, existing, schema)

    def _open(self, table: str) -> Any:
        """The table; None: there is none yet."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self._uri(table), storage_options=self._options() or None)
        except TableNotFoundError:
            return None

    def _uri(self, table: str) -> str:
        return f"{self.plan.url.rstrip('/')}/{table}"

    def _options(self) -> dict[str, str]:
        options = json_options(self.config["delta.storage.options"])
        return {name: str(value) for name, value in options.items()}


def _add_action(store: FileStore, one: StagedFile, columns: Sequence[str]) -> Any:
    from deltalake.transaction import AddAction

    stats = json.dumps({"numRecords": one.size})
    assert one.position is not None
    path = one.staged.partition("/")[2]
    return AddAction(path, one.position, _partition_values(store, one, columns), int(time.time() * 1000), True, stats)


def _partition_values(store: FileStore, one: StagedFile, columns: Sequence[str]) -> dict[str, str | None]:
    """The values of the partition's columns in Delta's notation: all rows of a file have the same ones."""
    from pyarrow import parquet

    if not columns:
        return {}
    with store.open_input(one.staged) as file:
        first = next(parquet.ParquetFile(file).iter_batches(1, columns=list(columns)))
    return {name: _notation(first.column(name)[0].as_py()) for name in columns}


def _notation(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return value.decode() if isinstance(value, bytes) else str(value)
