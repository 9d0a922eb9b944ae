"""Offset reset policies (auto.offset.reset), rebalance listeners, and callbacks that are due to them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from enum import Enum
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable

from moldau.client.data_types import TopicPartition
from moldau.client.errors import ConfigurationError

CallbackKind = Literal["assigned", "revoked", "lost"]


class CallbackDue(NamedTuple):
    """A call of the listener that must run before the consumer continues.

    The asyncio or blocking consumer runs it, and reports it with `callback_done(due, error)`. Partitions are sorted.
    """

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


@runtime_checkable
class RebalanceListener(Protocol):
    """Methods that a consumer calls inside `poll`, in the thread that polls, when its partitions change.

    Each method may call the consumer (position, seek, commit, pause, …). With the asyncio consumer each may be a
    coroutine function. If `on_partitions_lost` is missing, `on_partitions_revoked` is called instead.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called after these partitions were added. Positions are known, or are looked up on demand."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called before these partitions are revoked. They are still assigned, so offsets can be committed."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called after these partitions were lost. Another member may own them: offsets cannot be committed."""


class ResetKind(Enum):
    """Where reading starts in a partition without a valid position (`auto.offset.reset`)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


class Reset(NamedTuple):
    """A way to find a position: the kind and, for `by_duration`, the time before now."""

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
    """Parse a value of `auto.offset.reset`: earliest, latest, none, or by_duration:PnDTnHnMn.nS (ISO 8601)."""
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
            f"auto.offset.reset is {text!r}; by_duration: needs a duration that is not negative, such as PT30M or P2D"
        )
    seconds = (
        86_400 * int(parts.get("days", 0))
        + 3_600 * int(parts.get("hours", 0))
        + 60 * int(parts.get("minutes", 0))
        + float(parts.get("seconds", 0))
    )
    return round(seconds * 1_000)
