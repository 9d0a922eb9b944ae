"""Continuous queries over streams: Spark's own streaming operators run the whole SELECT.

The planner only adds what SQL's text does not say: the watermark of each stream, the time bound of a join of two
streams (WITHIN), and the bounds of the window in the key of a windowed group. A table that is joined with a stream is
read again in each micro-batch: a record of the stream meets the table's rows as they are then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.sql.continuous import spark_plans
from moldau.sql.continuous.grouping import Grouping, grouping_of, with_window_bounds
from moldau.sql.continuous.plans import ContinuousPlan
from moldau.sql.continuous.refusals import check_streaming, refuse_unbounded_join
from moldau.sql.continuous.spark_plans import children, class_name, quoted
from moldau.sql.declarations import Declaration, RelationKind
from moldau.sql.results import ResultColumn
from moldau.sql.tables.record_columns import event_time_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moldau.sql.statements import QueryText
    from moldau.sql.tables.relations import Relations

DEFAULT_GRACE: Final = "1 hour"
"""How late a record may be without GRACE PERIOD. The state of a window or a join is kept for so long after its end."""


@dataclass
class StreamSources:
    """The frames of a query's relations, by name in lower case, and the time columns of the streams."""

    declarations: Mapping[str, Declaration]
    frames: dict[str, DataFrame]
    times: dict[str, str]

    def with_watermarks(self, grace: str, columns: Mapping[str, str]) -> StreamSources:
        times = {**self.times, **columns}
        frames = {
            name: frame.withWatermark(times[name], grace) if name in times else frame
            for name, frame in self.frames.items()
        }
        return StreamSources(self.declarations, frames, times)


def plan_streams(
    spark: SparkSession, query: QueryText, relations: Relations, declarations: Mapping[str, Declaration]
) -> ContinuousPlan:
    sources = _open(query, relations, declarations)
    first = _analyse(spark, query, sources)
    used = spark_plans.used_columns(spark_plans.inlined(spark, spark_plans.analysed(first)))
    sources = _open(query, relations, declarations, used)
    first = _analyse(spark, query, sources)
    state = _StateOf(spark, first)
    warnings: list[str] = []
    if state.needs_watermark:
        grace = query.grace or DEFAULT_GRACE
        if query.grace is None:
            warnings.append(f"records more than {grace} late are dropped; GRACE PERIOD sets another time")
        sources = sources.with_watermarks(grace, state.window_times)
        first = _analyse(spark, query, sources)
        state = _StateOf(spark, first)
    refuse_unbounded_join(query, state.joins)
    return _finish(spark, query, first, state, sources, warnings)


def _finish(
    spark: SparkSession,
    query: QueryText,
    frame: DataFrame,
    state: _StateOf,
    sources: StreamSources,
    warnings: list[str],
) -> ContinuousPlan:
    key: tuple[str, ...] = ()
    mode, kind = "append", RelationKind.STREAM
    grouping = state.grouping
    if class_name(state.plan) == "Distinct":
        frame = spark_plans.frame_of(spark, children(state.plan)[0]).dropDuplicates()
    elif grouping is not None:
        if grouping.window is not None and not grouping.window_columns:
            frame = with_window_bounds(spark, state.plan, grouping)
            grouping = grouping_of(spark_plans.analysed(frame)) or grouping
        grouping.refuse_hidden_columns(query)
        key, kind = grouping.key_columns, RelationKind.TABLE
        if not (state.joins or grouping.is_session):
            mode = "update"
        else:
            warnings.append("a group is shown once, when its window and the grace period have passed")
    check_streaming(spark, query, frame, mode)
    return ContinuousPlan(
        spark=spark,
        query=query,
        frame=frame,
        columns=result_columns(frame),
        kind=kind,
        key=key,
        record_key=key if kind is RelationKind.TABLE else _record_key(frame, sources.declarations),
        output_mode=mode,
        sources=tuple(sources.declarations.values()),
        warnings=tuple(warnings),
    )


def _open(
    query: QueryText,
    relations: Relations,
    declarations: Mapping[str, Declaration],
    used: Mapping[str, set[str]] | None = None,
) -> StreamSources:
    """Open the relations, with all columns, or with those that the query uses and the event time."""
    bounds = {name.lower(): bound for name, bound in query.as_of.items()}
    frames: dict[str, DataFrame] = {}
    times: dict[str, str] = {}
    for name, declaration in declarations.items():
        if declaration.kind is RelationKind.STREAM:
            times[name] = event_time_column(declaration)
            columns = None if used is None else {*used.get(name, ()), times[name]}
            frames[name] = relations.stream(declaration, bounds.get(name), columns=columns)
        else:
            frames[name] = relations.refreshed(declaration)
    return StreamSources(declarations, frames, times)


