"""Bounded SELECT: registers the relations of a query as views, as of now, and runs it in Spark.

The end offsets of each relation are taken once, so that all parts of a query see the same records of it. A query that
needs only the first rows of a topic (`SELECT … FROM t WHERE … LIMIT n`) reads it in growing steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from moldau.sql.declarations import Declaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.query_shape import QueryShape, node_kinds, shape_of
from moldau.sql.relation_names import quoted
from moldau.sql.results import ResultColumn, ResultRows
from moldau.sql.spark_errors import in_sql_terms
from moldau.sql.spark_text import spark_text, with_event_time
from moldau.sql.statements import QueryText
from moldau.sql.tables.frames import BAD_RECORDS, observation_name
from moldau.sql.tables.record_columns import event_time_column, hidden_columns
from moldau.sql.tables.relations import Relations
from moldau.sql.tables.topic_lookup import OffsetSpan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST_STEP: Final = 1_000
STEP_FACTOR: Final = 10
MAX_STEP: Final = 100_000
"""A query with LIMIT that has not found enough rows in this many records reads all of them in Spark's tasks."""


WHOLE_INPUT: Final = frozenset({"Aggregate", "Window", "Sort", "Distinct", "Deduplicate", "Join"})
"""Nodes of an analysed plan that need all rows of their input."""


class BoundQuery:
    """A query with its relations: found, and registered as views of the session."""

    def __init__(self, spark: SparkSession, relations: Relations, query: QueryText) -> None:
        self._spark = spark
        self._relations = relations
        self._query = query
        with in_sql_terms(query, spark):
            self.shape: QueryShape = shape_of(spark, query.text)
        self.declarations = self._found()
        by_lower = {name.lower(): one for name, one in self.declarations.items()}
        timed = with_event_time(query, self.shape, lambda name: event_time_column(by_lower[name.lower()]))
        shape = self.shape if timed is query else shape_of(spark, timed.text)
        self.text = spark_text(timed, shape, lambda name: hidden_columns(by_lower[name.lower()]))

    def _found(self) -> dict[str, Declaration]:
        """The declaration of each relation by its name in the query. SqlError has the place of the unknown name."""
        found: dict[str, Declaration] = {}
        for mention in self.shape.relations:
            if any(mention.name.lower() == name.lower() for name in found):
                continue
            try:
                with in_sql_terms():
                    found[mention.name] = self._relations.find(mention.name)
            except SqlError as error:
                place = self._query.locate(mention.start)
                raise SqlError(error.message, line=place.line, column=place.column, hint=error.hint) from None
        return found

    def register(self, frame_of: Callable[[Declaration], DataFrame]) -> None:
        """Make each relation a view."""
        for name, declaration in self.declarations.items():
            with in_sql_terms(None, self._spark):
                frame_of(declaration).createOrReplaceTempView(quoted_view(name))

    def frame(self) -> DataFrame:
        """The frame of the query. The views are those of the last `register`."""
        with in_sql_terms(self.text, self._spark):
            return self._spark.sql(self.text.text)


def quoted_view(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def select(spark: SparkSession, relations: Relations, query: QueryText) -> ResultRows:
    """Run a bounded query."""
    bound = BoundQuery(spark, relations, query)
    as_of = {name.lower(): limit for name, limit in query.as_of.items()}
    with in_sql_terms(None, spark):
        spans = {
            declaration.name: relations.span(declaration, as_of.get(name.lower()))
            for name, declaration in bound.declarations.items()
        }
    if (found := _first_rows(spark, relations, bound, spans)) is not None:
        return found
    bound.register(lambda declaration: relations.batch(declaration, span=spans[declaration.name]))
    return _result(spark, bound, bound.frame())


def explained_frame(spark: SparkSession, relations: Relations, query: QueryText) -> tuple[BoundQuery, DataFrame]:
    """The frame of a bounded query as Spark's tasks would read it, without reading anything."""
    bound = BoundQuery(spark, relations, query)
    bound.register(lambda declaration: relations.batch(declaration, local=False))
    return bound, bound.frame()


def _first_rows(
    spark: SparkSession, relations: Relations, bound: BoundQuery, spans: Mapping[str, OffsetSpan]
) -> ResultRows | None:
    """The rows of `SELECT … LIMIT n` from the first records; None if the query needs, or may need, all of them."""
    wanted = bound.shape.limit
    if not bound.shape.is_scan or wanted is None or wanted > MAX_STEP:
        return None
    (declaration,) = bound.declarations.values()
    span = spans[declaration.name]
    if declaration.kind is RelationKind.TABLE:
        return None
    step = max(FIRST_STEP, wanted)
    while step <= MAX_STEP and step < span.offsets:
        part = _first_part(span, step)
        bound.register(lambda declaration: relations.batch(declaration, span=part))  # noqa: B023
        frame = bound.frame()
        if not _reads_row_by_row(frame):
            return None
        with in_sql_terms(bound.text, spark):
            rows = [tuple(row) for row in frame.collect()]
        if len(rows) >= wanted:
            return ResultRows(_columns(frame), iter(rows), _notes(frame, bound.declarations))
        step *= STEP_FACTOR
    return None


def _reads_row_by_row(frame: DataFrame) -> bool:
    """Whether the analysed plan has no aggregate or window: `SELECT max(a) FROM t` shows that only here."""
    return not node_kinds(frame._jdf.queryExecution().analyzed()) & WHOLE_INPUT


def _first_part(span: OffsetSpan, records: int) -> OffsetSpan:
    """The first records of each partition, divided evenly; what a short partition lacks the others do not make up."""
    each = -(-records // max(1, span.topic.partitions))
    return replace(span, end={index: min(end, span.first[index] + each) for index, end in span.end.items()})


def _result(spark: SparkSession, bound: BoundQuery, frame: DataFrame) -> ResultRows:
    notes: list[str] = []

    def rows() -> Iterator[tuple[Any, ...]]:
        with in_sql_terms(bound.text, spark):
            for row in frame.toLocalIterator():
                yield tuple(row)
        notes.extend(_notes(frame, bound.declarations))

    return ResultRows(_columns(frame), rows(), notes)


def _columns(frame: DataFrame) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(field.name, field.dataType.simpleString()) for field in frame.schema.fields)


def _notes(frame: DataFrame, declarations: Mapping[str, Declaration]) -> tuple[str, ...]:
    """What the user should know about the rows: how many of the records that were read did not parse."""
    metrics = frame._jdf.queryExecution().observedMetrics()
    notes = []
    for declaration in declarations.values():
        found = metrics.get(observation_name(declaration))
        if found.isDefined() and (count := int(found.get().getAs(BAD_RECORDS))):
            notes.append(bad_records_note(declaration, count))
    return tuple(notes)


def bad_records_note(declaration: Declaration, count: int) -> str:
    what = "record does" if count == 1 else "records do"
    return (
        f"{count} {what} not fit the columns of {quoted(declaration.name)} ({declaration.value_format}); "
        "what cannot be read is NULL"
    )
