"""How long to pause before the next attempt: doubled with every failure in a row, with some chance, up to a bound."""

from __future__ import annotations

from typing import NamedTuple

MULTIPLIER = 2
JITTER = 0.2
"""Each pause is up to this much shorter or longer, so that many clients do not come back at one moment."""

MAX_EXPONENT = 32
"""Beyond this the bound has long been reached, and the power would only grow."""


class Backoff(NamedTuple):
    """Pauses between attempts, in seconds."""

    initial_s: float
    max_s: float

    def pause(self, failures: int, chance: float) -> float:
        """The pause after so many failures in a row; `chance` is a number from 0 to 1 (0.5: exactly the middle)."""
        if failures <= 0:
            return 0.0
        exponent = min(failures - 1, MAX_EXPONENT)
        middle = min(self.initial_s * float(MULTIPLIER**exponent), max(self.max_s, self.initial_s))
        return middle * (1 + JITTER * (2 * chance - 1))
