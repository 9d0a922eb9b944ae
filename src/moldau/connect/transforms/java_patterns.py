"""Regular expressions of Java for names of topics: matching and replacing, once per distinct name.

A batch has few distinct topics, so the expression runs once for each and the results are taken by index. Python's
syntax is that of Java but for the names of groups, which are translated; what Python does not know (`\\p{...}`,
intersections of classes) is refused when the connector is configured.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from moldau.connect.config_def import ConfigError

_GROUP_NAME: Final = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_GROUP_REFERENCE: Final = re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>")
_REPLACEMENT: Final = re.compile(r"\\(.)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\$(\d)|([$\\])", re.DOTALL)


def java_pattern(text: str) -> re.Pattern[str]:
    """The compiled form of Java's expression; ConfigError says why it cannot be used."""
    translated = _GROUP_REFERENCE.sub(r"(?P=\1)", _GROUP_NAME.sub(r"(?P<\1>", text)).replace(r"\z", r"\Z")
    if "&&[" in text:
        raise ConfigError(f"Invalid regex {text!r}: intersections of character classes (&&) are not supported")
    try:
        return re.compile(translated)
    except re.error as error:
        raise ConfigError(f"Invalid regex {text!r}: {error}") from error


def check_pattern(name: str, value: Any) -> str | None:
    """A validator of settings with an expression."""
    try:
        java_pattern(value)
    except ConfigError as error:
        return f"Invalid value {value} for configuration {name}: {error}"
    return None


def expanded(match: re.Match[str], replacement: str) -> str:
    """A replacement in Java's syntax: $1, ${name}, and a backslash before a character that stands for itself."""
    found, position = "", 0
    while part := _REPLACEMENT.search(replacement, position):
        found += replacement[position : part.start()]
        position = part.end()
        escaped, name, digit, wrong = part.groups()
        if wrong:
            raise ValueError(f"Illegal group reference in replacement {replacement!r}")
        if escaped is not None:
            found += escaped
        elif name is not None:
            found += match[name] or ""
        else:
            number = int(digit)
            # As in Java, further digits belong to the number as long as there is such a group.
            while position < len(replacement) and replacement[position].isdigit():
                longer = number * 10 + int(replacement[position])
                if longer > match.re.groups:
                    break
                number, position = longer, position + 1
            found += match[number] or ""
    return found + replacement[position:]


def replaced(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """The text with its first match replaced, if the whole text matches; otherwise the text itself."""
    if not pattern.fullmatch(text):
        return text
    first = pattern.search(text)
    assert first is not None
    return text[: first.start()] + expanded(first, replacement) + text[first.end() :]


def for_distinct(texts: pa.Array, function: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """The results of a function, called once for each distinct text. Null stays null."""
    encoded = texts.dictionary_encode()
    return pa.array([function(one) for one in encoded.dictionary.to_pylist()], kind).take(encoded.indices)
