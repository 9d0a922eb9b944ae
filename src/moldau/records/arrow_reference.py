"""Decoding of record batches into Arrow buffers in plain Python: the reference for `_arrow.pyx`.

Parity tests compare the two. This module also runs if no compiler was available at installation, or with MOLDAU_PURE=1.
"""

from array import array
from collections.abc import Iterator
from typing import Final

from moldau.records import codecs
from moldau.records.arrow_layout import (
    MAX_COLUMN_BYTES,
    BinaryColumn,
    HeaderColumns,
    RowColumns,
    Wanted,
)
from moldau.records.batch import check_header, open_batch
from moldau.records.batch_layout import HEADER_SIZE, LOG_APPEND_TIME_BIT, BatchHeader, Bytes
from moldau.records.reference import _Parsed, _varint, _walk

_NO_EPOCH: Final = -1


# -- decoding


class BatchCursor:
    """A position in a sequence of whole batches, as a fetch returns them: the batch, and the record in it.

    Records before `from_offset` are skipped, because a fetch starts with the batch that contains the requested offset.
    Control batches have no rows. `wanted` is called for every transactional and control batch and can skip a
    transactional one. The buffer is kept alive by the cursor.
    """

    __slots__ = (
        "_at",
        "_buf",
        "_check_crcs",
        "_data",
        "_end",
        "_header",
        "_records",
        "_wanted",
        "leader_epoch",
        "next_offset",
        "position",
    )

    def __init__(
        self,
        buf: Bytes,
        position: int = 0,
        end: int | None = None,
        *,
        from_offset: int = 0,
        check_crcs: bool = True,
        wanted: Wanted | None = None,
    ) -> None:
        self._buf = memoryview(buf)
        self._end = len(self._buf) if end is None else end
        if not 0 <= position <= self._end <= len(self._buf):
            raise ValueError(f"batches from {position} to {self._end} in {len(self._buf)} bytes")
        self._check_crcs = check_crcs
        self._wanted = wanted
        self.position = position
        """The position of the batch that contains the next row, or the end of the last batch."""
        self.next_offset = from_offset
        """The offset after the last one that was taken or skipped."""
        self.leader_epoch = _NO_EPOCH
        """The leader epoch of the batch that contained the last row."""
        self._header: BatchHeader | None = None
        self._data = b""
        self._records: list[_Parsed] = []
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether no batch is left."""
        return self.position >= self._end

    def _enter(self) -> bool:
        """Open the batch at `position` after checking all of it. False if it has no rows and was skipped."""
        header = open_batch(self._buf[: self._end], self.position, check_crc=self._check_crcs)
        codec = check_header(
            header.base_offset,
            header.attributes,
            header.last_offset_delta,
            header.count,
            allow_control=True,
            allow_gaps=True,
        )
        keep = not header.is_control
        if self._wanted is not None and (header.is_control or header.is_transactional):
            keep = self._wanted(header, self.position) and keep
        if not keep:
            self._pass(header)
            return False
        records = self._buf[self.position + HEADER_SIZE : self.position + header.size]
        self._data = bytes(codecs.decompress(codec, records))
        self._records = list(_walk(self._data, header, False, True))
        self._at = 0
        self._header = header
        return True

    def _pass(self, header: BatchHeader) -> None:
        self.position += header.size
        self.next_offset = max(self.next_offset, header.last_offset + 1)
        self._header = None
        self._records = []
        self._data = b""


class RowCollector:
    """Collects rows from cursors into columns. `max_rows` may split the rows of one batch."""

    __slots__ = (
        "_header_at",
        "_header_keys",
        "_header_values",
        "_keys",
        "_max_bytes",
        "_offset",
        "_partition",
        "_timestamp",
        "_timestamp_type",
        "_topic",
        "_values",
        "full",
    )

    def __init__(self, *, headers: bool = False, max_bytes: int = MAX_COLUMN_BYTES) -> None:
        self._max_bytes = max_bytes
        self._keys = _Binary()
        self._values = _Binary()
        self._topic = array("i")
        self._partition = array("i")
        self._offset = array("q")
        self._timestamp = array("q")
        self._timestamp_type = array("i")
        self._header_at = array("i", [0]) if headers else None
        self._header_keys = _Binary()
        self._header_values = _Binary()
        self.full = False
        """Whether a batch did not fit: it stays in its cursor for the next collector."""

    @property
    def rows(self) -> int:
        """The number of collected rows."""
        return len(self._offset)

    def take(self, cursor: BatchCursor, topic: int, partition: int, max_rows: int) -> int:
        """Take up to `max_rows` rows from the cursor; return their number.

        Fewer rows mean that the cursor is done or that this collector is full. An invalid batch raises as `walk` does;
        the collected rows are kept, and the cursor stays at that batch.
        """
        taken = 0
        while taken < max_rows and not cursor.done:
            if cursor._header is None and not cursor._enter():
                continue
            assert cursor._header is not None
            if self.rows and self._largest() + self._left(cursor) > self._max_bytes:
                self.full = True
                break
            taken += self._take_batch(cursor, cursor._header, topic, partition, max_rows - taken)
        return taken

    def _largest(self) -> int:
        return max(len(one.data) for one in (self._keys, self._values, self._header_keys, self._header_values))

    @staticmethod
    def _left(cursor: BatchCursor) -> int:
        """The bytes of the open batch that are not read yet."""
        if cursor._at == len(cursor._records):
            return 0
        return len(cursor._data) - cursor._records[cursor._at].start

    def _take_batch(self, cursor: BatchCursor, header: BatchHeader, topic: int, partition: int, max_rows: int) -> int:
        data = cursor._data
        taken = 0
        while cursor._at < len(cursor._records) and taken < max_rows:
            record = cursor._records[cursor._at]
            cursor._at += 1
            offset = header.base_offset + record.offset_delta
            if offset < cursor.next_offset:
                continue
            cursor.next_offset = offset + 1
            cursor.leader_epoch = header.leader_epoch
            taken += 1
            self._keys.append(data, record.key_at, record.key_size)
            self._values.append(data, record.value_at, record.value_size)
            self._topic.append(topic)
            self._partition.append(partition)
            self._offset.append(offset)
            append_time = header.attributes & LOG_APPEND_TIME_BIT
            self._timestamp.append(
                header.max_timestamp if append_time else header.base_timestamp + record.timestamp_delta
            )
            self._timestamp_type.append(1 if append_time else 0)
            if self._header_at is not None:
                for key_at, key_size, value_at, value_size in _header_places(data, record):
                    self._header_keys.append(data, key_at, key_size)
                    self._header_values.append(data, value_at, value_size)
                self._header_at.append(self._header_keys.rows)
        if cursor._at == len(cursor._records):
            cursor._pass(header)
        return taken

    def finish(self) -> RowColumns:
        """Return the columns and reset the collector, which can be used again."""
        headers = None
        if self._header_at is not None:
            headers = HeaderColumns(
                self._header_at.tobytes(),
                self._header_keys.rows,
                self._header_keys.column(),
                self._header_values.column(),
            )
        columns = RowColumns(
            self.rows,
            self._keys.column(),
            self._values.column(),
            self._topic.tobytes(),
            self._partition.tobytes(),
            self._offset.tobytes(),
            self._timestamp.tobytes(),
            self._timestamp_type.tobytes(),
            headers,
        )
        self.__init__(headers=self._header_at is not None, max_bytes=self._max_bytes)  # type: ignore[misc]
        return columns


class _Binary:
    """A growing binary column."""

    __slots__ = ("_offsets", "_valid", "data")

    def __init__(self) -> None:
        self._valid: list[bool] = []
        self._offsets = array("i", [0])
        self.data = bytearray()

    @property
    def rows(self) -> int:
        return len(self._valid)

    def append(self, source: bytes, at: int, size: int) -> None:
        self._valid.append(size >= 0)
        self.data += source[at : at + max(size, 0)]
        self._offsets.append(len(self.data))

    def column(self) -> BinaryColumn:
        nulls = self._valid.count(False)
        validity: bytearray | None = None
        if nulls:
            validity = bytearray((self.rows + 7) // 8)
            for row, valid in enumerate(self._valid):
                validity[row >> 3] |= valid << (row & 7)
        return BinaryColumn(validity, nulls, self._offsets.tobytes(), bytes(self.data))


def _header_places(data: bytes, record: _Parsed) -> Iterator[tuple[int, int, int, int]]:
    """The (position, size) of each header's key, then of its value, flattened. The walk has validated them before."""
    at = record.headers_at
    for _ in range(record.header_count):
        key_size, key_at = _varint(data, at, record.end)
        value_size, value_at = _varint(data, key_at + key_size, record.end)
        yield key_at, key_size, value_at, value_size
        at = value_at + max(value_size, 0)
