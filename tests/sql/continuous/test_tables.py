"""Tables in continuous queries: after any updates, deletions and inserts the rows are those of the bounded SELECT."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.sql.continuous import ContinuousPlan
from tests.sql.continuous.conftest import Declare, settled

if TYPE_CHECKING:
    from moldau.sql.session import SqlSession

Row = tuple[dict[str, Any] | None, str]


def random_changes(chance: random.Random, count: int, fields: dict[str, list[Any]]) -> list[Row]:
    """Inserts, updates, deletions and inserts again of a few keys, with null values."""
    return [
        (None if chance.random() < 0.25 else {name: chance.choice(some) for name, some in fields.items()}, key)
        for key in (f"k{chance.randrange(9)}" for _ in range(count))
    ]


def two_tables(
    name: str, declare: Declare, records: Callable[..., None], chance: random.Random, count: int
) -> dict[str, str]:
    names = {"a": f"{name}a", "b": f"{name}b"}
    fields = {"region": ["eu", "us", None], "credit": [1, 2, 3, None], "score": [0.0, -0.0, 1.5]}
    records(names["a"], random_changes(chance, count, fields), partitions=2)
    records(names["b"], random_changes(chance, count, {"name": ["x", "y", None]}), partitions=3)
    declare("TABLE", names["a"], "id STRING, region STRING, credit INT, score DOUBLE", key="id")
    declare("TABLE", names["b"], "id STRING, name STRING", key="id")
    return names


QUERIES = [
    "SELECT *, credit * 2 AS twice FROM {a} WHERE credit > 1",
    "SELECT a.id, region, b.name FROM {a} a LEFT JOIN {b} b ON a.id = b.id WHERE a.region = 'eu' OR b.name IS NULL",
    "SELECT score, region, count(credit) AS n, avg(credit) AS mean, count(DISTINCT credit) AS kinds, "  # noqa: ISC004
    "collect_list(id) AS ids FROM {a} WHERE id <> 'k0' GROUP BY score, region HAVING count(*) > 1",
]


def test_the_rows_after_random_changes_are_those_of_the_bounded_query(
    session: SqlSession,
    declare: Declare,
    planned: Callable[[str], ContinuousPlan],
    records: Callable[..., None],
    name: str,
    seed: int,
    count: Callable[[int, int], int],
) -> None:
    chance = random.Random(seed)
    names = two_tables(name, declare, records, chance, count(30, 3000))
    for query in QUERIES:
        text = query.format(**names)
        settled(session, planned(f"{text} EMIT CHANGES"), text)
