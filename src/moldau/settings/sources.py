"""Sources of settings: a properties file, environment variables, and `--set` on the command line.

Later sources override earlier ones, in that order. This module reads nothing itself: the caller passes the text of the
file and the environment in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.settings.kafka_only import check_spelling, kafka_only
from moldau.settings.listener_overrides import declared_override
from moldau.settings.setting import SettingError
from moldau.settings.table import SettingTable

ENVIRONMENT_PREFIX = "MOLDAU_"
NOT_SETTINGS = ("MOLDAU_BOOTSTRAP_SERVERS", "MOLDAU_COMMAND_CONFIG", "MOLDAU_FAULT_POINT", "MOLDAU_PURE", "MOLDAU_SOAK")
"""Variables with our prefix that are not broker settings: they configure commands, builds or tests."""
SERVICE_PREFIXES = ("MOLDAU_CONNECT_",)
"""Prefixes of variables that set the settings of a service."""

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def gather(
    table: SettingTable,
    *,
    properties: str = "",
    environment: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
) -> dict[str, str]:
    """Collect the texts of all given settings by name, without validating the values.

    A file may contain settings of Kafka or of its plugins. On the command line and in the environment, a name that
    neither Moldau nor Kafka knows is an error.
    """
    texts = read_properties(properties)
    for name in texts:
        if name not in table:
            check_spelling(name, table)
    texts.update(read_environment(environment or {}, table))
    for name, text in map(read_assignment, assignments):
        if not _is_known(name, table):
            raise table.unknown(name)
        texts[name] = text
    return texts


def _is_known(name: str, table: SettingTable) -> bool:
    return name in table or name in kafka_only() or declared_override(name) is not None


def read_assignment(text: str) -> tuple[str, str]:
    """Parse `name=value`, the format of `--set`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingError(text, "not of the form name=value")
    return name.strip(), value.strip()


def read_environment(environment: Mapping[str, str], table: SettingTable) -> dict[str, str]:
    """`MOLDAU_LOG_DIRS` sets `log.dirs`. Settings under `moldau.` need no second prefix: `MOLDAU_METRICS_PORT`."""
    texts: dict[str, str] = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in NOT_SETTINGS:
            continue
        if variable.startswith(SERVICE_PREFIXES):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
        own = f"moldau.{name}"
        if name not in table and own in table:
            name = own
        if not _is_known(name, table):
            raise SettingError(variable, f"is in the environment, but {table.unknown(name)}")
        texts[name] = text
    return texts


def read_properties(text: str) -> dict[str, str]:
    """Parse Java's properties format.

    A line is `name=value`, `name: value` or `name value`. `#` and `!` start comments. A backslash at the end of a line
    continues it, elsewhere it escapes. If a name occurs twice, the last value counts, as in Java.
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        name, value = _split(line)
        properties[_unescape(name, number)] = _unescape(value, number)
    return properties


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """The lines with continuations joined and leading blanks removed, without comments and empty lines."""
    pending, started = "", 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(" \t\f")
        if not pending:
            started = number
            if not line or line[0] in "#!":
                continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:  # an odd number: the last backslash is not escaped, so the line continues
            pending += line[:-1]
            continue
        yield started, pending + line
        pending = ""
    if pending:
        yield started, pending


def _split(line: str) -> tuple[str, str]:
    """Split into name and value at the first separator that is not escaped."""
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