def _analyse(spark: SparkSession, query: QueryText, sources: StreamSources) -> DataFrame:
    with spark_plans.views(spark, sources.frames):
        parsed = spark_plans.parse(spark, query.text)
        if query.within is not None:
            parsed = _bounded(spark, query, parsed, sources)
        return spark_plans.frame_of(spark, parsed)


def _bounded(spark: SparkSession, query: QueryText, plan: Any, sources: StreamSources) -> Any:
    """The plan with the time bound of WITHIN in each join of two streams."""
    catalyst = spark_plans.jvm(spark).org.apache.spark.sql.catalyst

    def change(node: Any) -> Any:
        if class_name(node) != "Join":
            return node
        left, right = (_stream_times(side, sources) for side in (node.left(), node.right()))
        if not left or not right:
            return node
        if class_name(node.joinType()) in ("UsingJoin", "NaturalJoin"):
            raise spark_plans.refuse(
                query, node, "a join of two streams with WITHIN needs ON", "write ON a.column = b.column, not USING"
            )
        bound = spark_plans.parse_expression(
            spark,
            f"{left[0]} BETWEEN {right[0]} - INTERVAL {query.within} AND {right[0]} + INTERVAL {query.within}",
        )
        given = node.condition()
        both = bound if given.isEmpty() else catalyst.expressions.And(given.get(), bound)
        some = spark_plans.jvm(spark).scala.Option.apply(both)
        return catalyst.plans.logical.Join(node.left(), node.right(), node.joinType(), some, node.hint())

    return spark_plans.rebuilt(spark, plan, change)


def _stream_times(side: Any, sources: StreamSources) -> list[str]:
    """The time columns of the streams in one side of a join, qualified as the query names them."""
    name = class_name(side)
    if name == "UnresolvedRelation":
        relation = str(side.tableName()).strip("`")
        return _qualified(relation, relation, sources)
    if name == "SubqueryAlias" and class_name(children(side)[0]) == "UnresolvedRelation":
        relation = str(children(side)[0].tableName()).strip("`")
        return _qualified(str(side.alias()), relation, sources)
    return [time for child in children(side) for time in _stream_times(child, sources)]


def _qualified(alias: str, relation: str, sources: StreamSources) -> list[str]:
    time = sources.times.get(relation.lower())
    return [] if time is None else [f"{quoted(alias)}.{quoted(time)}"]


class _StateOf:
    """What a plan keeps state for."""

    def __init__(self, spark: SparkSession, frame: DataFrame) -> None:
        self.plan = spark_plans.inlined(spark, spark_plans.analysed(frame))
        streaming = [node for node in spark_plans.walk(self.plan) if node.isStreaming()]
        self.joins = [
            node
            for node in streaming
            if class_name(node) == "Join" and all(child.isStreaming() for child in children(node))
        ]
        self.aggregates = [node for node in streaming if class_name(node) == "Aggregate"]
        self.grouping: Grouping | None = grouping_of(self.plan)
        groupings = [one for one in map(grouping_of, self.aggregates) if one is not None]
        self.needs_watermark = bool(self.joins) or any(one.has_time for one in groupings)
        self.window_times = {name: column for one in groupings for name, column in one.window_source.items()}


def result_columns(frame: DataFrame) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(field.name, field.dataType.simpleString()) for field in frame.schema.fields)


def _record_key(frame: DataFrame, declarations: Mapping[str, Declaration]) -> tuple[str, ...]:
    """The columns of the result that are, unchanged, all key columns of one source."""
    plan = spark_plans.analysed(frame)
    found: dict[str, dict[str, str]] = {}
    for attribute in spark_plans.items(plan.output()):
        node, origin = spark_plans.origin_of(plan, spark_plans.expression_id(attribute))
        if class_name(node) == "View" and origin is not None:
            found.setdefault(spark_plans.relation_name(node).lower(), {}).setdefault(
                str(origin.name()).lower(), str(attribute.name())
            )
    for name, columns in found.items():
        wanted = [column.name.lower() for column in declarations[name].key_columns] if name in declarations else []
        if wanted and all(column in columns for column in wanted):
            return tuple(columns[column] for column in wanted)
    return ()
