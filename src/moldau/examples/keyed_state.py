"""Keyed state in Spark by a plain function, which gets the rows of a key in order, with the state of the key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

Step = Callable[[dict[str, Any], Any], Iterable[dict[str, Any]]]
"""`step(state, row)`: changes the state of the row's key, and returns the rows of the result."""


def with_state(frame: DataFrame, key: str, step: Step, result: str) -> DataFrame:
    """The rows that `step` returns. The state of a key is a dict, {} at first, that Spark stores as JSON with the
    checkpoint: after a kill it is as it was. The rows of a key must be in one partition of a topic, and come in the
    order of their offsets."""
    return frame.groupBy(key).transformWithState(
        StepProcessor(step, result.split()[0::2]), outputStructType=result, outputMode="Append", timeMode="None"
    )


class StepProcessor(StatefulProcessor):
    """The calls of Spark's `transformWithState`, around a function."""

    def __init__(self, step: Step, columns: list[str]) -> None:
        self._step = step
        self._columns = columns

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("state", "json STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        stored = self._state.get()
        state = {} if stored is None else json.loads(stored[0])
        for row in sorted(rows, key=lambda row: row.offset):
            for out in self._step(state, row):
                yield Row(**{column: out[column] for column in self._columns})
        self._state.update((json.dumps(state),))

    def close(self) -> None:
        pass
