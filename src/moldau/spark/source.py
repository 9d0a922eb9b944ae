"""Data source `format("moldau")`: the class that Spark asks for readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from moldau.spark.plain_errors import plain_errors

if TYPE_CHECKING:
    from collections.abc import Mapping


class MoldauSource(DataSource):
    """Topics as tables. Imports are inside the methods, because Spark loads this class in many processes, and each
    needs only one side."""

    @classmethod
    def name(cls) -> str:
        return "moldau"

    @plain_errors
    def schema(self) -> StructType:
        from moldau.spark.options import include_headers
        from moldau.spark.rows import row_schema

        return row_schema(headers=include_headers(self._options))

    @plain_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        from moldau.spark.batch import batch_reader

        return batch_reader(self._options, schema)

    @plain_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from moldau.spark.stream import stream_reader

        return stream_reader(self._options, schema)

    @plain_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from moldau.spark.sink import batch_writer

        return batch_writer(self._options, schema, overwrite)

    @plain_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from moldau.spark.sink import stream_writer

        return stream_writer(self._options, schema)

    @property
    def _options(self) -> Mapping[str, str]:
        return dict(self.options)
