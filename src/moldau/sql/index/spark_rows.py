"""Answers of pull queries by Spark: the user's whole query, on the few records that an index has found."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from moldau.sql.declarations import Declaration
from moldau.sql.index.index_store import IndexedRecord
from moldau.sql.query_shape import shape_of
from moldau.sql.relation_names import quoted
from moldau.sql.results import ResultColumn, ResultRows
from moldau.sql.spark_text import spark_text
from moldau.sql.statements import QueryText
from moldau.sql.tables.frames import decoded
from moldau.sql.tables.record_columns import hidden_columns, record_names

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
HEADERS: Final = "headers"


class SparkRows:
    """A Spark session of its own, in which the table's name is a view of the records of one question at a time."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None
        self._session: SparkSession | None = None
        self._turn = threading.Lock()

    def answer(
        self, spark: SparkSession, query: QueryText, declaration: Declaration, records: Sequence[IndexedRecord]
    ) -> ResultRows | None:
        """The rows, or None if the query needs what the index does not have (headers), or Spark refuses it.

        The bounded query, which answers then, reports errors with their positions in the user's text.
        """
        from pyspark.errors import PySparkException

        with self._turn:
            if self._session is None or self._spark is not spark:
                self._spark, self._session = spark, spark.newSession()
            try:
                return self._answer(self._session, query, declaration, records)
            except PySparkException:
                return None

    def _answer(
        self, session: SparkSession, query: QueryText, declaration: Declaration, records: Sequence[IndexedRecord]
    ) -> ResultRows | None:
        shape = shape_of(session, query.text)
        headers = record_names(column.name for column in declaration.columns)[HEADERS]
        if headers in shape.names or (shape.stars and not declaration.text):
            return None
        text = spark_text(query, shape, lambda _name: hidden_columns(declaration)).text
        view = quoted(declaration.name)
        decoded(_raw_frame(session, records), declaration).createOrReplaceTempView(view)
        try:
            frame = session.sql(text)
            columns = [ResultColumn(one.name, one.dataType.simpleString()) for one in frame.schema.fields]
            return ResultRows(columns, iter([tuple(row) for row in frame.collect()]))
        finally:
            session.catalog.dropTempView(declaration.name)


def _raw_frame(session: SparkSession, records: Sequence[IndexedRecord]) -> DataFrame:
    """The records with the columns of the source. A small Arrow table becomes a local relation: no task is started."""
    from pyspark.sql import functions as f

    frame: Any = session.createDataFrame(_raw_table(records))
    return frame.withColumn(HEADERS, f.lit(None).cast("array<struct<key:string,value:binary>>"))  # type: ignore[no-any-return]


def _raw_table(records: Sequence[IndexedRecord]) -> pa.Table:
    import pyarrow as pa

    times = [_EPOCH + timedelta(milliseconds=record.timestamp) for record in records]
    return pa.table(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "partition": pa.array([record.partition for record in records], pa.int32()),
            "offset": pa.array([record.offset for record in records], pa.int64()),
            "timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )
