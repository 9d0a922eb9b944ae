"""Grouping of an aggregate: which columns of the result identify a group, and the bounds of its window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.sql.continuous import spark_plans
from moldau.sql.continuous.spark_plans import children, class_name, expression_id, is_attribute, items

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moldau.sql.statements import QueryText

WINDOW_BOUNDS: Final = {"start": "window_start", "end": "window_end"}
"""The columns that are added to a windowed result without its window: groups of different windows would be one key."""
ABOVE_AGGREGATE: Final = ("Project", "Filter", "SubqueryAlias")
"""The nodes between the result and its aggregate: other names, HAVING."""
_SESSION: Final = "session_window"


@dataclass(frozen=True)
class Grouping:
    """The last aggregate of a query."""

    aggregate: Any
    expressions: tuple[Any, ...]
    columns: tuple[tuple[str, ...], ...]
    """For each expression, the columns of the result that show it; for a window all that depend only on it."""
    window: int | None
    """Which of the expressions is the window."""

    @property
    def window_columns(self) -> tuple[str, ...]:
        return () if self.window is None else self.columns[self.window]

    @property
    def key_columns(self) -> tuple[str, ...]:
        found: list[str] = []
        for index, names in enumerate(self.columns):
            found += names if index == self.window else names[:1]
        return tuple(found)

    @property
    def is_session(self) -> bool:
        return self.window is not None and self.expressions[self.window].name() == _SESSION

    @property
    def has_time(self) -> bool:
        """Whether groups end as time goes by."""
        return any(one.dataType().typeName() == "timestamp" for one in self.expressions) or self.window is not None

    @property
    def window_source(self) -> dict[str, str]:
        """The relation and its column that the window is over, if it is a column."""
        if self.window is None:
            return {}
        attribute = self.expressions[self.window]
        node, made = spark_plans.origin_of(children(self.aggregate)[0], expression_id(attribute))
        for part in [] if made is None else spark_plans.walk_expression(made):
            if is_attribute(part) and part.dataType().typeName() == "timestamp":
                below, column = spark_plans.origin_of(children(node)[0], expression_id(part))
                if class_name(below) == "View" and column is not None:
                    return {spark_plans.relation_name(below).lower(): str(column.name())}
        return {}

    def refuse_hidden_columns(self, query: QueryText) -> None:
        """Raise if the result does not show a grouping column: its rows could not be told apart."""
        for expression, names in zip(self.expressions, self.columns, strict=True):
            if not names:
                shown = str(expression.sql()).replace("`", "")
                raise spark_plans.refuse(
                    query,
                    self.aggregate,
                    f"GROUP BY has {shown}, but the result does not",
                    f"add {shown} to SELECT: it identifies the rows that change",
                )


def aggregate_of(plan: Any) -> Any:
    """The aggregate whose groups are the rows of the result, or None."""
    while class_name(plan) in ABOVE_AGGREGATE:
        plan = children(plan)[0]
    return plan if class_name(plan) == "Aggregate" else None


def grouping_of(plan: Any) -> Grouping | None:
    aggregate = aggregate_of(plan)
    if aggregate is None:
        return None
    expressions = items(aggregate.groupingExpressions())
    window = next((index for index, one in enumerate(expressions) if _is_window(one)), None)
    found: list[list[str]] = [[] for _ in expressions]
    for attribute in items(plan.output()):
        node, origin = spark_plans.origin_of(plan, expression_id(attribute))
        inner = _behind(node, origin, aggregate)
        for index, expression in enumerate(expressions):
            if inner is not None and (inner.semanticEquals(expression) or _only_of(inner, expression, index == window)):
                found[index].append(str(attribute.name()))
    return Grouping(aggregate, tuple(expressions), tuple(map(tuple, found)), window)


def _behind(node: Any, origin: Any, aggregate: Any) -> Any:
    """The expression in the aggregate that a column of the result is made of, or None."""
    if origin is None:
        return None
    if class_name(node) == "Aggregate":
        return origin
    # A projection of the result above HAVING: `SELECT unix_millis(window.start)` may be computed there.
    return origin if class_name(node) == "Project" and origin.references().subsetOf(aggregate.outputSet()) else None


def _is_window(expression: Any) -> bool:
    return is_attribute(expression) and expression.name() in ("window", _SESSION) and _has_bounds(expression)


def _has_bounds(expression: Any) -> bool:
    return str(expression.dataType().simpleString()) == "struct<start:timestamp,end:timestamp>"


def _only_of(found: Any, expression: Any, is_window: bool) -> bool:
    """Whether a column depends on the window and on nothing else."""
    if not is_window:
        return False
    used = [expression_id(one) for one in items(found.references().toSeq())]
    return bool(used) and set(used) == {expression_id(expression)}


def with_window_bounds(spark: SparkSession, plan: Any, grouping: Grouping) -> DataFrame:
    """The result with two more columns, the bounds of the window."""
    assert grouping.window is not None, "only for windowed groups"
    expressions = spark_plans.jvm(spark).org.apache.spark.sql.catalyst.expressions
    attribute = grouping.expressions[grouping.window]
    added = [
        spark_plans.alias(spark, expressions.GetStructField(attribute, index, spark_plans.none(spark)), name)
        for index, name in enumerate(WINDOW_BOUNDS.values())
    ]
    return spark_plans.frame_of(spark, _with_columns(spark, plan, added))


def _with_columns(spark: SparkSession, plan: Any, added: list[Any]) -> Any:
    logical = spark_plans.jvm(spark).org.apache.spark.sql.catalyst.plans.logical
    if class_name(plan) == "Aggregate":
        columns = spark_plans.seq(spark, [*items(plan.aggregateExpressions()), *added])
        return logical.Aggregate(plan.groupingExpressions(), columns, plan.child(), plan.hint())
    below = _with_columns(spark, children(plan)[0], added)
    if class_name(plan) == "Project":
        passed = [one.toAttribute() for one in added]
        return logical.Project(spark_plans.seq(spark, [*items(plan.projectList()), *passed]), below)
    return plan.withNewChildren(spark_plans.seq(spark, [below]))
