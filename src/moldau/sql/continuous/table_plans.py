"""Continuous queries over tables: changes of a table become corrections and deletions in the result.

Spark's streams know no retractions, so the user's SELECT runs as a batch query in each micro-batch, over the rows that
decide the changed part of the result:

- one table (filter, project): the changed rows; no state.
- tables joined by their keys: for each changed key, the current row of every table (Spark's aggregate keeps them).
- an aggregate of one table: all current rows of each changed group (`group_state.py`).

What the SELECT does not return for a changed key or group is deleted from the result. So the result after any changes
is the SELECT over the tables as they are then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from moldau.sql.continuous import spark_plans
from moldau.sql.continuous.group_state import (
    GROUP,
    GROUP_KEY,
    GROUP_ROWS,
    JOINS,
    KEY,
    ORDER,
    ROW,
    ROW_CHANGES,
    GroupRows,
    RowChanges,
)
from moldau.sql.continuous.grouping import Grouping, grouping_of
from moldau.sql.continuous.plans import DELETED, ContinuousPlan
from moldau.sql.continuous.spark_plans import class_name, expression_id, items, quoted
from moldau.sql.continuous.stream_plans import result_columns
from moldau.sql.continuous.table_keys import check_tables, joined_keys, result_key
from moldau.sql.declarations import Declaration, RelationKind
from moldau.sql.tables.record_columns import record_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from moldau.sql.statements import QueryText
    from moldau.sql.tables.relations import Relations

JSON_OPTIONS: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
    "timeZone": "UTC",
}
"""Rows in state are JSON text: nothing of a value may be lost in it."""


@dataclass(frozen=True)
class TableSources:
    """The tables of a query, by name in lower case."""

    declarations: Mapping[str, Declaration]
    changes: Mapping[str, DataFrame]
    """Every change, with DELETED."""
    used: Mapping[str, set[str]] = field(default_factory=dict)
    """The columns that the query uses, in lower case; empty before that is known."""

    def keys(self, name: str) -> list[str]:
        return [column.name for column in self.declarations[name].key_columns]

    def columns(self, name: str) -> list[str]:
        return [column for column in self.changes[name].columns if column != DELETED]

    def schema(self, name: str) -> StructType:
        return self.changes[name].select(*map(quoted, self.columns(name))).schema

    def kept(self, name: str) -> list[str]:
        """The columns that are kept in state: the key, and what the query uses."""
        wanted = self.used[name] | {key.lower() for key in self.keys(name)}
        return [column for column in self.columns(name) if column.lower() in wanted]

    def kept_schema(self, name: str) -> StructType:
        return self.changes[name].select(*map(quoted, self.kept(name))).schema

    def view(self, name: str, row: str) -> list[Column]:
        """All columns of the table from the column `row` with those that were kept. A query may name the others in
        `* EXCEPT (…)` only."""
        from pyspark.sql import functions as F

        kept = set(self.kept(name))
        return [
            F.col(f"{quoted(row)}.{quoted(one.name)}")
            if one.name in kept
            else F.lit(None).cast(one.dataType).alias(one.name)
            for one in self.schema(name).fields
        ]

    def offset(self, name: str) -> str:
        return record_names(column.name for column in self.declarations[name].columns)["offset"]


def plan_tables(
    spark: SparkSession, query: QueryText, relations: Relations, declarations: Mapping[str, Declaration]
) -> ContinuousPlan:
    bounds = {name.lower(): bound for name, bound in query.as_of.items()}
    changes = {name: relations.stream(one, bounds.get(name)) for name, one in declarations.items()}
    sources = TableSources(declarations, changes)
    result = _over(spark, query, {name: spark.createDataFrame([], sources.schema(name)) for name in changes})
    plan = spark_plans.inlined(spark, spark_plans.analysed(result))
    check_tables(query, plan)
    sources = replace(sources, used=spark_plans.used_columns(plan))
    grouping = grouping_of(plan)
    if grouping is not None:
        return _aggregate(spark, query, sources, result, grouping)
    return _by_key(spark, query, sources, result, plan)


def _over(spark: SparkSession, query: QueryText, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The SELECT over these frames."""
    with spark_plans.views(spark, frames):
        return spark_plans.frame_of(spark, spark_plans.parse(spark, query.text))


