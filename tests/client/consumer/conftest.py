"""Fixtures for consumer tests: consumers, groups, and batches of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from moldau import Consumer
from moldau.records.batch_layout import BatchRecord, Codec
from moldau.records.encode import encode_batch
from tests.compat import wire
from tests.support.raw import RawConnection

PATIENCE_S = 60.0
"""Longer than any test here takes, also on a slow machine."""


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Callable[..., Consumer]]:
    """`consumer("topic", group_id=…)`: blocking consumers that read from the beginning, closed after the test."""
    made: list[Consumer] = []

    def make(*topics: Any, **settings: Any) -> Consumer:
        # fetch.max.wait.ms is 50 instead of 500: a seek takes effect sooner, and the tests take less time.
        defaults = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
        settings = {**defaults, **settings}
        made.append(Consumer(*topics, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def write(raw: RawConnection) -> Callable[..., int]:
    """`write(topic, [b"a", b"b"], partition=0, codec=…, timestamps=…)`: write one batch and return its base offset."""

    def append(
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        codec: Codec = Codec.NONE,
        timestamps: Sequence[int] | None = None,
    ) -> int:
        times = timestamps or [wire.now_ms()] * len(values)
        records = [BatchRecord(i, times[i], b"k%d" % i, value, [("n", b"%d" % i)]) for i, value in enumerate(values)]
        answer = wire.produce(raw, topic, encode_batch(records, codec=codec), partition=partition)
        assert answer.error_code == 0, answer
        return int(answer.base_offset)

    return append


@pytest.fixture
def group(unused_name: Callable[[], str]) -> str:
    """The name of a group that no other test uses."""
    return unused_name()
