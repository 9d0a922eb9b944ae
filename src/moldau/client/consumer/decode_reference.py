"""Record decoder in plain Python: the reference for the native twin, and its replacement where it is not built."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau.records.batch_layout import BatchHeader, Bytes, TimestampType
from moldau.records.errors import InvalidBatch
from moldau.records.reference import records_of


class Record:
    """One record as the application sees it. Timestamps are milliseconds since 1970, -1 if there is none."""

    __slots__ = (
        "_headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    leader_epoch: int
    key: Any
    value: Any

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        timestamp: int = -1,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        key: Any = None,
        value: Any = None,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
        leader_epoch: int = -1,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self._headers = list(headers) if headers else None
        self.leader_epoch = leader_epoch

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Names and values in the order in which they were sent; a name may occur more than once."""
        if self._headers is None:
            self._headers = []
        return self._headers

    def replace_content(self, key: Any, value: Any) -> None:
        """Replace the bytes of key and value by the results of the deserialisers."""
        self.key = key
        self.value = value

    def __repr__(self) -> str:
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )


class BatchRecords:
    """The records of one batch from offset `wanted` on, decoded a few at a time.

    `data` is the decompressed part of the batch after its header. `left` is the number of records that are not decoded
    yet. A record that breaks the format raises InvalidBatch, at this call and at every later one.
    """

    __slots__ = ("_error", "_header", "_partition", "_records", "_topic", "_wanted", "left")

    def __init__(self, data: Bytes, header: BatchHeader, topic: str, partition: int, wanted: int) -> None:
        self._header = header
        self._records = records_of(bytes(data), header)
        self._topic = topic
        self._partition = partition
        self._wanted = wanted
        self._error: InvalidBatch | None = None
        self.left = header.count

    def take(self, out: list[Record], limit: int) -> int:
        """Append at most `limit` records to `out`, and return their number. Records appended before an error stay."""
        if self._error is not None:
            raise self._error
        header = self._header
        taken = 0
        while self.left and taken < limit:
            try:
                one = next(self._records)
                if self.left == 1:
                    next(self._records, None)  # after the last record: checks that no bytes are left over
            except InvalidBatch as error:
                self._error = error
                raise
            self.left -= 1
            if one.offset >= self._wanted:
                record = Record(
                    self._topic,
                    self._partition,
                    one.offset,
                    timestamp=one.timestamp,
                    timestamp_type=header.timestamp_type,
                    key=one.key,
                    value=one.value,
                    headers=one.headers,
                    leader_epoch=header.leader_epoch,
                )
                out.append(record)
                taken += 1
        return taken
