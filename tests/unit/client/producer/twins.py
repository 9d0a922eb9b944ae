"""Both implementations of the accumulator, for tests that each must pass."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from moldau.client.producer import accumulator as reference
from moldau.records.batch import seal
from moldau.records.batch_layout import BatchRecord
from moldau.records.engine import decode_batch

try:
    from moldau.client.producer import _accumulator as native
except ImportError:
    native = None  # type: ignore[assignment]

TWINS = [pytest.param(reference, id="reference")]
TWINS.append(
    pytest.param(native, id="native", marks=pytest.mark.skipif(native is None, reason="the native twin was not built"))
)

TOPIC = "orders"


class Refused(Exception):
    """Raised by the slow path of these tests."""


class Harness:
    """An accumulator with a clock that the test moves, and a count of wake-ups of the loop."""

    def __init__(
        self,
        twin: ModuleType,
        partitions: int = 1,
        batch_size: int = 16_384,
        linger_s: float = 0.0,
        memory: int = 1 << 25,
        max_request_size: int = 1 << 20,
        ignore_keys: bool = False,
    ) -> None:
        self.now = 100.0
        self.woken = 0
        self.refusals: list[Any] = []
        self.accumulator = twin.Accumulator(
            batch_size,
            linger_s,
            memory,
            max_request_size,
            self._wake,
            self._refused,
            ignore_keys,
            self,
        )
        self.accumulator.know_topic(TOPIC, partitions, list(range(partitions)))

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def _wake(self) -> None:
        self.woken += 1

    def _refused(self, refusal: Any, *arguments: Any) -> Any:
        self.refusals.append(refusal)
        raise Refused(refusal.name)

    def send(self, value: Any = None, key: Any = None, **options: Any) -> Any:
        return self.accumulator.send(TOPIC, value, key, **options)

    def drain(self, even_if_not_due: bool = False) -> list[Any]:
        """All batches that can be taken now, in order."""
        if even_if_not_due:
            self.accumulator.hurry()
        ready, _ = self.accumulator.collect(self.now)
        batches = []
        for queue in ready:
            while (batch := self.accumulator.take(queue)) is not None:
                batches.append(batch)
        return batches


def records_of(batch: Any) -> list[BatchRecord]:
    return decode_batch(
        seal(
            batch.records(),
            count=batch.count,
            last_offset_delta=batch.count - 1,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
        )
    )


def values_of(batches: list[Any]) -> list[bytes | None]:
    return [record.value for batch in batches for record in records_of(batch)]


Make = Callable[..., Harness]
