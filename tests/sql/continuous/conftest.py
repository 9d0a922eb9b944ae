"""Continuous queries in tests: relations that are declared, results that are taken until they have settled.

live(text)                      the plan of a continuous SELECT and its changes, until `settled` sees no more
table_of(changes, key)          the rows that a reader of the changes has in the end
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from moldau.sql.catalogue import Catalogue
from moldau.sql.continuous import ContinuousPlan, changes, plan
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.parser import parse
from moldau.sql.results import RowChange
from moldau.sql.tables.relations import Relations
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from moldau.sql.session import SqlSession

DEADLINE_S = 240
PER_TRIGGER = 15
Declare = Callable[..., Declaration]


def declaration(kind: str, name: str, columns: str, key: str = "", **facts: Any) -> Declaration:
    """A declaration of the topic `name`; `columns` in Spark's DDL, those named in `key` are in the record's key."""
    keys = [one.strip() for one in key.split(",")]
    found = [one.strip().split(" ", 1) for one in columns.split(",")]
    declared = tuple(ColumnDeclaration(one, type_, one in keys) for one, type_ in found)
    return Declaration(name, RelationKind(kind), name, declared, text="declared by a test", **facts)


@pytest.fixture
def catalogue(session: SqlSession) -> Catalogue:
    return session.catalogue


@pytest.fixture
def declare(catalogue: Catalogue) -> Declare:
    def run(kind: str, name: str, columns: str, key: str = "", **facts: Any) -> Declaration:
        made = declaration(kind, name, columns, key, **facts)
        catalogue.declare(made)
        return made

    return run


@pytest.fixture
def relations(session: SqlSession) -> Iterator[Relations]:
    """With small micro-batches, so that a few records make several."""
    opened = Relations(session.spark, session.client_settings, session.catalogue, max_offsets_per_trigger=PER_TRIGGER)
    yield opened
    opened.close()


@pytest.fixture
def planned(session: SqlSession, relations: Relations) -> Callable[[str], ContinuousPlan]:
    def run(text: str) -> ContinuousPlan:
        (statement,) = parse(text + ";")
        query: Any = statement
        return plan(session.spark, query.query, relations)

    return run


def take(made: ContinuousPlan, enough: Callable[[list[RowChange]], bool]) -> list[RowChange]:
    """The changes of a query until there are enough, in the order in which they came."""
    live = changes(made)
    found: list[RowChange] = []
    for change in live:
        found.append(change)
        if enough(found):
            live.stop()
    return found


def all_read(query: Any) -> bool:
    """Whether the query has processed every record that its topics have."""
    from moldau.spark import lag

    progress = query.lastProgress
    return progress is not None and progress["numInputRows"] == 0 and not sum(lag(progress).values())


def table_of(changes: list[RowChange], key: tuple[int, ...]) -> set[tuple[Any, ...]]:
    rows: dict[Any, tuple[Any, ...]] = {}
    for change in changes:
        name = tuple(repr(change.row[index]) for index in key)
        if change.deleted:
            rows.pop(name, None)
        else:
            rows[name] = change.row
    return {tuple(_plain(value) for value in row) for row in rows.values()}


def _plain(value: Any) -> Any:
    return tuple(sorted(map(str, value))) if isinstance(value, list) else value


def expected(session: SqlSession, text: str) -> set[tuple[Any, ...]]:
    """The rows of the bounded SELECT."""
    (statement,) = parse(text + ";")
    result: Any = session.execute(statement)
    return {tuple(_plain(value) for value in row) for row in result.rows}


def settled(session: SqlSession, made: ContinuousPlan, text: str) -> set[tuple[Any, ...]]:
    """Run a TABLE's query until its rows are those of the bounded SELECT, and return them; fails if they never are."""
    wanted = expected(session, text)
    live = changes(made)
    found: list[RowChange] = []

    def read() -> None:
        found.extend(live)

    from threading import Thread

    reader = Thread(target=read)
    reader.start()
    try:
        wait_until(lambda: table_of(list(found), live.key) == wanted or not reader.is_alive(), "the rows", DEADLINE_S)
    finally:
        live.stop()
        reader.join(DEADLINE_S)
    assert table_of(found, live.key) == wanted
    return wanted
