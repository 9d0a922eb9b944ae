"""Fixtures of the tests of pull queries: tables on topics of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau import Producer
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.index.key_index import KeyIndex

COLUMNS = (
    ColumnDeclaration("customer", "STRING", is_key=True),
    ColumnDeclaration("total", "DOUBLE"),
    ColumnDeclaration("orders", "BIGINT"),
)


@pytest.fixture
def table(new_topic: Callable[..., str]) -> Callable[..., Declaration]:
    """`table(partitions=1, columns=…, name="totals", **fields)`: a table with a topic of its own."""

    def declare(
        partitions: int = 1, columns: tuple[ColumnDeclaration, ...] = COLUMNS, name: str = "totals", **fields: str
    ) -> Declaration:
        topic = new_topic(partitions, {"cleanup.policy": "compact"})
        return Declaration(name, RelationKind.TABLE, topic, columns, query="q", **fields)  # type: ignore[arg-type]

    return declare


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    with Producer(bootstrap_servers=bootstrap) as made:
        yield made


@pytest.fixture
def opened(bootstrap: str, tmp_path: Path) -> Iterator[Callable[[Declaration], KeyIndex]]:
    """`opened(declaration)`: an index that the end of the test closes."""
    indexes: list[KeyIndex] = []

    def open_index(declaration: Declaration) -> KeyIndex:
        index = KeyIndex(declaration, {"bootstrap.servers": bootstrap}, str(tmp_path / declaration.topic))
        indexes.append(index)
        return index

    yield open_index
    for index in indexes:
        index.close()
