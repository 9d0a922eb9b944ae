"""Keys of tables in a query: which joins are by key, and which columns of the result are its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.sql.continuous import spark_plans
from moldau.sql.continuous.refusals import NODES, is_hopping
from moldau.sql.continuous.spark_plans import children, class_name, expression_id, is_attribute, items, refuse
from moldau.sql.declarations import Declaration

if TYPE_CHECKING:
    from moldau.sql.statements import QueryText

ALLOWED: Final = ("Project", "Filter", "Join", "SubqueryAlias", "View", "Aggregate", "Expand")


def check_tables(query: QueryText, plan: Any) -> None:
    """Raise if the query does more than filter, project, join and aggregate once."""
    nodes = list(spark_plans.walk(plan))
    aggregates = [node for node in nodes if class_name(node) == "Aggregate"]
    for node in nodes:
        _check_node(query, node)
    if len(aggregates) > 1:
        raise refuse(
            query,
            aggregates[0],
            "a continuous query over a table can have one aggregate",
            "write the inner SELECT to a table with CREATE TABLE … AS, and query this table",
        )
    if aggregates and any(class_name(node) == "Join" for node in nodes):
        raise refuse(
            query,
            aggregates[0],
            "an aggregate of a join of tables is not possible in one continuous query",
            "write the join to a table with CREATE TABLE … AS, and aggregate this table",
        )


def _check_node(query: QueryText, node: Any) -> None:
    name = class_name(node)
    if name in NODES and not is_hopping(node):
        raise refuse(query, node, *NODES[name])
    if name == "Distinct":
        raise refuse(
            query, node, "DISTINCT is not possible in a continuous query over a table", "write GROUP BY the columns"
        )
    if name == "Union":
        raise refuse(
            query,
            node,
            "UNION of tables has no key: one row could come from both",
            "write both to one topic with INSERT INTO, and declare it as a table",
        )
    if name not in ALLOWED:
        raise refuse(query, node, "a continuous query over a table can filter, project, join by key and aggregate")
    for expression in items(node.expressions()):
        for part in spark_plans.walk_expression(expression):
            if spark_plans.is_subquery(part):
                raise refuse(
                    query,
                    part,
                    "a subquery in an expression is not possible in a continuous query over a table",
                    "write a join by key",
                )


def views_of(plan: Any) -> list[Any]:
    return [node for node in spark_plans.walk(plan) if class_name(node) == "View"]


def key_ids(view: Any, declarations: Mapping[str, Declaration]) -> dict[str, int]:
    """The ids of the key columns of a table in the plan, by name in lower case, in the order of the declaration."""
    columns = {str(one.name()).lower(): expression_id(one) for one in items(view.output())}
    declared = declarations[spark_plans.relation_name(view).lower()]
    return {column.name.lower(): columns[column.name.lower()] for column in declared.key_columns}


def joined_keys(query: QueryText, plan: Any, declarations: Mapping[str, Declaration]) -> dict[str, list[str]]:
    """For each table the names of its key columns, so that those at the same place are equal in every join. Raises if
    the tables are not joined by their whole keys."""
    views = views_of(plan)
    equal = _equal_columns(plan)
    first = views[0]
    first_keys = key_ids(first, declarations)
    orders = {spark_plans.relation_name(first).lower(): list(first_keys)}
    for view in views[1:]:
        keys = key_ids(view, declarations)
        order = [
            next((name for name, other in keys.items() if other in equal.get(one, {one})), None)
            for one in first_keys.values()
        ]
        if None in order or len(order) != len(keys):
            raise _not_by_key(query, plan, first, view, declarations)
        orders.setdefault(spark_plans.relation_name(view).lower(), [name for name in order if name is not None])
    _check_types(query, plan, views, orders)
    return {name: [_as_declared(declarations[name], one) for one in order] for name, order in orders.items()}


def _as_declared(declaration: Declaration, name: str) -> str:
    return next(column.name for column in declaration.key_columns if column.name.lower() == name)


def _check_types(query: QueryText, plan: Any, views: list[Any], orders: Mapping[str, list[str]]) -> None:
    types = []
    for view in views:
        columns = {str(one.name()).lower(): str(one.dataType().simpleString()) for one in items(view.output())}
        types.append([columns[name] for name in orders[spark_plans.relation_name(view).lower()]])
    if any(one != types[0] for one in types):
        shown = " and ".join(", ".join(one) for one in types)
        raise refuse(query, plan, f"the keys of the joined tables have different types: {shown}", "declare the same")


def _not_by_key(
    query: QueryText, plan: Any, one: Any, other: Any, declarations: Mapping[str, Declaration]
) -> Exception:
    join = next(node for node in spark_plans.walk(plan) if class_name(node) == "Join")
    names = [declarations[spark_plans.relation_name(view).lower()] for view in (one, other)]
    keys = [f"{table.name} ({', '.join(column.name for column in table.key_columns)})" for table in names]
    return refuse(
        query,
        join,
        f"tables are joined by their primary keys only: the keys are {keys[0]} and {keys[1]}. A join by another column "
        "(a foreign key) would have to find all rows that refer to a changed one",
        f"join ON the keys; or declare {names[0].name} as a STREAM, then each of its records meets the current row of "
        f"{names[1].name}",
    )


def _equal_columns(plan: Any) -> dict[int, set[int]]:
    """The columns of relations that are equal in the result of the joins, by id."""
    found: dict[int, set[int]] = {}
    joins = [node for node in spark_plans.walk(plan) if class_name(node) == "Join"]
    conditions = [(node, node.condition().get()) for node in joins if not node.condition().isEmpty()]
    if all(str(node.joinType().toString()) in ("Inner", "Cross") for node in joins):
        conditions += [(node, node.condition()) for node in spark_plans.walk(plan) if class_name(node) == "Filter"]
    for node, condition in conditions:
        for left, right in _equalities(condition):
            one, other = (_relation_column(node, side) for side in (left, right))
            if one is not None and other is not None:
                both = found.get(one, {one}) | found.get(other, {other})
                for column in both:
                    found[column] = both
    return found


def _equalities(condition: Any) -> Iterator[tuple[Any, Any]]:
    if class_name(condition) == "And":
        yield from _equalities(condition.left())
        yield from _equalities(condition.right())
    elif class_name(condition) == "EqualTo" and is_attribute(condition.left()) and is_attribute(condition.right()):
        yield condition.left(), condition.right()


def _relation_column(node: Any, attribute: Any) -> int | None:
    """The id of the relation's column that this attribute of a join is, or None if it is computed."""
    for child in children(node):
        if any(expression_id(one) == expression_id(attribute) for one in items(child.output())):
            below, origin = spark_plans.origin_of(child, expression_id(attribute))
            return expression_id(origin) if class_name(below) == "View" and origin is not None else None
    return None


