"""Comparison of the demo's alerts with the expected ones: each must arrive exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from moldau.cli.demonstration.bank import Alert


class AlertComparison(NamedTuple):
    """The result of the comparison."""

    expected: int
    found: int
    missing: tuple[Alert, ...]
    doubled: tuple[Alert, ...]
    unexpected: tuple[Alert, ...]

    @property
    def right(self) -> bool:
        return not (self.missing or self.doubled or self.unexpected)

    def __str__(self) -> str:
        if self.right:
            return f"{self.found} of {self.expected}, each exactly once"
        parts = [
            f"{len(alerts)} {name} (for example {alerts[0]})"
            for name, alerts in (
                ("missing", self.missing),
                ("doubled", self.doubled),
                ("unexpected", self.unexpected),
            )
            if alerts
        ]
        return f"{self.found} found, {self.expected} expected: {', '.join(parts)}"


def compare(expected: Sequence[Alert], found: Sequence[Alert]) -> AlertComparison:
    counts = Counter(found)
    wanted = set(expected)
    return AlertComparison(
        expected=len(wanted),
        found=len(found),
        missing=tuple(sorted(wanted - counts.keys())),
        doubled=tuple(sorted(alert for alert, times in counts.items() if times > 1)),
        unexpected=tuple(sorted(counts.keys() - wanted)),
    )
