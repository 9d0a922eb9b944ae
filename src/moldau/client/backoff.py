"""Exponential backoff: the pause doubles after each consecutive failure, with jitter, up to a maximum."""

from __future__ import annotations

from typing import NamedTuple

MULTIPLIER = 2
JITTER = 0.2
"""Each pause is up to this share shorter or longer, so that many clients do not retry at the same moment."""

MAX_EXPONENT = 32
"""The maximum pause is reached long before this exponent."""


class Backoff(NamedTuple):
    """Pauses between attempts, in seconds."""

    initial_s: float
    max_s: float

    def pause(self, failures: int, chance: float) -> float:
        """Return the pause after `failures` consecutive failures. `chance` is a random number from 0 to 1."""
        if failures <= 0:
            return 0.0
        exponent = min(failures - 1, MAX_EXPONENT)
        middle = min(self.initial_s * float(MULTIPLIER**exponent), max(self.max_s, self.initial_s))
        return middle * (1 + JITTER * (2 * chance - 1))
