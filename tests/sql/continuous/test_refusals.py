"""Continuous queries that are refused: in SQL's words, at the place in the text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.sql.continuous import ContinuousPlan
from moldau.sql.errors import SqlError
from tests.sql.continuous.conftest import Declare

CASES = [
    ("SELECT id FROM {s}\n ORDER BY id", 2, 2, "cannot be sorted"),
    ("SELECT count(DISTINCT customer) AS n FROM {s}", 1, 8, "DISTINCT values"),
    ("SELECT a.id FROM {s} a JOIN {s2} b ON a.id = b.id", 1, None, "needs a bound of time"),
    ("SELECT a.id FROM {s} a JOIN {s2} b WITHIN 1 MINUTE USING (id)", 1, None, "needs ON"),
    ("SELECT a.id FROM {t} a JOIN {t2} b ON a.region = b.id", 1, None, "joined by their primary keys only"),
    ("SELECT n, count(*) AS m FROM (SELECT id, count(*) AS n FROM {s} GROUP BY id) GROUP BY n", 1, None, "aggregate"),
    ("SELECT region FROM {t}", 1, None, "does not have the key"),
    ("SELECT t.id FROM {t} t LEFT JOIN {s} s ON t.id = s.customer", 1, None, "LEFT JOIN of a stream and a table"),
    ("SELECT count(*) AS n FROM {s} GROUP BY customer", 1, None, "GROUP BY has"),
    ("SELECT id, row_number() OVER (ORDER BY amount) AS n FROM {s}", 1, None, "OVER needs all rows"),
    ("SELECT DISTINCT region FROM {t}", 1, None, "DISTINCT is not possible"),
    ("SELECT id, region FROM {t} UNION ALL SELECT id, name FROM {t2}", 1, None, "has no key"),
    ("SELECT id, region FROM {t} WHERE id IN (SELECT id FROM {t2})", 1, None, "subquery"),
    ("SELECT a.region, count(*) AS n FROM {t} a JOIN {t2} b ON a.id = b.id GROUP BY a.region", 1, None, "CREATE TABLE"),
    ("SELECT id, nosuch FROM {s}", 1, 12, "there is no column"),
    ("SELECT id FROM nosuch_relation_at_all", 1, 16, "there is no stream, table or topic"),
    ("SELECT a.customer, count(*) AS n FROM {s} a JOIN {s2} b WITHIN 1 MINUTE ON a.id = b.id GROUP BY a.customer",
     1, None, "needs a window of time"),
    ("SELECT 1 AS one", 1, 1, "needs a stream or a table"),
    ("SELECT a.id, b.name FROM {t} a FULL JOIN {t2} b ON a.id = b.id", 1, None, "coalesce"),
]  # fmt: skip


def test_queries_that_cannot_run_are_refused_at_their_place_in_words_of_sql(
    declare: Declare, planned: Callable[[str], ContinuousPlan], records: Callable[..., None], name: str
) -> None:
    names = {"s": f"{name}s", "s2": f"{name}s2", "t": f"{name}t", "t2": f"{name}t2"}
    for topic in names.values():
        records(topic, [])
    declare("STREAM", names["s"], "id STRING, customer STRING, amount DOUBLE", key="id")
    declare("STREAM", names["s2"], "id STRING, method STRING", key="id")
    declare("TABLE", names["t"], "id STRING, region STRING, credit INT", key="id")
    declare("TABLE", names["t2"], "id STRING, name STRING", key="id")
    for text, line, column, words in CASES:
        with pytest.raises(SqlError) as refused:
            planned(text.format(**names) + " EMIT CHANGES")
        error = refused.value
        assert words in str(error), (text, str(error))
        assert error.line == line, (text, str(error))
        assert column is None or error.column == column, (text, str(error))
        assert "java" not in str(error).lower() and "org.apache" not in str(error), str(error)
