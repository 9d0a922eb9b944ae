"""Spark's logical plans from Python: nodes, expressions, places in the text, origins of columns.

PySpark has no API for plans, so these functions call the JVM. They only use what Catalyst's own rules use: children,
class names, constructors, and `Dataset.ofRows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any

from moldau.sql.errors import SqlError
from moldau.sql.statements import QueryText

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CATALYST = "org.apache.spark.sql.catalyst"
BY_PLACE = ("Union", "Intersect", "Except")
"""Nodes that use all columns of their children, by their places and not by references."""
_VIEWS = RLock()
"""Temporary views belong to a session, and several threads plan queries in one session."""


def class_name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def children(node: Any) -> list[Any]:
    return items(node.children())


def items(sequence: Any) -> list[Any]:
    """The elements of a Scala Seq."""
    return [sequence.apply(index) for index in range(sequence.size())]


def walk(node: Any) -> Iterator[Any]:
    """The node and all below it down to the relations, also inside subqueries and the definitions of WITH."""
    yield node
    if class_name(node) == "View":
        return
    for child in [*children(node), *items(node.innerChildren())]:
        if hasattr(child, "children") and _is_plan(child):
            yield from walk(child)
    for expression in items(node.expressions()):
        for part in walk_expression(expression):
            if is_subquery(part) and _is_plan(part.plan()):
                yield from walk(part.plan())


def walk_expression(expression: Any) -> Iterator[Any]:
    yield expression
    for child in children(expression):
        yield from walk_expression(child)


def _is_plan(node: Any) -> bool:
    return _is_instance(node, f"{_CATALYST}.plans.logical.LogicalPlan")


def _is_instance(found: Any, name: str) -> bool:
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    return bool(is_instance_of(SparkContext._gateway, found, name))


def is_subquery(expression: Any) -> bool:
    return _is_instance(expression, f"{_CATALYST}.expressions.PlanExpression")


def is_attribute(expression: Any) -> bool:
    return class_name(expression) == "AttributeReference"


def expression_id(expression: Any) -> int:
    return int(expression.exprId().id())


# -- parsing and analysis ----------------------------------------------------------------------------------------------


def parse(spark: SparkSession, text: str) -> Any:
    """The plan of a text before names are resolved."""
    return _session(spark).sessionState().sqlParser().parsePlan(text)


def parse_expression(spark: SparkSession, text: str) -> Any:
    return _session(spark).sessionState().sqlParser().parseExpression(text)


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """The frame of a plan; Spark resolves its names now."""
    from pyspark.sql import DataFrame

    return DataFrame(jvm(spark).org.apache.spark.sql.classic.Dataset.ofRows(_session(spark), plan), spark)


def analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def column_of(spark: SparkSession, expression: Any) -> Column:
    from pyspark.sql.classic.column import Column

    return Column(jvm(spark).org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def rebuilt(spark: SparkSession, plan: Any, change: Callable[[Any], Any]) -> Any:
    """The plan with `change` applied to each node, children first."""
    before = children(plan)
    after = [rebuilt(spark, child, change) for child in before]
    if any(one is not other for one, other in zip(before, after, strict=True)):
        plan = plan.withNewChildren(seq(spark, after))
    return change(plan)


def seq(spark: SparkSession, elements: Sequence[Any]) -> Any:
    return jvm(spark).PythonUtils.toSeq(list(elements))


@contextmanager
def views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Temporary views of these names, while a query is resolved."""
    with _VIEWS:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(quoted(name))
        try:
            yield
        finally:
            for name in frames:
                spark.catalog.dropTempView(name)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _session(spark: SparkSession) -> Any:
    return spark._jsparkSession


def jvm(spark: SparkSession) -> Any:
    return spark._jvm


# -- origins -----------------------------------------------------------------------------------------------------------