def result_key(
    query: QueryText, plan: Any, declarations: Mapping[str, Declaration], orders: Mapping[str, list[str]]
) -> tuple[str, ...]:
    """The columns of the result that are the key. Raises if the result does not have the whole key."""
    views = views_of(plan)
    always = _always_there(plan)
    places: dict[int, int] = {}
    for view in views:
        ids = key_ids(view, declarations)
        for place, name in enumerate(orders[spark_plans.relation_name(view).lower()]):
            places[ids[name.lower()]] = place
    found: dict[int, str] = {}
    for attribute in items(plan.output()):
        node, origin = spark_plans.origin_of(plan, expression_id(attribute))
        parts = _key_parts(node, origin)
        shown = {places.get(one) for one in parts}
        if len(shown) == 1 and None not in shown and (parts & always or len(parts) == len(views)):
            found.setdefault(next(one for one in shown if one is not None), str(attribute.name()))
    first = orders[spark_plans.relation_name(views[0]).lower()]
    missing = [name for place, name in enumerate(first) if place not in found]
    if missing:
        instead = "coalesce(a.key, b.key)" if not always else ", ".join(missing)
        raise refuse(
            query,
            plan,
            f"the result does not have the key ({', '.join(missing)}), which identifies the rows that change",
            f"add {instead} to SELECT",
        )
    return tuple(found[place] for place in range(len(first)))


def _key_parts(node: Any, origin: Any) -> set[int]:
    """The relations' columns that a column of the result is, or is the first non-null one of."""
    if origin is None:
        return set()
    if class_name(node) == "View":
        return {expression_id(origin)}
    parts = list(spark_plans.walk_expression(origin))
    if all(class_name(one) in ("Coalesce", "AttributeReference") for one in parts):
        columns = [_relation_column(node, one) for one in parts if is_attribute(one)]
        return {one for one in columns if one is not None}
    return set()


def _always_there(plan: Any) -> set[int]:
    """The columns of the tables that have a row in every row of the result; outer joins fill the others with null."""
    if class_name(plan) == "View":
        return {expression_id(one) for one in items(plan.output())}
    sides = [_always_there(child) for child in children(plan)]
    if class_name(plan) != "Join":
        return sides[0] if sides else set()
    kind = str(plan.joinType().toString())
    if kind == "FullOuter":
        return set()
    if kind in ("LeftOuter", "LeftSemi", "LeftAnti"):
        return sides[0]
    return sides[1] if kind == "RightOuter" else sides[0] | sides[1]
