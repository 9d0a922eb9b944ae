"""Planning of continuous queries: finds the relations of a query, and whether its result is a stream or a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.sql.bounded_select import BoundQuery
from moldau.sql.continuous.plans import ContinuousPlan
from moldau.sql.continuous.stream_plans import plan_streams
from moldau.sql.continuous.table_plans import plan_tables
from moldau.sql.declarations import RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.spark_errors import in_sql_terms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.sql.statements import QueryText
    from moldau.sql.tables.relations import Relations


def plan(spark: SparkSession, query: QueryText, relations: Relations) -> ContinuousPlan:
    """Prepare a continuous query. Raises SqlError, with the position, if it cannot be run continuously."""
    bound = BoundQuery(spark, relations, query)
    sources = {name.lower(): declaration for name, declaration in bound.declarations.items()}
    if not sources:
        first = query.position
        raise SqlError(
            "a continuous query needs a stream or a table to follow",
            line=first.line,
            column=first.column,
            hint="name a topic after FROM, or leave out EMIT CHANGES",
        )
    with in_sql_terms(bound.text, spark):
        if any(source.kind is RelationKind.STREAM for source in sources.values()):
            return plan_streams(spark, bound.text, relations, sources)
        return plan_tables(spark, bound.text, relations, sources)
