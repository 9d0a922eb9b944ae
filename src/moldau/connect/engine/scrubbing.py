"""Removal of secrets from traces: values that config providers resolved, and settings that are passwords.

A trace is shown by REST, stored in the status topic and logged. Libraries put connection strings and passwords into
their messages, so the texts themselves are searched.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moldau.client.errors import MoldauError
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.connect.config_def import HIDDEN, ConfigDef, ConfigType
from moldau.connect.config_providers import REFERENCE

SHORTEST: Final = 4
"""Shorter values are not searched for: they would be found in ordinary words, and hide the message."""
MAX_TRACE: Final = 16_384
"""The longest trace in characters: it is stored in a record of the status topic."""
_CLIENT_SECRETS: Final = frozenset(one.name for one in SECURITY_SETTINGS if one.sensitive)


def secret_values(
    raw: Mapping[str, Any], resolved: Mapping[str, Any], declared: ConfigDef | None = None
) -> frozenset[str]:
    """The texts that must not be shown: what a provider has resolved, passwords, and logins of clients."""
    found: set[str] = set()
    for name, value in resolved.items():
        if str(raw.get(name)) != str(value):
            found |= _provided(str(raw.get(name)), str(value))
        if name.rpartition(".override.")[2] in _CLIENT_SECRETS and value is not None:
            found.add(str(value))
    if declared is not None:
        found |= {
            str(resolved[name])
            for name, key in declared.keys.items()
            if key.type is ConfigType.PASSWORD and resolved.get(name) is not None
        }
    return frozenset(value for value in found if len(value) >= SHORTEST)


def _provided(raw: str, value: str) -> set[str]:
    """What the references in a text stand for: libraries show a password without the address around it."""
    pattern = "(.*)".join(re.escape(part) for part in _split(raw))
    match = re.fullmatch(pattern, value, re.DOTALL)
    return {value, *(match.groups() if match else ())}


def _split(raw: str) -> list[str]:
    """The texts between the references."""
    parts, begin = [], 0
    for found in REFERENCE.finditer(raw):
        parts.append(raw[begin : found.start()])
        begin = found.end()
    return [*parts, raw[begin:]]


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