def refuse(query: QueryText, node: Any, message: str, hint: str | None = None) -> SqlError:
    """The error at the place of a node or an expression in the user's text; at the query's beginning if Spark does not
    know the place."""
    line, column = position_of(query, node)
    return SqlError(message, line=line, column=column, hint=hint)


def position_of(query: QueryText, node: Any) -> tuple[int, int]:
    origin = None if node is None else node.origin()
    if origin is None or origin.line().isEmpty() or origin.startPosition().isEmpty():
        return query.position.line, query.position.column
    place = query.locate_line(int(origin.line().get()), int(origin.startPosition().get()))
    return place.line, place.column


def origin_of(plan: Any, wanted: int) -> tuple[Any, Any]:
    """Where the column with this id comes from: a relation (a View) or an Aggregate with the attribute or expression
    there, or the lowest node that computes it with the expression."""
    if class_name(plan) == "View":
        return plan, _attribute(plan, wanted)
    for expression in _named(plan):
        if expression_id(expression) != wanted:
            continue
        inner = expression.child() if class_name(expression) == "Alias" else expression
        if class_name(plan) == "Aggregate" or not is_attribute(inner):
            return plan, inner
        wanted = expression_id(inner)
        break
    for child in children(plan):
        if _attribute(child, wanted) is not None:
            return origin_of(child, wanted)
    return plan, _attribute(plan, wanted)


def used_columns(plan: Any) -> dict[str, set[str]]:
    """The columns of each relation that a query uses, by the relation's name in lower case."""
    nodes = list(walk(plan))
    used = {expression_id(one) for one in items(plan.output())}
    for node in nodes:
        if class_name(node) != "View":
            used |= {expression_id(one) for one in items(node.references().toSeq())}
        if class_name(node) in BY_PLACE:
            used |= {expression_id(one) for child in children(node) for one in items(child.output())}
    found: dict[str, set[str]] = {}
    for view in nodes:
        if class_name(view) == "View":
            names = {str(one.name()).lower() for one in items(view.output()) if expression_id(one) in used}
            found.setdefault(relation_name(view).lower(), set()).update(names)
    return found


def relation_name(view: Any) -> str:
    """The name of the temporary view, as it was registered."""
    return str(view.desc().identifier().table())


def _attribute(plan: Any, wanted: int) -> Any:
    return next((one for one in items(plan.output()) if expression_id(one) == wanted), None)


def _named(plan: Any) -> list[Any]:
    name = class_name(plan)
    if name == "Project":
        return items(plan.projectList())
    if name == "Aggregate":
        return items(plan.aggregateExpressions())
    return []


def inlined(spark: SparkSession, plan: Any) -> Any:
    """The plan without WITH: its definitions are where they are used."""
    if not any(class_name(node) == "WithCTE" for node in walk(plan)):
        return plan
    # alwaysInline, keepDanglingRelations, and an argument that Spark 4.3 has added
    return jvm(spark).org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False, False).apply(plan)


def alias(spark: SparkSession, expression: Any, name: str) -> Any:
    expressions = jvm(spark).org.apache.spark.sql.catalyst.expressions
    new_id = expressions.NamedExpression.newExprId()
    return expressions.Alias(expression, name, new_id, seq(spark, []), none(spark), seq(spark, []))


def none(spark: SparkSession) -> Any:
    return jvm(spark).scala.Option.empty()


# -- directories of Spark's driver -------------------------------------------------------------------------------------


def new_directory(spark: SparkSession) -> str:
    """An empty directory for a query that leaves nothing behind. Spark deletes it at its end, at the latest."""
    utils = jvm(spark).org.apache.spark.util.Utils
    return str(utils.createTempDir(jvm(spark).java.lang.System.getProperty("java.io.tmpdir"), "moldau-sql"))


def remove_directory(spark: SparkSession, path: str) -> None:
    jvm(spark).org.apache.spark.util.Utils.deleteRecursively(jvm(spark).java.io.File(path))
