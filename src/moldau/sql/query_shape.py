"""Shape of a query by Spark's parser: relations, stars, names and LIMIT, with their places in the text.

Spark parses the text; this module only walks the tree. Nothing is resolved yet, so no relation needs to exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCAN_NODES: Final = frozenset({"GlobalLimit", "LocalLimit", "Project", "Filter", "SubqueryAlias", "UnresolvedRelation"})
"""The nodes of a query that reads one relation row by row: its first rows need only the first records."""

FROM_NODES: Final = frozenset({"Join", "Filter", "LateralJoin", "Generate", "UnresolvedHaving", "Sample"})
"""Nodes between a SELECT and the relations of its FROM clause."""


@dataclass(frozen=True)
class RelationMention:
    """One relation in a FROM clause. `start` and `stop` are the indexes of its first and last character."""

    name: str
    """Without quotes; the parts of a name such as `shop.orders` joined by dots."""
    parts: int
    alias: str
    """The name by which columns are qualified."""
    start: int
    stop: int


@dataclass(frozen=True)
class StarMention:
    """A `*`, or `o.*`, with the relations whose columns it stands for."""

    start: int
    stop: int
    relations: tuple[RelationMention, ...]


@dataclass
class QueryShape:
    """What the walk has found."""

    relations: list[RelationMention] = field(default_factory=list)
    stars: list[StarMention] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Every part of the names of columns, in lower case."""
    functions: set[str] = field(default_factory=set)
    limit: int | None = None
    """The number of an outermost LIMIT."""
    is_scan: bool = False
    """Whether the query reads one relation row by row: no join, aggregate, order, set operation or subquery."""

    @property
    def relation_names(self) -> list[str]:
        """The names as written, each once, ignoring case."""
        return list({one.name.lower(): one.name for one in reversed(self.relations)}.values())[::-1]


def shape_of(spark: SparkSession, text: str) -> QueryShape:
    """Parse a query. Raises Spark's ParseException."""
    plan = _java_session(spark).sessionState().sqlParser().parsePlan(text)
    walk = _Walk()
    walk.plan(plan, frozenset())
    shape = walk.shape
    shape.limit = _limit(plan)
    shape.is_scan = walk.kinds <= SCAN_NODES and len(shape.relations) == 1 and not walk.has_subquery
    return shape


def node_kinds(plan: Any) -> set[str]:
    """The kinds of nodes of a logical plan, without those in subqueries of expressions."""
    return {_kind(plan)}.union(*(node_kinds(child) for child in _items(plan.children())))


def _java_session(spark: SparkSession) -> Any:
    return spark._jsparkSession


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.length()))


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _span(node: Any) -> tuple[int, int]:
    origin = node.origin()
    start, stop = origin.startIndex(), origin.stopIndex()
    return (start.get(), stop.get()) if start.isDefined() and stop.isDefined() else (0, 0)


def _limit(plan: Any) -> int | None:
    if _kind(plan) == "UnresolvedWith":
        plan = plan.child()
    if _kind(plan) != "GlobalLimit":
        return None
    number = plan.limitExpr()
    text = str(number.toString())
    return int(text) if _kind(number) == "Literal" and text.isdigit() else None


class _Walk:
    def __init__(self) -> None:
        self.shape = QueryShape()
        self.kinds: set[str] = set()
        self.has_subquery = False

    def plan(self, node: Any, ctes: frozenset[str], alias: str | None = None) -> None:
        """Walk a logical plan. `ctes` are the names of WITH that are visible, in lower case."""
        kind = _kind(node)
        self.kinds.add(kind)
        if kind == "UnresolvedWith":
            self._with(node, ctes)
            return
        if kind == "UnresolvedRelation":
            self._relation(node, ctes, alias)
            return
        own = str(node.alias()) if kind == "SubqueryAlias" else None
        for child in _items(node.children()):
            self.plan(child, ctes, own)
        if kind == "LateralJoin":
            self.plan(node.right().plan(), ctes)
        within = None
        for expression in _items(node.expressions()):
            if within is None:
                within = _From(node, ctes)
            self.expression(expression, ctes, within)

    def _with(self, node: Any, ctes: frozenset[str]) -> None:
        recursive = bool(node.allowRecursion())
        for definition in _items(node.innerChildren()):
            name = str(definition.alias()).lower()
            self.plan(definition.child(), ctes | {name} if recursive else ctes)
            ctes |= {name}
        self.plan(node.child(), ctes)

    def _relation(self, node: Any, ctes: frozenset[str], alias: str | None) -> None:
        mention = _mention(node, ctes, alias)
        if mention is not None:
            self.shape.relations.append(mention)

    def expression(self, node: Any, ctes: frozenset[str], within: _From) -> None:
        kind = _kind(node)
        if kind in ("UnresolvedStar", "UnresolvedStarExceptOrReplace"):
            self._star(node, within)
        elif kind == "UnresolvedAttribute":
            self.shape.names.update(str(part).lower() for part in _items(node.nameParts()))
        elif kind == "UnresolvedFunction":
            self.shape.functions.add(str(list(_items(node.nameParts()))[-1]).lower())
        elif kind in ("ScalarSubquery", "Exists", "ListQuery"):
            self.has_subquery = True
            self.plan(node.plan(), ctes)
        elif kind in ("WindowExpression", "UnresolvedWindowExpression"):
            self.kinds.add(kind)
        for child in _items(node.children()):
            self.expression(child, ctes, within)

    def _star(self, node: Any, within: _From) -> None:
        target = node.target()
        relations = within.relations()
        if target.isDefined():
            wanted = ".".join(str(part) for part in _items(target.get())).lower()
            relations = tuple(one for one in relations if one.alias.lower() == wanted)
        self.shape.stars.append(StarMention(*_span(node), relations))


class _From:
    """The relations in the FROM clause of one SELECT, looked up only if it has a star."""

    def __init__(self, node: Any, ctes: frozenset[str]) -> None:
        self._node = node
        self._ctes = ctes

    def relations(self) -> tuple[RelationMention, ...]:
        return tuple(one for child in _items(self._node.children()) for one in self._below(child, None))

    def _below(self, node: Any, alias: str | None) -> Iterator[RelationMention]:
        kind = _kind(node)
        if kind == "UnresolvedRelation":
            mention = _mention(node, self._ctes, alias)
            if mention is not None:
                yield mention
        elif kind == "SubqueryAlias":
            yield from self._below_alias(node)
        elif kind in FROM_NODES:
            for child in _items(node.children()):
                yield from self._below(child, None)

    def _below_alias(self, node: Any) -> Iterator[RelationMention]:
        if _kind(node.child()) == "UnresolvedRelation":
            yield from self._below(node.child(), str(node.alias()))


def _mention(node: Any, ctes: frozenset[str], alias: str | None) -> RelationMention | None:
    parts = [str(part) for part in _items(node.multipartIdentifier())]
    name = ".".join(parts)
    if len(parts) == 1 and name.lower() in ctes:
        return None
    start, stop = _span(node)
    return RelationMention(name, len(parts), alias or name, start, stop)
