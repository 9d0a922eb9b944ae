"""EXPLAIN: what a query reads, how it runs, in SQL's terms; then Spark's plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moldau.sql import continuous
from moldau.sql.bounded_select import explained_frame
from moldau.sql.declarations import Declaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.listings import no_server_warning, state_text
from moldau.sql.relation_names import did_you_mean, quoted
from moldau.sql.results import ResultRows
from moldau.sql.session_context import SessionContext, listed
from moldau.sql.spark_errors import in_sql_terms
from moldau.sql.statements import ExplainStatement, QueryText

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def explain(context: SessionContext, statement: ExplainStatement) -> ResultRows:
    """Run EXPLAIN of a query, or of a running query by its name."""
    if statement.query is None:
        lines = list(_named(context, statement.name or ""))
    elif statement.query.continuous:
        lines = list(_continuous(context, statement.query))
    else:
        lines = list(_bounded(context, statement.query))
    return listed([("plan", "string")], [(line,) for line in lines])


def _bounded(context: SessionContext, query: QueryText) -> Iterator[str]:
    bound, frame = explained_frame(context.spark, context.relations, query)
    yield "Bounded query: the records that are committed when it starts."
    for name, declaration in bound.declarations.items():
        yield from _relation(context, declaration)
        limit = {one.lower(): limit for one, limit in query.as_of.items()}.get(name.lower())
        if limit is not None:
            place = f"offset {limit.offset}" if limit.offset is not None else f"timestamp {limit.timestamp}"
            where = "every partition" if limit.partition is None else f"partition {limit.partition}"
            yield f"    up to {place} of {where}, exclusive"
    if bound.shape.is_scan and bound.shape.limit is not None:
        yield f"  LIMIT {bound.shape.limit}: the topic is read in growing steps until there are enough rows."
    yield ""
    yield from _spark_plan(context, frame)


def _relation(context: SessionContext, declaration: Declaration) -> Iterator[str]:
    span = context.relations.span(declaration)
    origin = "declared" if declaration.text else "not declared; columns inferred"
    yield (
        f"  Reads {declaration.kind} {quoted(declaration.name)} ({origin}): topic {declaration.topic}, "
        f"{span.topic.partitions} partition(s), {span.offsets} offsets, {declaration.value_format}."
    )
    if declaration.kind is RelationKind.TABLE:
        yield "    The latest record of each key; a record without value deletes its key."


def _continuous(context: SessionContext, query: QueryText) -> Iterator[str]:
    planned = continuous.plan(context.spark, query, context.relations)
    yield f"Continuous query: its result is a {planned.kind}."
    if planned.key:
        yield f"  Rows are identified by {', '.join(planned.key)}: a new row replaces the one with the same values."
    elif planned.kind is RelationKind.STREAM:
        yield "  Rows are only added, never changed."
    for declaration in planned.sources:
        yield from _relation(context, declaration)
    for warning in planned.warnings:
        yield f"  {warning}"
    yield ""
    yield from _spark_plan(context, planned.frame)


def _named(context: SessionContext, name: str) -> Iterator[str]:
    definition = context.catalogue.queries.get(name)
    if definition is None:
        names = [one.name for one in context.catalogue.queries.values()]
        raise SqlError(
            f"there is no query {name!r}",
            hint=did_you_mean(name, names) or "SHOW QUERIES lists the queries; EXPLAIN SELECT … explains a new one",
        )
    status = context.catalogue.statuses.get(definition.name)
    yield f"Query {quoted(definition.name)}: {state_text(definition, status)}."
    if status is not None:
        lag = "unknown" if status.lag is None else str(status.lag)
        yield f"  {status.rows} rows, {status.rows_per_s:.1f} rows/s, lag {lag}, {status.restarts} restarts."
        for reason, count in sorted(status.dropped.items()):
            yield f"  {count} {reason.replace('_', ' ')} were not used."
        if status.trace:
            yield f"  {status.trace}"
    for warning in no_server_warning(context.catalogue):
        yield f"  Note: {warning}."
    target = definition.target
    yield f"  Writes {target.kind} {quoted(target.name)}: topic {target.topic}, {target.value_format}, exactly once."
    for declaration in definition.sources:
        yield from _relation(context, declaration)
    yield ""
    yield from definition.text.splitlines()


def _spark_plan(context: SessionContext, frame: DataFrame) -> Iterator[str]:
    jvm: Any = context.spark._jvm
    with in_sql_terms(None, context.spark):
        text = jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted")
    yield from str(text).rstrip().splitlines()
