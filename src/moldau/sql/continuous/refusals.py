"""Continuous queries that cannot run, refused in SQL's terms: the reason, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.sql.continuous import spark_plans
from moldau.sql.continuous.spark_plans import children, class_name, expression_id, items, refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moldau.sql.errors import SqlError
    from moldau.sql.statements import QueryText

NODES: Final = {
    "Sort": (
        "a continuous query has no end, so it cannot be sorted",
        "remove ORDER BY, or EMIT CHANGES for the sorted rows as of now",
    ),
    "GlobalLimit": ("only the whole query can have a LIMIT, not a subquery", "write LIMIT after EMIT CHANGES"),
    "LocalLimit": ("only the whole query can have a LIMIT, not a subquery", "write LIMIT after EMIT CHANGES"),
    "Offset": ("OFFSET is not possible in a continuous query", "remove it, or EMIT CHANGES"),
    "Window": (
        "OVER needs all rows of its partition, and a stream never has all of them",
        "group by a window of time, or remove EMIT CHANGES",
    ),
    "Intersect": ("INTERSECT is not possible in a continuous query", "write a join of the two"),
    "Except": ("EXCEPT is not possible in a continuous query", "write a LEFT JOIN, and the rows without a partner"),
    "Pivot": ("PIVOT is not possible in a continuous query", "write an aggregate with FILTER for each value"),
    "Expand": (
        "GROUPING SETS, CUBE and ROLLUP are not possible in a continuous query",
        "write one query for each grouping",
    ),
}
_OUTER: Final = ("LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti")
_JOIN_WORDS: Final = {"LeftOuter": "LEFT", "RightOuter": "RIGHT", "FullOuter": "FULL", "LeftAnti": "LEFT ANTI"}


def refuse_unbounded_join(query: QueryText, joins: Sequence[Any]) -> None:
    """Raise for a join of two streams without a bound of time: both would be kept for ever."""
    for join in joins:
        condition = join.condition()
        used = (
            set()
            if condition.isEmpty()
            else {expression_id(one) for one in items(condition.get().references().toSeq())}
        )
        bounded = all(
            any(expression_id(one) in used for one in items(side.output()) if one.dataType().typeName() == "timestamp")
            for side in children(join)
        )
        if not bounded:
            raise refuse(
                query,
                join,
                "a join of two streams needs a bound of time, otherwise every record would be kept for ever",
                "write JOIN … WITHIN 10 MINUTES ON …",
            )


def check_streaming(spark: SparkSession, query: QueryText, frame: DataFrame, mode: str) -> None:
    """Raise SqlError if Spark cannot run the frame in this output mode."""
    plan = spark_plans.inlined(spark, spark_plans.analysed(frame))
    for node in spark_plans.walk(plan):
        if node.isStreaming():
            _check_node(query, node)
    modes = spark_plans.jvm(spark).org.apache.spark.sql.streaming.OutputMode
    checker = spark_plans.jvm(spark).org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    from pyspark.errors import PySparkException

    try:
        checker.checkForStreaming(plan, modes.Update() if mode == "update" else modes.Append())
    except PySparkException as error:
        raise _from_spark(query, plan, error) from None


def _check_node(query: QueryText, node: Any) -> None:
    name = class_name(node)
    if name in NODES and not is_hopping(node):
        message, hint = NODES[name]
        raise refuse(query, node, message, hint)
    if name == "Aggregate":
        _check_aggregate(query, node)
    if name == "Join":
        _check_join(query, node)


def is_hopping(node: Any) -> bool:
    """Whether a node only puts a row into each of its windows: Spark has the same node for GROUPING SETS."""
    return class_name(node) == "Expand" and all(one.name() != "spark_grouping_id" for one in items(node.output()))


def _check_aggregate(query: QueryText, node: Any) -> None:
    for expression in items(node.aggregateExpressions()):
        for part in spark_plans.walk_expression(expression):
            if class_name(part) == "AggregateExpression" and part.isDistinct():
                raise refuse(
                    query,
                    part,
                    "an aggregate over DISTINCT values is not possible in a continuous query over a stream",
                    "write size(collect_set(column)), or approx_count_distinct(column)",
                )
    below = [one for child in children(node) for one in spark_plans.walk(child) if one.isStreaming()]
    if any(class_name(one) == "Aggregate" for one in below) and not _has_time(node):
        raise refuse(
            query,
            node,
            "a continuous query cannot aggregate the result of an aggregate, because that changes all the time",
            "write the inner SELECT to a table with CREATE TABLE … AS, and query this table",
        )
    if not _has_time(node) and any(_is_stream_join(one) for one in below):
        raise refuse(
            query,
            node,
            "an aggregate of a join of two streams needs a window of time",
            "add a WINDOW, or write the join to a stream with CREATE STREAM … AS, and aggregate this stream",
        )


def _has_time(aggregate: Any) -> bool:
    return any(
        one.dataType().typeName() == "timestamp"
        or str(one.dataType().simpleString()) == "struct<start:timestamp,end:timestamp>"
        for one in items(aggregate.groupingExpressions())
    )


def _is_stream_join(node: Any) -> bool:
    return class_name(node) == "Join" and all(child.isStreaming() for child in children(node))


def _check_join(query: QueryText, node: Any) -> None:
    kind = str(node.joinType().toString())
    left, right = (child.isStreaming() for child in children(node))
    if (left and right) or kind == "Inner":
        return
    if (kind == "LeftOuter" and left) or (kind == "RightOuter" and right) or (kind in _OUTER[3:] and left):
        return
    raise refuse(
        query,
        node,
        f"a {_JOIN_WORDS.get(kind, kind)} JOIN of a stream and a table would have to show rows of the table that no "
        "record matches, and a stream never ends",
        "keep all records of the stream instead (stream LEFT JOIN table), or declare the stream as a table",
    )


_CONDITIONS: Final = (
    ("Sorting is not supported", *NODES["Sort"]),
    ("Multiple streaming aggregations", "a continuous query can have one aggregate", "write the inner one to a table"),
)


def _from_spark(query: QueryText, plan: Any, error: Any) -> SqlError:
    message = str(error.getMessage() if hasattr(error, "getMessage") else error).splitlines()[0]
    for words, ours, hint in _CONDITIONS:
        if words in message:
            return refuse(query, plan, ours, hint)
    text = message.split("] ", 1)[-1].replace("streaming DataFrames/Datasets", "continuous queries")
    return refuse(query, plan, f"this query cannot run continuously: {text.split(';')[0]}", "remove EMIT CHANGES")
