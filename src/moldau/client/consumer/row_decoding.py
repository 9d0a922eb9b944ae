"""Row decoding: keys and values of `poll_arrow` as columns of their schema instead of bytes.

`on_error` of the consumer decides about rows that cannot be decoded, as it does for records: "raise" returns the rows
before the first bad one, and the next call raises DeserializationError; "skip" leaves bad rows out, with a warning in
the log; a function is called with the error of each bad row, which is then left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.client.consumer.record_preparation import OnError
from moldau.client.data_types import TopicPartition
from moldau.client.errors import DeserializationError
from moldau.client.row_formats import FormatColumns, RowFormat
from moldau.client.settings import ClientSettings
from moldau.host.event_log import event_logger

if TYPE_CHECKING:
    import pyarrow as pa

log = event_logger(__name__)


class DecodedRows(NamedTuple):
    """Rows with decoded keys and values."""

    table: pa.RecordBatch
    read: int
    """How many of the given rows count as read: those before the first bad one."""


class RowDecoding:
    """Decodes the rows of one consumer."""

    def __init__(self, settings: ClientSettings, on_error: OnError | str) -> None:
        self._columns = FormatColumns(settings)
        self._on_error = on_error

    def close(self) -> None:
        self._columns.close()

    def decoded(self, table: pa.RecordBatch, wanted: RowFormat) -> DecodedRows:
        """The rows with decoded keys and values. Raises DeserializationError if the first row is a bad one."""
        bad: dict[int, tuple[str, str]] = {}
        found = table
        for part in ("key", "value"):
            columns = self._columns.of(wanted, part)
            if columns is None:
                continue
            array, wrong = columns.decode(table.column(part))
            found = found.set_column(table.schema.get_field_index(part), part, array)
            for row, why in wrong.items():
                bad.setdefault(row, (part, why))
        return DecodedRows(found, table.num_rows) if not bad else self._without(found, table, bad)

    def _without(self, found: Any, table: Any, bad: dict[int, tuple[str, str]]) -> DecodedRows:
        first = min(bad)
        if self._on_error == "raise":
            if first == 0:
                raise _error(table, 0, *bad[0])
            return DecodedRows(found.slice(0, first), first)
        import pyarrow as pa

        for row in sorted(bad):
            self._report(_error(table, row, *bad[row]))
        keep = pa.array([row not in bad for row in range(table.num_rows)], pa.bool_())
        return DecodedRows(found.filter(keep), table.num_rows)

    def _report(self, error: DeserializationError) -> None:
        if callable(self._on_error):
            self._on_error(error)
            return
        log.warning(
            "row skipped, it cannot be deserialized",
            extra={"partition": str(error.partition), "offset": error.offset, "part": error.part, "reason": str(error)},
        )


def _error(table: Any, row: int, part: str, why: str) -> DeserializationError:
    topic, partition, offset = (table.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return DeserializationError(
        f"the {part} of the record at offset {offset} of partition {partition} of topic {topic!r} cannot be read: {why}"
        f"; to go past it, seek to offset {offset + 1}",
        TopicPartition(topic, partition),
        offset,
        part,
        table.slice(row, 1),
    )
