"""Names for completion from a session: what SHOW and DESCRIBE list in their first column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from moldau.sql.results import Result, ResultRows
from moldau.sql.statements import START, DescribeStatement, Shown, ShowStatement, Statement


class Executor(Protocol):
    def execute(self, statement: Statement) -> Result: ...


class SessionNames:
    """A NameSource that asks the session."""

    def __init__(self, session: Executor) -> None:
        self._session = session

    def relations(self) -> Sequence[str]:
        return sorted({*self._shown(Shown.TOPICS), *self._shown(Shown.STREAMS), *self._shown(Shown.TABLES)})

    def queries(self) -> Sequence[str]:
        return self._shown(Shown.QUERIES)

    def functions(self) -> Sequence[str]:
        return [name for name in self._shown(Shown.FUNCTIONS) if name.isidentifier()]

    def columns(self, relation: str) -> Sequence[str]:
        return self._first_column(DescribeStatement(f"DESCRIBE `{relation}`", START, relation))

    def _shown(self, what: Shown) -> list[str]:
        return self._first_column(ShowStatement(f"SHOW {what}", START, what))

    def _first_column(self, statement: Statement) -> list[str]:
        result = self._session.execute(statement)
        return [str(row[0]) for row in result.rows] if isinstance(result, ResultRows) else []
