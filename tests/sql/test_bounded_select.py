"""Bounded SELECT: a topic, or a declared relation, as of now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.sql.errors import SqlError

Sql = Callable[[str], Any]
Records = Callable[..., None]


def test_a_topic_is_a_table_without_a_declaration(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"id": 1, "city": "Prague"}, "a"), ({"id": 2, "city": None}, "b")])
    assert sql(f"SELECT key, id, city FROM {name} ORDER BY id") == [
        {"key": "a", "id": 1, "city": "Prague"},
        {"key": "b", "id": 2, "city": None},
    ]
    assert sql(f"SELECT count(*) AS n FROM {name.upper()} WHERE offset > 0") == [{"n": 1}]


def test_an_unknown_relation_is_named_with_its_place_and_the_nearest_name(
    sql: Sql, records: Records, name: str
) -> None:
    records(name, [({"id": 1}, "a")])
    with pytest.raises(SqlError) as raised:
        sql(f"SELECT 1;\nSELECT *\n  FROM {name}x")
    assert (raised.value.line, raised.value.column) == (3, 8)
    assert raised.value.hint == f"did you mean {name}?"
