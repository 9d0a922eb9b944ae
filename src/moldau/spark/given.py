"""Options as Spark hands them over, read with errors that name the option: what source and sink have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, TypeVar

from moldau.client.errors import ConfigurationError

T = TypeVar("T")

PREFIX: Final = "kafka."


class GivenOptions:
    """The options that were given, by names in any case; errors have the names as the documentation spells them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._texts = {name.lower(): text for name, text in options.items()}

    def text(self, name: str) -> str | None:
        text = self._texts.get(name.lower())
        return None if text is None else text.strip()

    def parsed(self, name: str, parser: Callable[[str, str], T]) -> T | None:
        text = self.text(name)
        return None if text is None else parser(name, text)

    def number(self, name: str) -> int | None:
        return self.parsed(name, _positive)

    def flag(self, name: str, *, default: bool) -> bool:
        text = (self.text(name) or str(default)).lower()
        if text not in ("true", "false"):
            raise ConfigurationError(f"option {name}: {text!r} is neither true nor false")
        return text == "true"

    def client_settings(self, refused: Mapping[str, str]) -> dict[str, str]:
        """The options that begin with `kafka.`, without that. `refused` are settings with what to do instead."""
        settings = {name[len(PREFIX) :]: text for name, text in self._texts.items() if name.startswith(PREFIX)}
        if not settings.get("bootstrap.servers", "").strip():
            raise ConfigurationError("option kafka.bootstrap.servers: missing; say where a broker listens, host:port")
        for name, instead in refused.items():
            if name in settings:
                raise ConfigurationError(f"option kafka.{name}: not for Spark: {instead}")
        return settings

    def refuse_misspelt(self, known: Sequence[str]) -> None:
        """What looks like one of our options and is none is a mistake. Others may be another format's: let them be."""
        by_lower = {name.lower(): name for name in known}
        for name in self._texts:
            if name in by_lower or name.startswith(PREFIX):
                continue
            if matches := get_close_matches(name, by_lower, n=1, cutoff=0.85):
                raise ConfigurationError(f"option {name}: unknown; did you mean {by_lower[matches[0]]}?")


def _positive(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise ConfigurationError(f"option {name}: {text!r} is not a whole number above zero")
    return number
