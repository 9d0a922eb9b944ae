"""Two-proportion z test: the chance that a difference between two shares is only chance."""

from __future__ import annotations

import math

CERTAIN_BELOW = 0.05
"""A difference counts if chance alone would give it in less than one of 20 cases."""


def p_value(bought: int, seen: int, other_bought: int, other_seen: int) -> float:
    """The probability of a difference at least this large if both variants were equally good (two-sided)."""
    if seen == 0 or other_seen == 0:
        return 1.0
    common = (bought + other_bought) / (seen + other_seen)
    error = math.sqrt(common * (1 - common) * (1 / seen + 1 / other_seen))
    if error == 0:  # nobody has bought, or everybody
        return 1.0
    z = (bought / seen - other_bought / other_seen) / error
    return math.erfc(abs(z) / math.sqrt(2))


def verdict(bought: int, seen: int, other_bought: int, other_seen: int) -> str:
    """The result for the first variant, compared with the other one."""
    if p_value(bought, seen, other_bought, other_seen) >= CERTAIN_BELOW:
        return "no difference yet"
    return "better" if bought * other_seen > other_bought * seen else "worse"
