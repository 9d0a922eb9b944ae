"""Names of subjects and contexts.

A subject is in a context: `:.context:subject`. A name without a context is in the default one, which is called ".".
Subjects of the default context are stored without it. `:.__GLOBAL:` holds the config and mode for all contexts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"
GLOBAL_SCOPE: Final = f":{GLOBAL_CONTEXT}:"
ALL_CONTEXTS: Final = ":*:"
RESERVED: Final = frozenset({"", "*", "__GLOBAL", "__EMPTY"})
"""Names that no subject can have."""


class SubjectName(NamedTuple):
    """A subject's name in its parts. An empty `name` stands for the context itself."""

    context: str
    name: str

    @property
    def scope(self) -> str:
        """The text of the context: empty for the default one, `:.context:` otherwise."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    @property
    def text(self) -> str:
        return self.scope + self.name


def parse_subject(text: str) -> SubjectName:
    if not text.startswith(":."):
        return SubjectName(DEFAULT_CONTEXT, text)
    context, _, name = text[1:].partition(":")
    return SubjectName(context, name)


def context_of(subject: str) -> str:
    return parse_subject(subject).context


def stored_name(subject: str) -> str:
    """The name under which the subject is stored: `:.:orders` is `orders`."""
    return parse_subject(subject).text if subject.startswith(":.") else subject


def stored_scope(scope: str | None) -> str | None:
    """The key of a config or mode: the name of a subject, `:.context:`, or None for the default context."""
    return None if scope is None else stored_name(scope) or None


def beside(subject: str, of: str) -> str:
    """The full name of a subject that is named in the context of another: references and aliases."""
    named = parse_subject(subject)
    if named.context != DEFAULT_CONTEXT:
        return named.text
    return SubjectName(context_of(of), named.name).text


def is_valid_subject(text: str) -> bool:
    """Whether schemas can be registered under the name."""
    return not _has_control(text) and _is_name(text)


def is_valid_scope(text: str) -> bool:
    """Whether a config or mode can have the name: a subject or a context."""
    named = parse_subject(text)
    return not _has_control(text) and not text.startswith(ALL_CONTEXTS) and (not named.name or _is_free(named.name))


def _is_name(text: str) -> bool:
    named = parse_subject(text)
    return not text.startswith(ALL_CONTEXTS) and named.context != GLOBAL_CONTEXT and _is_free(named.name)


def _is_free(name: str) -> bool:
    return name not in RESERVED


def _has_control(text: str) -> bool:
    return any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in text)
