"""Statements of a text, one after the other: for scripts, and for what is typed in the shell.

All statements of a text are parsed before the first one runs: a script with a syntax error changes nothing. A script
ends at the first statement that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from moldau.sql.errors import SqlError
from moldau.sql.parser import Variables, parse
from moldau.sql.results import Notice, ResultColumn, RowChange
from moldau.sql.shell.result_writers import ResultWriter
from moldau.sql.shell.statement_run import Began, Ended, Event, RunSession, StatementRun
from moldau.sql.statements import DefineStatement, RunScriptStatement, Shown, ShowStatement, Statement

MAX_SCRIPTS: Final = 10
"""How deep RUN SCRIPT nests: a script that runs itself ends in an error."""
TEXT: Final = "string"


class ScriptError(SqlError):
    """An error of a statement in a file. Line and column are those of the file."""

    def __init__(self, path: str, error: SqlError) -> None:
        super().__init__(error.message, line=error.line, column=error.column, hint=error.hint)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {super().__str__()}"


class ScriptRunner:
    """Runs texts. It keeps the variables of DEFINE from one text to the next."""

    def __init__(
        self,
        session: Callable[[], RunSession],
        writer: ResultWriter,
        on_wait: Callable[[], None] = lambda: None,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_wait` is called while a statement has nothing to show yet, `on_ready` before something is shown."""
        self._session = session
        self._writer = writer
        self._on_wait = on_wait
        self._on_ready = on_ready
        self.variables: Variables = {}

    def run(self, text: str, depth: int = 0) -> None:
        """Run all statements. Raises SqlError; KeyboardInterrupt ends the statement that runs, and is raised again."""
        for statement in parse(text, self.variables):
            self._run_one(statement, depth)

    def _run_one(self, statement: Statement, depth: int) -> None:
        if isinstance(statement, DefineStatement):
            return  # the parser has done it
        if isinstance(statement, RunScriptStatement):
            self._run_script(statement, depth)
        elif isinstance(statement, ShowStatement) and statement.what is Shown.VARIABLES:
            self._show_variables()
        else:
            self.execute(statement)

    def _run_script(self, statement: RunScriptStatement, depth: int) -> None:
        where = statement.position
        if depth >= MAX_SCRIPTS:
            raise SqlError(
                f"scripts run each other more than {MAX_SCRIPTS} times", line=where.line, column=where.column
            )
        try:
            text = Path(statement.path).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SqlError(f"{statement.path} cannot be read: {reason}", line=where.line, column=where.column) from None
        try:
            self.run(text, depth + 1)
        except ScriptError:
            raise
        except SqlError as error:
            raise ScriptError(statement.path, error) from error

    def _show_variables(self) -> None:
        self._writer.begin([ResultColumn("name", TEXT), ResultColumn("value", TEXT)], (), continuous=False)
        self._writer.rows([RowChange(item) for item in sorted(self.variables.items())])
        self._writer.end(())

    def execute(self, statement: Statement) -> None:
        """Run one statement of the session, and show its result."""
        run = StatementRun(self._session, statement)
        begun = live = False
        try:
            for events in run.events():
                if events:
                    self._on_ready()
                elif not live:
                    self._on_wait()
                live = live or any(isinstance(event, Began) and event.continuous for event in events)
                begun = self._show(events, begun)
        except KeyboardInterrupt:
            self._on_ready()
            if begun:
                self._writer.end(())
            run.stop()
            raise
        except BaseException:  # an error of the statement, or a pipe whose reader has gone
            run.stop()
            raise

    def _show(self, events: list[Event], begun: bool) -> bool:
        rows: list[RowChange] = []
        for event in events:
            if isinstance(event, RowChange):
                rows.append(event)
            elif isinstance(event, Began):
                self._writer.begin(event.columns, event.key, continuous=event.continuous)
                begun = True
            elif isinstance(event, Notice):
                self._writer.notice(event)
            else:
                self._finish(rows, event, begun)
                return begun
        if rows:
            self._writer.rows(rows)
        if begun:
            self._writer.flush()
        return begun

    def _finish(self, rows: list[RowChange], ended: Ended, begun: bool) -> None:
        if begun:
            self._writer.rows(rows)
            self._writer.end(ended.notes)
        if ended.error is not None:
            raise ended.error
