"""Errors in plain words: the reason in one sentence, and the place in the file of the project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from moldau.pipelines.errors import PipelineError, SourceLine

MAX_REASON: Final = 600
"""Characters; a reason is a line on the screen, and the log file has the rest."""

TOO_SLOW: Final = "Python worker failed to connect back"
TOO_BUSY: Final = "a Python process of Spark did not start within 10 seconds, because the machine is busy"

_OURS: Final = re.compile(r"^moldau\.[\w.]*\.[A-Z]\w*: (.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)): (.+)$", re.MULTILINE)
_CLASS: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\]\s*")
_NOISE: Final = (
    re.compile(r"\s*SQLSTATE: \w+"),
    re.compile(r"\s*\(line \d+, pos \d+\)"),
    re.compile(r";?\s*line \d+ pos \d+;?"),
    re.compile(r"^\s*Query \[id = [^\]]*\] terminated with exception:\s*"),
    re.compile(r"^\s*\(org\.apache\.[\w.]+\)\s*"),
)
_END: Final = re.compile(r"\n\s*(?:==|JVM stacktrace|Traceback|at org\.|'|\+-)|;\s*\n|\n\n")
_LINE: Final = re.compile(r"\(line (\d+), pos(?:ition)? (\d+)\)|line (\d+) pos (\d+)")
_SQL_SHOWN: Final = re.compile(r"^== SQL.*?==\n(.*)", re.MULTILINE | re.DOTALL)
_CARETS: Final = re.compile(r"^\s*-*\^+\s*$")


def reason_of(text: str) -> str:
    """The reason in an error text of Spark: the message of our own error if it has one, else of the Python error in
    a worker, else Spark's, without error classes, SQL states, plans and stack traces."""
    if TOO_SLOW in text:
        return TOO_BUSY
    for pattern, group in ((_OURS, 1), (_PYTHON, 0)):
        found = pattern.search(text)
        if found:
            return _short(_without_noise(found.group(group)))
    message = text.rpartition("terminated with exception:")[2] if "terminated with exception:" in text else text
    message = _CLASS.sub("", message.lstrip())
    end = _END.search(message)
    return _short(_without_noise(message[: end.start()] if end else message))


def _without_noise(message: str) -> str:
    for pattern in _NOISE:
        message = pattern.sub("", message)
    return message.strip()


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= MAX_REASON else f"{line[:MAX_REASON]} …"


def place_in(text: str) -> tuple[int, int] | None:
    """Line and column, both from 1, that an error text names."""
    found = _LINE.search(text)
    if found is None:
        return None
    line, position = (int(one) for one in found.groups() if one is not None)
    return line, position + 1


def error_in_sql_file(error: BaseException, file: str, sql: str) -> PipelineError:
    """An error of Spark's parser, with the line in the file. Spark counts lines within a statement and shows that
    statement, so its place in the file is looked up."""
    text = str(error)
    place = place_in(text)
    if place is None:
        return PipelineError(reason_of(text), where=SourceLine(file))
    line, column = place
    return PipelineError(reason_of(text), where=SourceLine(file, line + _lines_before(text, sql), column))


def _lines_before(text: str, sql: str) -> int:
    shown = _SQL_SHOWN.search(text)
    if shown is None:
        return 0
    statement = "\n".join(line for line in shown.group(1).splitlines() if not _CARETS.match(line))
    at = sql.find(statement.strip())
    leading = statement[: len(statement) - len(statement.lstrip())].count("\n")
    return max(sql[: max(at, 0)].count("\n") - leading, 0)


def error_in_python_file(error: BaseException, root: Path) -> PipelineError:
    """An error in the project's Python code, with the last line of it that was being run."""
    where: SourceLine | None = None
    trace = error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(root):
            where = SourceLine(str(file.relative_to(root)), trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(root):
        where = SourceLine(str(Path(error.filename).relative_to(root)), error.lineno, error.offset)
        return PipelineError(f"not Python: {error.msg}", where=where)
    kind = type(error).__name__
    reason = reason_of(str(error)) or kind
    is_spark = type(error).__module__.startswith("pyspark")
    return PipelineError(reason if is_spark or isinstance(error, PipelineError) else f"{kind}: {reason}", where=where)
