"""Errors of single rows: which rows of a batch a converter, a transform or a connector could not process.

The engine removes exactly these rows from the batch and sends them to the dead-letter topic, or fails the connector,
as `errors.tolerance` says. A step that cannot tell which rows are bad raises any other exception; the engine then
divides the batch until it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from moldau.client.errors import MoldauError

SHOWN_ROWS: Final = 5
"""How many bad rows the message of a `RowError` describes."""


class DataError(MoldauError):
    """Data that cannot be converted, such as text that is not JSON, or a value that does not match its schema."""


class Stage(Enum):
    """The steps of a connector, with the names that Kafka Connect writes into the headers of dead letters."""

    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    TASK_PUT = "TASK_PUT"
    TASK_POLL = "TASK_POLL"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


class RowError(DataError):
    """Rows of one batch that a step could not process, with the reason of each.

    Row numbers count from 0 in the array or batch that the step was called with. A step raises before it returns
    anything: the caller removes the rows and calls it again with the others.
    """

    def __init__(self, reasons: Mapping[int, str], stage: Stage | None = None) -> None:
        self.reasons = dict(sorted(reasons.items()))
        self.stage = stage
        shown = [f"row {row}: {reason}" for row, reason in list(self.reasons.items())[:SHOWN_ROWS]]
        if len(self.reasons) > SHOWN_ROWS:
            shown.append(f"and {len(self.reasons) - SHOWN_ROWS} more rows")
        where = "" if stage is None else f" in stage {stage.value}"
        super().__init__(f"Cannot process {len(self.reasons)} rows{where}: {'; '.join(shown)}")

    def __reduce__(self) -> tuple[type[RowError], tuple[dict[int, str], Stage | None]]:
        return RowError, (self.reasons, self.stage)

    @property
    def rows(self) -> Sequence[int]:
        """The numbers of the bad rows, ascending."""
        return list(self.reasons)
