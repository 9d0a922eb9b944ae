"""Completion in the shell: what is offered at the cursor."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from moldau.sql.shell.completion import KnownNames, candidates, relations_in
from moldau.sql.shell.known_names import NameReader
from tests.support.waiting import wait_until

KNOWN = KnownNames(
    relations=("orders", "users", "my-topic"),
    queries=("sales", "counts"),
    columns={"orders": ("city", "price", "of user"), "users": ("id", "city")},
    functions=("concat", "concat_ws", "count"),
)


def offered(before: str, after: str = "") -> list[str]:
    return [candidate.text for candidate in candidates(before, after, KNOWN)[1]]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("SEL", ["SELECT"]),
        ("cre", ["CREATE STREAM", "CREATE TABLE", "CREATE OR REPLACE"]),
        ("SHOW TOPICS; sel", ["SELECT"]),
        ("SHOW T", ["TOPICS", "TABLES"]),
        ("show q", ["QUERIES"]),
        ("SELECT * FROM o", ["orders"]),
        ("SELECT * FROM ", ["orders", "users", "`my-topic`"]),
        ("SELECT * FROM m", ["`my-topic`"]),
        ("SELECT * FROM `m", ["`my-topic`"]),
        ("SELECT * FROM orders JOIN u", ["users"]),
        ("SELECT * FROM orders, u", ["users"]),
        ("INSERT INTO us", ["users"]),
        ("DESCRIBE m", ["my-topic"]),
        ("PRINT my", ["my-topic"]),
        ("PRINT orders F", ["FROM BEGINNING"]),
        ("DROP STREAM u", ["users"]),
        ("SELECT * FROM orders WHERE pri", ["price"]),
        ("SELECT * FROM orders WHERE of", ["`of user`"]),
        ("SELECT * FROM orders o JOIN users AS u ON o.", ["city", "price", "`of user`"]),
        ("SELECT * FROM orders o JOIN users AS u ON u.i", ["id"]),
        ("SELECT concat", ["concat", "concat_ws"]),
        ("SELECT * FROM orders EMIT ", ["CHANGES"]),
        ("SELECT * FROM orders em", ["EMIT CHANGES"]),
        ("SELECT * FROM orders WINDOW ", ["TUMBLING", "HOPPING", "SESSION"]),
        ("CREATE STREAM x WITH (par", ["partitions"]),
        ("CREATE STREAM x WITH (topic='a', value_f", ["value_format"]),
        ("CREATE STREAM x (a VARC", ["VARCHAR"]),
        ("PAUSE s", ["sales"]),
        ("TERMINATE ", ["sales", "counts", "ALL"]),
        ("SELECT 'FROM o", []),
        ("SELECT 1 /* FROM o", []),
        ("SELECT nothing.", []),
    ],
)
def test_what_fits_at_the_cursor_is_offered(before: str, expected: list[str]) -> None:
    assert offered(before) == expected


def test_columns_of_a_relation_that_is_named_after_the_cursor_are_offered() -> None:
    assert offered("SELECT pr", " FROM orders; SELECT x FROM users") == ["price"]
    assert offered("SELECT i", " FROM orders; SELECT x FROM users") == ["IS NULL", "IS NOT NULL", "INTERVAL"]


def test_relations_of_the_last_statement_are_found() -> None:
    assert relations_in("SELECT * FROM a; SELECT * FROM b JOIN `c d` ON x") == ["b", "c d"]
    assert relations_in("SELECT 'open") == []


class SlowCluster:
    """A cluster that answers when the test lets it."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked: list[str] = []

    def _answer(self, names: Sequence[str]) -> Sequence[str]:
        assert self.may_answer.wait(60)
        return names

    def relations(self) -> Sequence[str]:
        return self._answer(["orders"])

    def queries(self) -> Sequence[str]:
        return self._answer(["sales"])

    def functions(self) -> Sequence[str]:
        return self._answer(["concat"])

    def columns(self, relation: str) -> Sequence[str]:
        self.asked.append(relation)
        if relation == "orders":
            return self._answer(["price"])
        raise AssertionError(relation)


def test_typing_does_not_wait_for_names() -> None:
    cluster = SlowCluster()
    names = NameReader(lambda: cluster)
    names.want(["orders", "nothing"])
    assert names.known == KnownNames()
    cluster.may_answer.set()
    expected = KnownNames(("orders",), ("sales",), {"orders": ("price",)}, ("concat",))
    wait_until(lambda: names.known == expected, "the names")
    names.want(["orders"])
    assert cluster.asked == ["orders"]
    names.close()
