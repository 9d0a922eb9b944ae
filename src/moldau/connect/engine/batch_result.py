"""Result of one committed batch, as the parts of the engine pass it on."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class BatchResult:
    """What one batch has done."""

    records: int = 0
    bytes: int = 0
    skipped: int = 0
    """Records that were left out because errors are tolerated."""
    dead_letters: int = 0
    retries: int = 0
    topics: frozenset[str] = frozenset()
    duration_s: float = 0.0
    tasks: int = 1
    """The number of tasks that worked in parallel."""

    def plus(self, other: BatchResult) -> BatchResult:
        """The sum of two tasks of one batch."""
        return BatchResult(
            self.records + other.records,
            self.bytes + other.bytes,
            self.skipped + other.skipped,
            self.dead_letters + other.dead_letters,
            self.retries + other.retries,
            self.topics | other.topics,
            max(self.duration_s, other.duration_s),
            max(self.tasks, other.tasks),
        )

    def lasting(self, duration_s: float) -> BatchResult:
        return replace(self, duration_s=duration_s)
