"""References in settings: `${env:NAME}` and `${file:/path}` stand for a secret that is kept elsewhere.

* `${env:NAME}` is the environment variable NAME.
* `${file:/path}` is the content of a file, without the line break at its end.
* `${file:/path:key}` is one entry of a properties file, as with Kafka's FileConfigProvider.

A value may have several references, and text around them. What a reference stands for is not searched for references
again. Everything else that looks like a reference (`${aws:...}`) stays as it is.

This module reads nothing itself: the caller passes the environment and a function that reads files
(`host/reference_files.py`). An error names the setting and the reference, never a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from moldau.settings.setting import SettingError
from moldau.settings.sources import read_properties

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")

ReadFile = Callable[[str], str]
"""The text of a file; OSError or UnicodeError if it cannot be read."""


def has_reference(text: str) -> bool:
    """Whether a setting refers to an environment variable or a file."""
    return _REFERENCE.search(text) is not None


def resolve_all(texts: Mapping[str, str], environment: Mapping[str, str], read_file: ReadFile) -> dict[str, str]:
    """The texts of settings with every reference replaced; SettingError if one refers to nothing."""
    return {name: resolve(name, text, environment, read_file) for name, text in texts.items()}


def resolve(name: str, text: str, environment: Mapping[str, str], read_file: ReadFile) -> str:
    """The text of one setting with every reference replaced."""
    if "${" not in text:
        return text

    def replaced(match: re.Match[str]) -> str:
        kind, target = match[1], match[2].strip()
        if kind == "file":
            return _from_file(name, target, read_file)
        if target not in environment:
            raise SettingError(name, f"refers to the environment variable {target}, which is not set")
        return environment[target]

    return _REFERENCE.sub(replaced, text)


def _from_file(name: str, target: str, read_file: ReadFile) -> str:
    path, colon, key = target.rpartition(":")
    if not colon or "/" in key:  # a path alone, which may have a colon
        return _read(name, target, read_file).removesuffix("\n").removesuffix("\r")
    properties = read_properties(_read(name, path, read_file))
    if key not in properties:
        raise SettingError(name, f"refers to {key} in the file {path}, which has no such entry")
    return properties[key]


def _read(name: str, path: str, read_file: ReadFile) -> str:
    try:
        return read_file(path)
    except UnicodeError:
        reason = "it is not text in UTF-8"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    raise SettingError(name, f"refers to the file {path}, which cannot be read: {reason}")
