"""Startup time: from process start to the first answered Metadata request, with an empty and a used directory."""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness import Broker, Context, Row, median, spread

MOST_SECONDS = 0.5
MOST_MB = 60


def run(context: Context) -> Iterator[Row]:
    seconds, memory = [], []
    for _ in range(context.sized(7, 3)):
        with context.scratch("startup") as directory, Broker(directory / "data") as broker:
            for _ in range(2):
                seconds.append(broker.start())
                memory.append(broker.memory_mb())
                broker.stop()
    context.say(f"start: {median(seconds):.2f} s, {median(memory):.0f} MB")
    yield Row("Start to first answer", median(seconds), "s", MOST_SECONDS, note=f"repeats {spread(seconds)}")
    yield Row("Start: memory", median(memory), "MB", MOST_MB, note="resident after the first answer")
