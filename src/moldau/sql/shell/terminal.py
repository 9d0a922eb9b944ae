"""Interactive shell: a prompt with history, completion and colours, which runs what is typed.

The prompt appears at once; Spark starts in the background, and the first statement waits for it. Ctrl-C ends the
statement that runs, or clears the one that is typed; Ctrl-D and `exit` leave.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from rich.console import Console
from rich.text import Text

from moldau.client.errors import MoldauError
from moldau.sql.errors import SqlError
from moldau.sql.parser import is_complete
from moldau.sql.shell.completion import candidates, relations_in
from moldau.sql.shell.error_text import explained
from moldau.sql.shell.known_names import NameReader
from moldau.sql.shell.scripts import ScriptError, ScriptRunner
from moldau.sql.shell.session_names import SessionNames
from moldau.sql.shell.sql_lexer import MoldauSqlLexer
from moldau.sql.shell.statement_help import help_text
from moldau.sql.shell.terminal_tables import TerminalWriter

if TYPE_CHECKING:
    from rich.status import Status

    from moldau.sql.shell.spark_start import SessionStart

PROMPT: Final = "sql> "
CONTINUATION: Final = "  -> "
LEAVE: Final = re.compile(r"\s*(exit|quit)\s*;?\s*", re.IGNORECASE)
HELP: Final = re.compile(r"\s*help(\s+[^;]*)?\s*;?\s*", re.IGNORECASE)
WELCOME: Final = "moldau sql: statements end with a semicolon; help lists them, Ctrl-D leaves."


def is_command(text: str) -> bool:
    """Whether the text is a word of the shell itself, which needs no semicolon."""
    return LEAVE.fullmatch(text) is not None or HELP.fullmatch(text) is not None


class SqlCompleter(Completer):
    """Completion from the names that were read so far."""

    def __init__(self, names: NameReader) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before, after = document.text_before_cursor, document.text_after_cursor
        self._names.want(relations_in(before + after))
        size, found = candidates(before, after, self._names.known)
        if size == 0 and not complete_event.completion_requested:
            return  # a list after each blank would be in the way
        for candidate in found:
            yield Completion(candidate.text, start_position=-size, display_meta=candidate.kind)


class Shell:
    """The loop of the shell."""

    def __init__(self, start: SessionStart, settings: Iterable[str], history: Path) -> None:
        """`settings`: SET statements that run before the first statement of the user."""
        self._start = start
        self._before = list(settings)
        self._console = Console(highlight=False)
        self._names = NameReader(lambda: SessionNames(start.wait().sql))
        self._status: Status | None = None
        self._runner = ScriptRunner(
            start.wait, TerminalWriter(self._console), on_wait=self._show_status, on_ready=self._hide_status
        )
        self._prompt: PromptSession[str] = PromptSession(
            history=_history(history),
            completer=SqlCompleter(self._names),
            complete_while_typing=True,
            lexer=PygmentsLexer(MoldauSqlLexer),
            multiline=True,
            key_bindings=_key_bindings(),
            prompt_continuation=CONTINUATION,
            enable_history_search=True,
        )

    def run(self) -> int:
        """Reads and runs until the user leaves. Returns the exit code of the process."""
        self._print(WELCOME, "dim")
        try:
            while True:
                try:
                    text = self._prompt.prompt(PROMPT)
                except KeyboardInterrupt:
                    continue
                except EOFError:
                    return 0
                if LEAVE.fullmatch(text):
                    return 0
                self._handle(text)
        finally:
            self._names.close()

    def _handle(self, text: str) -> None:
        if (wanted := HELP.fullmatch(text)) is not None:
            self._print(help_text(wanted.group(1) or ""))
            return
        try:
            while self._before:
                self._runner.run(self._before[0])
                self._before.pop(0)
            self._runner.run(text)
        except KeyboardInterrupt:
            self._print("ended by Ctrl-C", "yellow")
        except ScriptError as error:
            self._print(f"error: {error}", "red")
        except SqlError as error:
            self._print(explained(error, text), "red")
        except MoldauError as error:
            self._print(f"error: {error}", "red")
        except Exception as error:  # noqa: BLE001 - the shell outlives what it cannot explain
            self._print(f"error: {type(error).__name__}: {error}", "red")
        finally:
            self._hide_status()
            self._names.forget()

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)

    def _show_status(self) -> None:
        text = "running" if self._start.is_done else "Spark is starting"
        if self._status is None:
            self._status = self._console.status(f"{text} …")
            self._status.start()
        else:
            self._status.update(f"{text} …")

    def _hide_status(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _history(path: Path) -> History:
    """The history file, for its user only: statements may contain secrets. In memory if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return FileHistory(str(path))
    except OSError:
        return InMemoryHistory()


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        """Run what is complete, else begin a new line."""
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # the completion that is marked is taken, and nothing runs yet
        elif is_command(buffer.text) or is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


def run_shell(start: SessionStart, settings: Iterable[str], history: Path) -> int:
    return Shell(start, settings, history).run()
