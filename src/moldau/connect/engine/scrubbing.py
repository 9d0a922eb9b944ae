"""Removal of secrets from traces: values that config providers resolved, and settings that are passwords.

A trace is shown by REST, stored in the status topic and logged. Libraries put connection strings and passwords into
their messages, so the texts themselves are searched.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moldau.client.errors import MoldauError
from moldau.connect.config_def import HIDDEN, ConfigDef, ConfigType

SHORTEST: Final = 4
"""Shorter values are not searched for: they would be found in ordinary words, and hide the message."""
MAX_TRACE: Final = 16_384
"""The longest trace in characters: it is stored in a record of the status topic."""


def secret_values(
    raw: Mapping[str, Any], resolved: Mapping[str, Any], declared: ConfigDef | None = None
) -> frozenset[str]:
    """The texts that must not be shown: what a provider has resolved, and every setting of type PASSWORD."""
    found = {str(value) for name, value in resolved.items() if str(raw.get(name)) != str(value)}
    if declared is not None:
        found |= {
            str(resolved[name])
            for name, key in declared.keys.items()
            if key.type is ConfigType.PASSWORD and resolved.get(name) is not None
        }
    return frozenset(value for value in found if len(value) >= SHORTEST)


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret replaced. Longer secrets first: one may contain another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def trace_of(error: BaseException, secrets: Iterable[str]) -> str:
    """The text of an error for a status: one line for our own errors, which say what to do; else with the traceback."""
    text = str(error) if isinstance(error, MoldauError) else "".join(traceback.format_exception(error)).rstrip()
    text = scrubbed(text or type(error).__name__, secrets)
    return text if len(text) <= MAX_TRACE else f"{text[: MAX_TRACE // 2]}\n[…]\n{text[-MAX_TRACE // 2 :]}"
