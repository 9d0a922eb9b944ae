"""docs/authorization.md compared with the denial matrix."""

from __future__ import annotations

from pathlib import Path

from tests.authorization.table import HEAD, table

PAGE = Path(__file__).parents[2] / "docs" / "authorization.md"


def test_the_table_of_the_page_is_that_of_the_matrix() -> None:
    """To write it again: python -m tests.authorization.table"""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEAD[0])
    end = next(place for place in range(start, len(lines)) if not lines[place].startswith("|"))
    assert lines[start:end] == table()