def _continuous(
    query: QueryText, sources: TableSources, result: DataFrame, key: tuple[str, ...], **facts: Any
) -> ContinuousPlan:
    return ContinuousPlan(
        query=query,
        columns=result_columns(result),
        kind=RelationKind.TABLE,
        key=key,
        record_key=key,
        sources=tuple(sources.declarations.values()),
        **facts,
    )


# -- one table, and joins by key ---------------------------------------------------------------------------------------


def _by_key(
    spark: SparkSession, query: QueryText, sources: TableSources, result: DataFrame, plan: Any
) -> ContinuousPlan:
    from pyspark.sql import functions as F

    orders = joined_keys(query, plan, sources.declarations)
    key = result_key(query, plan, sources.declarations, orders)
    names = list(sources.changes)
    parts = [_keyed(sources, name, names, orders[name]) for name in names]
    frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    keys = [f"{KEY}{index}" for index in range(len(key))]

    def latest(rows: DataFrame) -> DataFrame:
        current = [
            F.expr(f"max_by({quoted(name)}, {ORDER}) FILTER (WHERE {quoted(name)} IS NOT NULL)").alias(name)
            for name in names
        ]
        return rows.groupBy(*keys).agg(*current)

    def step(rows: DataFrame) -> DataFrame:
        current = rows if len(names) > 1 else latest(rows)
        frames = {
            name: current.where(f"NOT {quoted(name)}.{DELETED}").select(*sources.view(name, name)) for name in names
        }
        changed = current.select(*(F.col(one).alias(name) for one, name in zip(keys, key, strict=True)))
        return with_deletions(_over(rows.sparkSession, query, frames), changed, key)

    return _continuous(
        query,
        sources,
        result,
        key,
        spark=spark,
        frame=latest(frame) if len(names) > 1 else frame,
        output_mode="update" if len(names) > 1 else "append",
        step=step,
    )


def _keyed(sources: TableSources, name: str, names: list[str], order: list[str]) -> DataFrame:
    """The changes of one table: the columns of its key, the order, and the row as one column of the table's name."""
    from pyspark.sql import functions as F

    frame = sources.changes[name]
    row = F.struct(*(F.col(quoted(column)) for column in [*sources.kept(name), DELETED]))
    keys = [F.col(quoted(column)).alias(f"{KEY}{index}") for index, column in enumerate(order)]
    has_key = reduce(lambda one, other: one | other, (F.col(quoted(column)).isNotNull() for column in order))
    return frame.where(has_key).select(*keys, F.col(quoted(sources.offset(name))).alias(ORDER), row.alias(name))


