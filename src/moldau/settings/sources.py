"""Where the texts of settings come from: a properties file, the environment, `--set` on the command line.

Later ones win, in that order. Nothing is read here: the caller passes the file's text and the environment in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.settings.setting import SettingError
from moldau.settings.table import SettingTable

ENVIRONMENT_PREFIX = "MOLDAU_"
NOT_SETTINGS = ("MOLDAU_BOOTSTRAP_SERVERS", "MOLDAU_FAULT_POINT", "MOLDAU_PURE", "MOLDAU_SOAK")
"""Variables with our prefix that say where commands connect to, or how code or tests run; not how a broker behaves."""

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def gather(
    table: SettingTable,
    *,
    properties: str = "",
    environment: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
) -> dict[str, str]:
    """The texts of all settings given anywhere, by name; the names are known, the values not yet looked at."""
    texts = read_properties(properties)
    texts.update(read_environment(environment or {}, table))
    texts.update(read_assignment(assignment) for assignment in assignments)
    for name in texts:
        _ = table[name]  # raises for an unknown one
    return texts


def read_assignment(text: str) -> tuple[str, str]:
    """`name=value`, as `--set` takes it."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingError(text, "not of the form name=value")
    return name.strip(), value.strip()


def read_environment(environment: Mapping[str, str], table: SettingTable) -> dict[str, str]:
    """`MOLDAU_LOG_DIRS` sets `log.dirs`; settings of our own need no second prefix: `MOLDAU_METRICS_PORT`."""
    texts: dict[str, str] = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in NOT_SETTINGS:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
        own = f"moldau.{name}"
        if name not in table and own in table:
            name = own
        if name not in table:
            raise SettingError(variable, f"is in the environment, but {table.unknown(name)}")
        texts[name] = text
    return texts


def read_properties(text: str) -> dict[str, str]:
    """Java's properties format: `name=value`, `name: value` or `name value`; `#` and `!` start comments; a backslash at
    the end continues a line, elsewhere it escapes. The last of several wins, as in Java."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        name, value = _split(line)
        properties[_unescape(name, number)] = _unescape(value, number)
    return properties


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Lines with their continuations joined, without blanks in front, comments and empty lines left out."""
    pending, started = "", 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(" \t\f")
        if not pending:
            started = number
            if not line or line[0] in "#!":
                continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:  # an odd one out is not itself escaped: the line goes on
            pending += line[:-1]
            continue
        yield started, pending + line
        pending = ""
    if pending:
        yield started, pending


def _split(line: str) -> tuple[str, str]:
    """Name and value, at the first separator that is not escaped."""
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    name, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return name, rest


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            pieces.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise SettingError(f"line {line_number}", f"\\u{digits} is not \\u and four hexadecimal digits")
            pieces.append(chr(int(digits, 16)))
            position += 4
        else:
            pieces.append(_ESCAPES.get(escaped, escaped))
    return "".join(pieces)
