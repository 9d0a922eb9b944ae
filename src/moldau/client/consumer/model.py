"""The nouns that the parts of a consumer share: what a listener is due to hear, and what resets a position."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from enum import Enum
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable

from moldau.client.errors import ConfigurationError
from moldau.client.model import TopicPartition

CallbackKind = Literal["assigned", "revoked", "lost"]


class CallbackDue(NamedTuple):
    """A listener has to hear of this before the consumer goes on; whoever drives the consumer calls it and says so.

    Who created it waits for `callback_done(due, error)`. Partitions are in the order of their names.
    """

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


@runtime_checkable
class RebalanceListener(Protocol):
    """What an application may be told about its partitions, inside `poll`, in the thread that polls.

    Each method may call the consumer (position, seek, commit, pause, …). With the asyncio consumer each may be a
    coroutine function. Where `on_partitions_lost` is missing, a loss is told as a revocation.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These were added. Positions are already known, or will be looked up on demand."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are about to be given up; they are still ours, so that their offsets can be committed."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are gone already, and may be another member's: nothing can be committed for them."""


class ResetKind(Enum):
    """Where a partition without a usable position begins (`auto.offset.reset`)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


class Reset(NamedTuple):
    """A way to find a position: the kind and, for `by_duration`, how far back from now."""

    kind: ResetKind
    duration_ms: int = 0

    def __str__(self) -> str:
        return self.kind.value if self.kind is not ResetKind.BY_DURATION else f"by_duration ({self.duration_ms} ms)"


EARLIEST: Final = Reset(ResetKind.EARLIEST)
LATEST: Final = Reset(ResetKind.LATEST)
NO_RESET: Final = Reset(ResetKind.NONE)

_DURATION: Final = re.compile(
    r"(?P<sign>[-+])?P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


def reset_of(text: str) -> Reset:
    """What a value of `auto.offset.reset` means: earliest, latest, none, or by_duration:PnDTnHnMn.nS (ISO 8601)."""
    lowered = text.lower()
    for reset in (EARLIEST, LATEST, NO_RESET):
        if lowered == reset.kind.value:
            return reset
    kind, _, duration = text.partition(":")
    if kind.lower() == ResetKind.BY_DURATION.value:
        return Reset(ResetKind.BY_DURATION, _duration_ms(text, duration))
    raise ConfigurationError(
        f"auto.offset.reset is {text!r}; it must be earliest, latest, none or by_duration:DURATION, for example "
        "by_duration:PT1H"
    )


def _duration_ms(text: str, duration: str) -> int:
    found = _DURATION.fullmatch(duration)
    parts = {} if found is None else {name: part for name, part in found.groupdict().items() if part is not None}
    if not parts.keys() - {"sign"} or parts.get("sign") == "-":
        raise ConfigurationError(
            f"auto.offset.reset is {text!r}; after by_duration: comes a duration that is not negative, such as PT30M "
            "or P2D"
        )
    seconds = (
        86_400 * int(parts.get("days", 0))
        + 3_600 * int(parts.get("hours", 0))
        + 60 * int(parts.get("minutes", 0))
        + float(parts.get("seconds", 0))
    )
    return round(seconds * 1_000)
