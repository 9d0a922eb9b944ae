"""Names for completion from a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.sql.results import ResultRows
from moldau.sql.statements import START, DescribeStatement, Shown, ShowStatement, Statement

if TYPE_CHECKING:
    from moldau.sql.session import SqlSession


class SessionNames:
    """A NameSource that asks the session. The topics come from the cluster, the rest from what the session has read."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session

    def relations(self) -> Sequence[str]:
        return self._session.relations.names()

    def queries(self) -> Sequence[str]:
        return sorted(query.name for query in self._session.catalogue.queries.values())

    def functions(self) -> Sequence[str]:
        found = self._first_column(ShowStatement("SHOW FUNCTIONS", START, Shown.FUNCTIONS))
        return [name for name in found if name.isidentifier()]

    def columns(self, relation: str) -> Sequence[str]:
        return self._first_column(DescribeStatement(f"DESCRIBE `{relation}`", START, relation))

    def _first_column(self, statement: Statement) -> list[str]:
        result = self._session.execute(statement)
        return [str(row[0]) for row in result.rows] if isinstance(result, ResultRows) else []
