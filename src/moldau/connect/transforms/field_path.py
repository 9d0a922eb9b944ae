"""Paths to fields: a plain field name (`field.syntax.version=V1`), or names divided by dots (V2, KIP-821).

In V2 a name that has dots itself stands between backticks: `a.b`.c is the field c of the field "a.b". A backslash
before a backtick that is followed by a dot makes it a part of the name.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.connect.config_def import ConfigError, ConfigKey, ConfigType, Importance

SYNTAX: Final = "field.syntax.version"


def _known_version(name: str, value: Any) -> str | None:
    if str(value).upper() in ("V1", "V2"):
        return None
    return f"Invalid value {value} for configuration {name}: String must be one of (case insensitive): V1, V2"


SYNTAX_KEY: Final = ConfigKey(
    SYNTAX,
    ConfigType.STRING,
    "V1: the setting is the name of a field. V2: names of nested fields divided by dots; backticks around a name "
    "that has dots itself.",
    "V1",
    Importance.HIGH,
    _known_version,
)


def field_path(path: str, version: str) -> list[str]:
    """The names on the way to the field, from the outermost one. ConfigError for a backtick without its pair."""
    if version.upper() == "V1":
        return [path]
    names: list[str] = []
    position = 0
    while 0 <= position < len(path):
        if path[position] == "`":
            name, position = _quoted(path, position)
        else:
            name, dot, _ = path[position:].partition(".")
            position = position + len(name) + 1 if dot else -1
        names.append(name)
    if path.endswith("."):
        names.append("")
    return names


def _quoted(path: str, opening: int) -> tuple[str, int]:
    """The name between a backtick and the one that closes it, and the position after the dot that follows."""
    name, start, position = "", opening + 1, opening + 1
    while True:
        position = path.find("`", position)
        escaped = position > 0 and path[position - 1] == "\\"
        if position < 0 or (position == len(path) - 1 and escaped):
            raise ConfigError(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at "
                f"position {opening} to escape it"
            )
        if position == len(path) - 1:
            return name + path[start:position], position + 1
        if path[position + 1] == ".":
            if not escaped:
                return name + path[start:position], position + 2
            name += path[start : position - 1] + "`"
            start = position + 1
        position += 1