def with_deletions(result: DataFrame, changed: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """The result, and a deleted row for each changed key that it does not have."""
    from pyspark.sql import functions as F

    shown = result.withColumn(DELETED, F.lit(False))
    if not key:
        return shown
    found = result.select(*(F.col(quoted(name)).alias(f"{KEY}{index}") for index, name in enumerate(key)))
    same = reduce(
        lambda one, other: one & other,
        (F.col(quoted(name)).eqNullSafe(F.col(f"{KEY}{index}")) for index, name in enumerate(key)),
    )
    gone = changed.join(found, same, "left_anti")
    columns = [
        F.col(quoted(field.name)).cast(field.dataType) if field.name in key else F.lit(None).cast(field.dataType)
        for field in result.schema.fields
    ]
    named = [column.alias(field.name) for column, field in zip(columns, result.schema.fields, strict=True)]
    return shown.unionByName(gone.select(*named, F.lit(True).alias(DELETED)))


# -- aggregates --------------------------------------------------------------------------------------------------------


def _aggregate(
    spark: SparkSession, query: QueryText, sources: TableSources, result: DataFrame, grouping: Grouping
) -> ContinuousPlan:
    from pyspark.sql import functions as F

    grouping.refuse_hidden_columns(query)
    name = next(iter(sources.changes))
    schema = sources.kept_schema(name)
    groups = _grouped_changes(spark, query, sources, name, schema)
    key = grouping.key_columns
    key_schema = _schema_of(result, key)
    frame = groups.groupBy(GROUP).transformWithState(GroupRows(), GROUP_ROWS, "append", "none")

    def step(rows: DataFrame) -> DataFrame:
        current = rows.where(f"{ROW} IS NOT NULL").select(F.from_json(ROW, schema, JSON_OPTIONS).alias(ROW))
        table = current.select(*sources.view(name, ROW))
        keys = rows.select(F.from_json(GROUP_KEY, key_schema, JSON_OPTIONS).alias(KEY)).distinct()
        changed = keys.select(*(F.col(f"{KEY}.{quoted(column)}") for column in key))
        return with_deletions(_over(rows.sparkSession, query, {name: table}), changed, key)

    return _continuous(
        query, sources, result, key, spark=spark, frame=frame, output_mode="append", step=step, needs_rocksdb=True
    )


def _schema_of(result: DataFrame, key: tuple[str, ...]) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([result.schema[name] for name in key])


def _grouped_changes(
    spark: SparkSession, query: QueryText, sources: TableSources, name: str, schema: StructType
) -> DataFrame:
    """Rows that leave and join groups: GROUP, GROUP_KEY, KEY, ROW, JOINS.

    Spark resolves the user's SELECT over the changes; the input of its aggregate has the grouping columns.
    """
    from pyspark.sql import functions as F

    changes = _row_changes(sources, name)
    rows = changes.select(KEY, ROW, JOINS, F.from_json(ROW, schema, JSON_OPTIONS).alias("row"))
    view = rows.select(*sources.view(name, "row"), KEY, ROW, JOINS)
    plan = spark_plans.inlined(spark, spark_plans.analysed(_over(spark, query, {name: view})))
    grouping = grouping_of(plan)
    assert grouping is not None, "the same query had an aggregate"
    below = grouping.aggregate.child()
    own = {str(one.name()): spark_plans.column_of(spark, one) for one in items(below.output())}
    if not {KEY, ROW, JOINS} <= own.keys():
        raise spark_plans.refuse(
            query,
            grouping.aggregate,
            "an aggregate of a table needs all its columns",
            "group the table itself, not a subquery of some columns; or write the subquery to a table with "
            "CREATE TABLE … AS, and query this table",
        )
    group = [_normalised(spark, one).alias(f"g{index}") for index, one in enumerate(grouping.expressions)]
    shown = [
        spark_plans.column_of(spark, _key_expression(plan, attribute)).alias(str(attribute.name()))
        for attribute in items(plan.output())
        if str(attribute.name()) in grouping.key_columns
    ]
    return spark_plans.frame_of(spark, below).select(
        _json(group).alias(GROUP), _json(shown).alias(GROUP_KEY), own[KEY], own[ROW], own[JOINS]
    )


def _row_changes(sources: TableSources, name: str) -> DataFrame:
    from pyspark.sql import functions as F

    frame = sources.changes[name]
    keys = [F.col(quoted(column)) for column in sources.keys(name)]
    row = F.to_json(F.struct(*(F.col(quoted(column)) for column in sources.kept(name))), JSON_OPTIONS)
    has_key = reduce(lambda one, other: one | other, (key.isNotNull() for key in keys))
    rows = frame.where(has_key).select(
        F.to_json(F.struct(*keys), JSON_OPTIONS).alias(KEY),
        F.col(quoted(sources.offset(name))).alias(ORDER),
        F.when(~F.col(DELETED), row).alias(ROW),
    )
    return rows.groupBy(KEY).transformWithState(RowChanges(), ROW_CHANGES, "append", "none")


def _json(columns: list[Column]) -> Column:
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*columns), JSON_OPTIONS) if columns else F.lit("{}")


def _normalised(spark: SparkSession, expression: Any) -> Column:
    """GROUP BY takes 0.0 and -0.0 for equal; their texts are not."""
    column = spark_plans.column_of(spark, expression)
    return column + 0.0 if expression.dataType().typeName() in ("double", "float") else column


def _key_expression(plan: Any, attribute: Any) -> Any:
    """What a key column of the result is, in terms of the aggregate's input."""
    node, expression = spark_plans.origin_of(plan, expression_id(attribute))
    assert class_name(node) == "Aggregate" and expression is not None, "a key column comes from GROUP BY"
    return expression
