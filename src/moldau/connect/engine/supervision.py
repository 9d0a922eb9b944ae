"""Supervision of one connector: whether and when it is tried again after a failure. Pure decisions.

An error that may go away by itself is tried again with a growing pause, a bounded number of times. Any other error
fails the connector at once. A batch that succeeds forgets all failures before it.

A connector whose Spark job was running when the JVM died may be the reason. It gets a strike, runs alone until it has
succeeded once, and fails at the third strike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 60.0
JITTER: Final = 0.25
"""A pause is longer or shorter by up to this share, so that connectors of one database do not all come at once."""
MAX_RETRIES: Final = 10
FENCED_PAUSE_S: Final = 15.0
"""Longer than the session time-out of a Connect group. A worker that was replaced learns of it in this time and stops
the connector; the rightful owner begins again after it."""
MAX_FENCED: Final = 3
MAX_STRIKES: Final = 3
MAX_HUNG: Final = 3
"""Each call that hangs costs a thread."""


class FailureKind(Enum):
    """Why an attempt has failed."""

    PERMANENT = "permanent"
    RETRIABLE = "retriable"
    HUNG = "hung"
    """A call of the connector, or its Spark job, exceeded the deadline."""
    FENCED = "fenced"
    """Another worker has taken over the connector."""
    JVM_DEATH = "JVM death"
    """The Spark session died while a job of the connector was running."""


@dataclass(frozen=True)
class RetryLater:
    """Try again after this time."""

    pause_s: float
    alone: bool = False
    """Run jobs of this connector only while no other suspect has a job, until it has succeeded once."""


@dataclass(frozen=True)
class GiveUp:
    """FAILED, until somebody restarts the connector."""

    reason: str


@dataclass
class Supervision:
    """The failures of one connector since its last success."""

    retries: int = 0
    fenced: int = 0
    strikes: int = 0
    hung: int = 0
    failures: int = field(default=0)
    """All failures since the start, for the metrics."""

    @property
    def suspect(self) -> bool:
        return self.strikes > 0

    def succeeded(self) -> None:
        self.retries = self.fenced = self.strikes = self.hung = 0

    def rested(self) -> None:
        """A source has answered that there is nothing to do. That does not clear it of a death of the JVM."""
        self.retries = self.fenced = self.hung = 0

    def failed(self, kind: FailureKind, chance: float) -> RetryLater | GiveUp:
        """Decide what follows a failure. `chance` is a random number in [0, 1)."""
        self.failures += 1
        if kind is FailureKind.PERMANENT:
            return GiveUp("the error does not go away by itself")
        if kind is FailureKind.JVM_DEATH:
            self.strikes += 1
            if self.strikes >= MAX_STRIKES:
                return GiveUp(f"Spark's JVM died {self.strikes} times while this connector had a job running")
            return RetryLater(0.0, alone=True)
        if kind is FailureKind.FENCED:
            self.fenced += 1
            if self.fenced > MAX_FENCED:
                return GiveUp("another worker runs this connector")
            return RetryLater(_with_jitter(FENCED_PAUSE_S, chance))
        if kind is FailureKind.HUNG:
            self.hung += 1
            if self.hung >= MAX_HUNG:
                return GiveUp(f"it did not answer {self.hung} times in a row")
        self.retries += 1
        if self.retries > MAX_RETRIES:
            return GiveUp(f"it failed {self.retries} times in a row")
        return RetryLater(_with_jitter(min(FIRST_PAUSE_S * 2 ** (self.retries - 1), LONGEST_PAUSE_S), chance))


def _with_jitter(pause_s: float, chance: float) -> float:
    return pause_s * (1 - JITTER + 2 * JITTER * chance)
