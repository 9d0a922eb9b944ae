"""Decision whether a query asks for the rows of some keys, from Spark's parsed plan. Pure functions.

The plan comes as JSON from Spark's own parser (`LogicalPlan.toJSON`), with no name resolved. A pull query reads one
relation, and the WHERE clause next to it compares every key column with literals (`=` or IN), joined by AND with
anything else. Then all rows that the query can use are among the rows of these keys: Spark can run the whole query on
them. A query that also has only plain columns in its SELECT, and nothing else in its WHERE, needs no Spark at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.sql.index.table_keys import KeyValue

CHAIN: Final = frozenset(
    {
        "Project",
        "Filter",
        "SubqueryAlias",
        "GlobalLimit",
        "LocalLimit",
        "Offset",
        "Sort",
        "Distinct",
        "Aggregate",
        "UnresolvedHaving",
        "UnresolvedRelation",
    }
)
"""The nodes of a pull query. Each has one child, down to the relation."""
OTHER_PLANS: Final = ("Subquery", "Exists", "ListQuery", "LateralColumn")
"""Parts of the names of expressions that contain a plan of their own."""
STAR: Final = "*"


@dataclass(frozen=True)
class PlainColumn:
    """A column in the SELECT, or `*`. `name` is as written; `shown` is its name in the result."""

    name: str
    shown: str


@dataclass(frozen=True)
class PullQuery:
    """A query that may be a pull query: whether it is one depends on the key columns of the table."""

    relation: str
    alias: str
    literals: Mapping[str, tuple[KeyValue, ...]] = field(default_factory=dict)
    """The values that the WHERE clause allows, by the lower-case name of the column."""
    plain: tuple[PlainColumn, ...] | None = None
    """The columns of the SELECT, if there is nothing else in the query than these and `literals`."""


class PlanNode:
    """A node of an expression: its class without the package, its fields, its children."""

    def __init__(self, fields: Mapping[str, Any], children: list[PlanNode]) -> None:
        self.kind = _kind(fields)
        self.fields = fields
        self.children = children

    def parts(self) -> tuple[str, ...]:
        """The parts of a name. A name with a comma or bracket in it is not understood, and is equal to no column."""
        return tuple(str(self.fields["nameParts"])[1:-1].split(", "))


def _kind(fields: Mapping[str, Any]) -> str:
    return str(fields["class"]).rpartition(".")[2]


def read_pull_query(plan_json: str) -> PullQuery | None:
    """The query, or None if it reads anything else than one relation below a WHERE clause."""
    nodes: list[dict[str, Any]] = json.loads(plan_json)
    kinds = [_kind(node) for node in nodes]
    if not CHAIN.issuperset(kinds) or any(node["num-children"] > 1 for node in nodes) or _has_other_plans(nodes):
        return None
    if kinds[-1] != "UnresolvedRelation":
        return None
    named = kinds[-2:-1] == ["SubqueryAlias"]
    above = len(nodes) - (3 if named else 2)
    if above < 0 or kinds[above] != "Filter":
        return None
    relation = str(nodes[-1]["multipartIdentifier"])[1:-1]
    alias = str(nodes[-2]["identifier"]["name"]) if named else relation
    literals, only_literals = _literals(_expression(nodes[above]["condition"]), alias)
    plain = None
    if only_literals and kinds[:above] == ["Project"]:
        plain = _plain_columns([_expression(one) for one in nodes[0]["projectList"]], alias)
    return PullQuery(relation, alias, literals, plain)


def _has_other_plans(nodes: Sequence[Mapping[str, Any]]) -> bool:
    return any(part in kind for node in nodes for kind in _kinds(node) for part in OTHER_PLANS if kind not in CHAIN)


def _kinds(value: Any) -> Iterator[str]:
    """The classes of all expressions in the fields of a node."""
    if isinstance(value, Mapping):
        if "class" in value:
            yield _kind(value)
        for one in value.values():
            yield from _kinds(one)
    elif isinstance(value, list):
        for one in value:
            yield from _kinds(one)


def _expression(flat: Sequence[Mapping[str, Any]]) -> PlanNode:
    """The tree of an expression. Spark writes it as a list, each node before its children."""
    nodes = iter(flat)

    def build() -> PlanNode:
        fields = next(nodes)
        return PlanNode(fields, [build() for _ in range(fields["num-children"])])

    return build()


# -- WHERE -------------------------------------------------------------------------------------------------------------


def _literals(condition: PlanNode, alias: str) -> tuple[dict[str, tuple[KeyValue, ...]], bool]:
    """The allowed values by column, and whether the condition says nothing else."""
    found: dict[str, tuple[KeyValue, ...]] = {}
    only = True
    for part in _conjuncts(condition):
        one = _compared(part, alias)
        if one is None or one[0] in found:
            only = False
        else:
            found[one[0]] = one[1]
    return found, only


def _conjuncts(node: PlanNode) -> Iterator[PlanNode]:
    if node.kind == "And":
        for child in node.children:
            yield from _conjuncts(child)
    else:
        yield node


def _compared(node: PlanNode, alias: str) -> tuple[str, tuple[KeyValue, ...]] | None:
    """`column = literal`, `literal = column` or `column IN (literals)`."""
    sides = list(node.children)
    if node.kind == "EqualTo" and sides[0].kind == "Literal":
        sides.reverse()
    if node.kind not in ("EqualTo", "In"):
        return None
    name = _column(sides[0], alias)
    values = [_value(one) for one in sides[1:]]
    if name is None or not values:
        return None
    known = [one for one in values if one is not None]
    return (name.lower(), tuple(known)) if len(known) == len(values) else None


def _value(node: PlanNode) -> KeyValue | None:
    """The value of a literal of a type that keys can have; None for everything else, also for NULL."""
    if node.kind != "Literal" or node.fields["value"] is None:
        return None
    text = str(node.fields["value"])
    match node.fields["dataType"]:
        case "string":
            return text
        case "byte" | "short" | "integer" | "long":
            return int(text)
        case "boolean":
            return text == "true"
        case _:
            return None


def _column(node: PlanNode, alias: str) -> str | None:
    """The name of a column, with or without the relation in front of it."""
    if node.kind != "UnresolvedAttribute":
        return None
    parts = node.parts()
    if len(parts) == 1:
        return parts[0]
    return parts[1] if len(parts) == 2 and parts[0].lower() == alias.lower() else None


# -- SELECT ------------------------------------------------------------------------------------------------------------


def _plain_columns(items: Sequence[PlanNode], alias: str) -> tuple[PlainColumn, ...] | None:
    found = []
    for item in items:
        inner = item.children[0] if item.kind == "Alias" else item
        if item.kind == "UnresolvedStar":
            found.append(PlainColumn(STAR, STAR))
        elif (name := _column(inner, alias)) is not None:
            found.append(PlainColumn(name, str(item.fields["name"]) if item.kind == "Alias" else name))
        else:
            return None
    return tuple(found)
