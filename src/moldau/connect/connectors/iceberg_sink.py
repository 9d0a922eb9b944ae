"""Sink of Iceberg tables, exactly once, without Spark's jars: `IcebergSink`.

The mark of a commit (`lake_sink.py`) is in the properties of the snapshot that adds the files. The catalog lets only
one of two commits at once succeed; the other one finds the mark when it looks again.

The catalog is pyiceberg's; settings that begin with `iceberg.catalog.` are its properties: `iceberg.catalog.type=sql`,
`iceberg.catalog.uri=sqlite:///…`, `iceberg.catalog.warehouse=…`, `iceberg.catalog.s3.endpoint=…`.

Not done: tables with partitions. Files are added to tables without any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType
from moldau.connect.connectors.lake_sink import (
    MAX_TRIES,
    LakeSink,
    TableMark,
    file_schema,
    lake_settings,
    merged_schema,
    new_columns,
)
from moldau.connect.connectors.sink_commit_log import StagedFile
from moldau.connect.errors import DataError

CATALOG: Final = "iceberg.catalog."
LOG: Final = "moldau.connect.log"
COMMIT: Final = "moldau.connect.commit"


class IcebergSink(LakeSink):
    """Iceberg tables, one per topic by default."""

    config_def: ClassVar[ConfigDef] = lake_settings(
        "default.${topic}",
        [ConfigKey("iceberg.catalog", ConfigType.STRING, "The name of the catalog.", "moldau")],
    )
    open_prefixes: ClassVar[tuple[str, ...]] = (CATALOG,)

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        problems = super().check(config)
        if "." not in config["table.name.format"]:
            problems["table.name.format"] = ["Give a namespace and a name, such as default.${topic}"]
        try:
            import pyiceberg  # noqa: F401
        except ImportError:
            problems["path"] = ["Iceberg tables need: pip install 'moldau[connect-lake]'"]
        return problems

    def check_schema(self, table: str, schema: pa.Schema) -> None:
        opened = self._open(table)
        if opened is not None:
            self._missing(table, opened, schema)

    def apply(self, table: str, mark: TableMark, files: Sequence[StagedFile]) -> None:
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        for _ in range(MAX_TRIES):
            try:
                if self._added(table, mark, files):
                    return
            except (CommitFailedException, TableAlreadyExistsError):
                continue  # Another writer was faster, perhaps with this very commit: look again.
        raise MoldauError(f"Iceberg table {table} was changed by others {MAX_TRIES} times while a commit was tried")

    def _added(self, table: str, mark: TableMark, files: Sequence[StagedFile]) -> bool:
        store = self._store()
        opened = self._open(table)
        if opened is not None and _has_mark(opened, mark):
            return True
        schema = merged_schema(table, [file_schema(store, one) for one in files])
        if opened is None:
            catalog = self._catalog()
            catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
            catalog.create_table(table, schema)
            return False
        if self._missing(table, opened, schema):
            with opened.update_schema() as update:
                update.union_by_name(schema)
            return False
        # pyiceberg would repeat a commit that lost against another one, and not look for the mark in between. The
        # property is set in this copy of the metadata only.
        properties = {**opened.metadata.properties, "commit.retry.num-retries": "0"}
        opened.metadata = opened.metadata.model_copy(update={"properties": properties})
        with opened.transaction() as transaction:
            transaction.add_files(
                [store.uri(one.staged) for one in files],
                snapshot_properties={LOG: mark.log, COMMIT: str(mark.number)},
            )
        return True

    def _missing(self, table: str, opened: Any, schema: pa.Schema) -> list[pa.Field]:
        if not opened.spec().is_unpartitioned():
            raise DataError(f"Iceberg table {table} has partitions, and this sink writes tables without any")
        return new_columns(table, _small_types(opened.schema().as_arrow()), schema)

    def _open(self, table: str) -> Any:
        """The table; None: there is none yet."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog().load_table(table)
        except NoSuchTableError:
            return None

    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        own = {name.removeprefix(CATALOG): value for name, value in self.config.items() if name.startswith(CATALOG)}
        return load_catalog(self.config["iceberg.catalog"], **own)


def _has_mark(opened: Any, mark: TableMark) -> bool:
    """Whether a snapshot of this commit, or of a later one, is among the snapshots of the table."""
    for snapshot in opened.metadata.snapshots:
        properties = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if properties.get(LOG) == mark.log and int(properties.get(COMMIT, -1)) >= mark.number:
            return True
    return False


def _small_types(schema: pa.Schema) -> pa.Schema:
    """Arrow's types with 32-bit offsets, as records have them: pyiceberg gives large ones."""
    return pa.schema([pa.field(one.name, _small(one.type)) for one in schema])


def _small(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _small(one.type)) for one in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _small(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_small(kind.key_type), _small(kind.item_type))
    return kind
