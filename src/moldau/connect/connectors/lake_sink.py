"""Sinks of lake tables: the parts that Delta and Iceberg share.

Tasks write Parquet files into the directory of the table, where no reader sees them before the table refers to them.
`commit` writes a record into the commit log (`sink_commit_log.py`, in `_moldau/CONNECTOR` below `path`), which decides,
and then adds the files to their tables: one commit per table, marked with the number of the record. A table that has
the mark is not changed again, by the process that continues after a crash or by one that slept. So a batch whose
records go to several tables (a transform may choose the topic) is in each of them once.

Tables are created from the records' schema; all columns may be null. A new field becomes a new column. A field with
another type is an error before anything is decided. Files that no table refers to, of attempts that died, are removed
with the table's own maintenance (Delta: VACUUM; Iceberg: remove orphan files).

Not done: upserts and deletes; records are appended.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, between, not_empty, one_of
from moldau.connect.connector import SinkSlice
from moldau.connect.connectors.file_formats import without_null_marks
from moldau.connect.connectors.file_sink import FileSink, OpenFile, TaskFiles
from moldau.connect.connectors.file_sink_settings import FileSinkPlan
from moldau.connect.connectors.file_store import FileStore, UnknownStoreError, open_store
from moldau.connect.connectors.sink_commit_log import CommitLog, StagedFile, TargetCommit
from moldau.connect.connectors.sink_partitioners import ByField, TopicOnly
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch, ValueColumn

MAX_TRIES: Final = 10
"""Tries to change a table while other writers change it."""


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.=/-]")


def lake_settings(table_format: str, own: Sequence[ConfigKey]) -> ConfigDef:
    """The settings of a lake sink."""
    return ConfigDef(
        [
            ConfigKey(
                "path",
                ConfigType.STRING,
                "The directory of the files: local, or a URL such as s3://bucket/prefix.",
                importance=Importance.HIGH,
                validator=not_empty,
            ),
            ConfigKey("storage.options", ConfigType.PASSWORD, "Options of fsspec, as JSON.", None),
            ConfigKey("table.name.format", ConfigType.STRING, "${topic} is the topic.", table_format),
            ConfigKey("flush.size", ConfigType.INT, "Records of a file at most.", 100_000, Importance.HIGH, between(1)),
            ConfigKey("rotate.schedule.interval.ms", ConfigType.LONG, "How long records wait for flush.size.", 60_000),
            ConfigKey(
                "behavior.on.null.values",
                ConfigType.STRING,
                "Records without a value: fail or ignore.",
                "fail",
                validator=one_of("fail", "ignore"),
            ),
            *own,
        ]
    )


def json_options(text: Any) -> dict[str, Any]:
    """Options given as a JSON object. ValueError if they are none."""
    options = json.loads(text) if isinstance(text, str) and text else text or {}
    if not isinstance(options, dict):
        raise ValueError("it must be a JSON object")
    return options


class LakeSink(FileSink, ABC):
    """A sink of tables. Subclasses add files to tables of their format."""

    partition_by: ClassVar[str] = ""
    """The setting with the columns of partitions, if the format has one."""

    @classmethod
    def _plan(cls, config: Mapping[str, Any]) -> FileSinkPlan:
        fields = tuple(config[cls.partition_by]) if cls.partition_by else ()
        return FileSinkPlan(
            config["path"],
            "parquet",
            "snappy",
            ByField(fields) if fields else TopicOnly(),
            config["flush.size"],
            -1,
            config["rotate.schedule.interval.ms"],
            config["behavior.on.null.values"],
            json_options(config["storage.options"]),
        )

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        try:
            options = json_options(config["storage.options"])
        except ValueError:
            return {"storage.options": ["It must be a JSON object"]}
        try:
            open_store(config["path"], options)
        except UnknownStoreError as error:
            return {"path": [str(error)]}
        return {}

    @abstractmethod
    def apply(self, table: str, mark: TableMark, files: Sequence[StagedFile]) -> None:
        """Add files to a table, unless it has the mark."""

    @abstractmethod
    def check_schema(self, table: str, schema: pa.Schema) -> None:
        """Raise DataError if records with these columns cannot be added to a table."""

    def _new_log(self) -> CommitLog:
        return CommitLog(self._store(), self.name, finish=self._add_files)

    def _prepare(self, files: Sequence[StagedFile]) -> None:
        store = self._store()
        for table, own in by_table(files).items():
            self.check_schema(table, merged_schema(table, [file_schema(store, one) for one in own]))

    def _add_files(self, commit: TargetCommit) -> None:
        for table, own in by_table(commit.files).items():
            self.apply(table, TableMark(commit.log, commit.number), own)

    def _task_files(self, store: FileStore, part: SinkSlice, staged: str) -> TaskFiles:
        return LakeFiles(self.plan, store, part, self.config["table.name.format"])


class TableMark:
    """What a table remembers of the last commit that added files to it."""

    def __init__(self, log: str, number: int) -> None:
        self.log = f"moldau-connect-{log}"
        self.number = number


class LakeFiles(TaskFiles):
    """The files that one task writes, in the directories of their tables."""

    def __init__(self, plan: FileSinkPlan, store: FileStore, part: SinkSlice, table_format: str) -> None:
        super().__init__(plan, store, part, "")
        self._table_format = table_format
        self._names: list[str] = []

    def _by_directory(self, batch: ConnectBatch) -> Iterator[tuple[str, ConnectBatch]]:
        for directory, rows in super()._by_directory(batch):
            topic, _, partition = directory.partition("/")
            table = self._table_format.replace("${topic}", topic.replace(".", "_"))
            value = ValueColumn(lake_columns(rows.value), rows.value.schema)
            yield f"{table}/{partition}".rstrip("/"), _with_value(rows, value)

    def _name(self, directory: str, extension: str) -> str:
        # Only characters that are the same in every encoding of paths: the values of partitions are in the file.
        self._names.append(f"{_UNSAFE.sub('_', directory)}/{uuid.uuid4().hex}{extension}")
        return self._names[-1]

    def _finished(self, directory: str, file: OpenFile) -> StagedFile:
        return StagedFile(file.path, directory.partition("/")[0], self._store.size(file.path), file.rows)

    def abandon(self) -> None:
        super().abandon()
        for name in self._names:
            with contextlib.suppress(Exception):
                self._store.delete(name)


def _with_value(rows: ConnectBatch, value: ValueColumn) -> ConnectBatch:
    return ConnectBatch(rows.topic, rows.key, value, rows.timestamp, rows.partition, rows.headers, rows.origin)


def lake_columns(value: ValueColumn) -> pa.Array:
    """Values as structs with the types that tables have."""
    array = without_null_marks(value.array) if value.schema is None else value.array
    if not pa.types.is_struct(array.type):
        array = pa.StructArray.from_arrays([array], ["value"])
    kind = lake_type(array.type)
    if not kind.num_fields:
        raise DataError("records without any field cannot be written into a table")
    kept = [array.field(one.name).cast(one.type) for one in kind]
    return pa.StructArray.from_arrays(kept, fields=list(kind))


def lake_type(kind: pa.DataType) -> pa.DataType:
    """A type that Delta and Iceberg have: microseconds, whole numbers of 32 bits at least, everything nullable."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, lake_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(lake_type(kind.key_type), lake_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", lake_type(kind.value_type)))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_time(kind):
        return pa.int64()
    if kind in (pa.int8(), pa.int16()):
        return pa.int32()
    return pa.string() if pa.types.is_null(kind) else kind


def by_table(files: Sequence[StagedFile]) -> dict[str, list[StagedFile]]:
    tables: dict[str, list[StagedFile]] = {}
    for one in files:
        tables.setdefault(one.final, []).append(one)
    return tables


def file_schema(store: FileStore, one: StagedFile) -> pa.Schema:
    from pyarrow import parquet

    with store.open_input(one.staged) as file:
        return parquet.read_schema(file).remove_metadata()


def merged_schema(table: str, schemas: Sequence[pa.Schema]) -> pa.Schema:
    """All columns of some files."""
    try:
        return pa.unify_schemas(list(schemas))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(
            f"records for table {table} have a field of two types: {error}; use the transform Cast"
        ) from error


def new_columns(table: str, existing: pa.Schema, wanted: pa.Schema) -> list[pa.Field]:
    """The columns that a table lacks. A column of another type is an error."""
    missing = []
    for column in wanted:
        index = existing.get_field_index(column.name)
        if index < 0:
            missing.append(column)
        elif lake_type(existing.field(index).type) != lake_type(column.type):
            raise DataError(
                f"column {column.name} of table {table} has the type {existing.field(index).type}, the records have "
                f"{column.type}: use the transform Cast, or write into another table"
            )
    return missing
