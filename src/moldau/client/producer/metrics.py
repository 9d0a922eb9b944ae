"""Producer metrics: counters with the names of Kafka's producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.client.producer.accumulator import Accumulator, Batch


class Counters:
    """Counters of one producer. The loop writes them, any thread may read them."""

    __slots__ = (
        "batches", "bytes", "errors", "latency_max_s", "latency_s", "records", "requests", "retries", "splits",
    )  # fmt: skip

    def __init__(self) -> None:
        self.records = 0
        self.batches = 0
        self.bytes = 0
        self.errors = 0
        self.retries = 0
        self.splits = 0
        self.requests = 0
        self.latency_s = 0.0
        self.latency_max_s = 0.0

    def sent(self, batch: Batch, now: float) -> None:
        self.records += batch.count
        self.batches += 1
        self.bytes += batch.size
        taken = now - batch.written_at
        self.latency_s += taken
        self.latency_max_s = max(self.latency_max_s, taken)

    def failed(self, batch: Batch) -> None:
        self.errors += batch.count

    def retried(self, batch: Batch) -> None:
        self.retries += batch.count

    def split(self, batch: Batch) -> None:
        self.splits += 1

    def metrics(self, accumulator: Accumulator, in_flight: int) -> dict[str, float]:
        """Return totals since the start of the producer. Averages are over all acknowledged batches."""
        batches = max(self.batches, 1)
        return {
            "record-send-total": self.records,
            "record-error-total": self.errors,
            "record-retry-total": self.retries,
            "batch-split-total": self.splits,
            "outgoing-byte-total": self.bytes,
            "request-total": self.requests,
            "requests-in-flight": in_flight,
            "batch-size-avg": self.bytes / batches,
            "records-per-batch-avg": self.records / batches,
            "request-latency-avg": 1000 * self.latency_s / batches,
            "request-latency-max": 1000 * self.latency_max_s,
            "buffer-total-bytes": accumulator.memory_limit,
            "buffer-available-bytes": accumulator.memory_limit - accumulator.memory_used,
        }
