"""Raw options from Spark, shared by source and sink: typed access, with errors that name the option."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, TypeVar

from moldau.client.errors import ConfigurationError

T = TypeVar("T")

PREFIX: Final = "kafka."


class RawOptions:
    """The given options. Lookup ignores case; errors use the spelling of the documentation."""

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
        """The options with the prefix `kafka.`, without that prefix. `refused` maps forbidden settings to what to use
        instead."""
        settings = {name[len(PREFIX) :]: text for name, text in self._texts.items() if name.startswith(PREFIX)}
        if not settings.get("bootstrap.servers", "").strip():
            raise ConfigurationError(
                "option kafka.bootstrap.servers: missing; set it to the address of a broker, host:port"
            )
        for name, instead in refused.items():
            if name in settings:
                raise ConfigurationError(f"option kafka.{name}: not supported in Spark: {instead}")
        return settings

    def refuse_misspelt(self, known: Sequence[str]) -> None:
        """Raise for a name that is almost one of our options. Other unknown names may belong to another format and are
        ignored."""
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
        raise ConfigurationError(f"option {name}: {text!r} is not a whole number greater than zero")
    return number
