"""Fetched partition: the batches of one partition from one Fetch response, decoded a few records at a time.

It knows the offsets of its start, of the next record and of its end, so the next fetch can be sent before the
application has read this one. Taking records changes only this object; the caller then moves the position of the
partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from moldau.client.consumer.decode import BatchRecords, Record
from moldau.client.data_types import TopicPartition
from moldau.client.errors import BrokerError, CorruptRecord, MoldauError, RecordTooLarge
from moldau.records import codecs
from moldau.records.batch import check_header, open_batch, peek_header
from moldau.records.batch_layout import BATCH_STEP, HEADER_SIZE, LENGTH_END, BatchHeader, Codec
from moldau.records.control import ControlType, parse_marker
from moldau.records.errors import BatchError
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.records.arrow import ArrowRows, BatchCursor

MAX_DECOMPRESSED_BYTES: Final = 1 << 30
"""Limit for one decompressed batch, far above real data: brokers may be configured to accept large batches."""

Aborted = tuple[int, int]
"""A producer id, and the first offset of its aborted transaction."""


class RecordSource(Protocol):
    """Records of one partition in the order of their offsets."""

    partition: TopicPartition
    version: int  # of the partition's state when the records were requested
    position: int  # lower bound of the next record's offset
    epoch: int  # of the leader that wrote the record before the position
    end: int  # the offset after the last record of the source
    end_epoch: int

    @property
    def size(self) -> int:
        """Bytes that the source still holds."""

    @property
    def done(self) -> bool:
        """Whether nothing is left, not even offsets without records."""

    def take(self, out: list[Record], limit: int) -> None:
        """Append at most `limit` records, and skip batches without records. An error keeps what was appended."""

    def take_rows(self, rows: ArrowRows, limit: int) -> bool:
        """Like `take`, for rows of a table. Return False if the source cannot do it; the caller fetches again."""


class FetchedPartition:
    """The whole batches of one response. See `RecordSource`."""

    __slots__ = (
        "_aborted",
        "_aborting",
        "_at",
        "_check_crcs",
        "_committed_only",
        "_cursor",
        "_data",
        "_header",
        "_records",
        "_stop",
        "end",
        "end_epoch",
        "epoch",
        "partition",
        "position",
        "version",
    )

    def __init__(
        self,
        partition: TopicPartition,
        version: int,
        position: int,
        data: bytes,
        *,
        epoch: int = -1,
        aborted: Sequence[Aborted] | None = None,
        check_crcs: bool = True,
    ) -> None:
        """`data` is a copy that only this object uses; `aborted` is None with isolation.level=read_uncommitted."""
        self.partition = partition
        self.version = version
        self.position = position
        self.epoch = epoch
        self._data = memoryview(data)
        self._check_crcs = check_crcs
        self._committed_only = aborted is not None
        self._aborted = sorted(aborted or (), key=lambda one: one[1], reverse=True)  # the next to start is the last
        self._aborting: set[int] = set()  # producers with an aborted transaction that is open at this offset
        self._records: BatchRecords | None = None  # of the batch that is being read
        self._header: BatchHeader | None = None
        self._cursor: BatchCursor | None = None  # while rows of a table are taken
        self._at = 0  # of the next batch
        self._stop, self.end, self.end_epoch = _whole_batches(self._data, position)
        if self.end_epoch < 0:
            self.end_epoch = epoch

    def __repr__(self) -> str:
        return f"<{self.partition} from {self.position} to {self.end}, {self.size} bytes>"

    @property
    def size(self) -> int:
        """Bytes that are not decoded yet; the batch that is being read counts until it is done."""
        opened = self._header.size if self._header is not None else 0
        return self._stop - self._at + opened

    @property
    def done(self) -> bool:
        return self._at >= self._stop and self._records is None

    def take(self, out: list[Record], limit: int) -> None:
        """Append at most `limit` records, and skip batches without records.

        A batch that cannot be read raises an error when it is next in line, and again at every later call. Only a seek
        of the application skips it.
        """
        self._cursor = None  # `_at` and `position` say where it was
        wanted = len(out) + limit
        while len(out) < wanted:
            if self._records is None and not self._open():
                return
            assert self._records is not None and self._header is not None
            before = len(out)
            try:
                self._records.take(out, wanted - before)
            except BatchError as error:
                if len(out) == before:
                    raise self._corrupt(error) from error
            if len(out) > before:
                self.position = out[-1].offset + 1
                self.epoch = self._header.leader_epoch
            if self._records.left == 0:
                self._finish()

    def take_rows(self, rows: ArrowRows, limit: int) -> bool:
        """Like `take`, without a Python object per record."""
        cursor = self._cursor
        if cursor is None:
            cursor = self._cursor = self._cursor_here()
        try:
            rows.take(cursor, self.partition.topic, self.partition.partition, limit)
        except BatchError as error:
            self._continue_after(cursor)
            raise self._corrupt(error) from error
        self._continue_after(cursor)
        return True

    def _cursor_here(self) -> BatchCursor:
        """Return a cursor at the next record, which may be inside a batch that was opened for `take`."""
        from moldau.records.arrow import BatchCursor

        if self._header is not None:
            self._at -= self._header.size
            self._header = self._records = None
        return BatchCursor(
            self._data,
            self._at,
            self._stop,
            from_offset=self.position,
            check_crcs=self._check_crcs,
            wanted=lambda header, at: not self._is_aborted(header, at),
        )

    def _continue_after(self, cursor: BatchCursor) -> None:
        self._at = cursor.position
        if cursor.next_offset > self.position:
            self.position = cursor.next_offset
            self.epoch = cursor.leader_epoch if cursor.leader_epoch >= 0 else self.epoch

    # -- batches ---------------------------------------------------------------------------------------------------

    def _open(self) -> bool:
        """Open the next batch that has records for the application. Return False if there is none."""
        while self._at < self._stop:
            try:
                header = open_batch(self._data, self._at, check_crc=self._check_crcs)
                codec = check_header(
                    header.base_offset, header.attributes, header.last_offset_delta, header.count,
                    allow_control=True, allow_gaps=True,
                )  # fmt: skip
                wanted = self._is_wanted(header)
                if wanted:
                    self._records = self._records_in(header, codec)
            except BatchError as error:
                raise self._corrupt(error) from error
            self._header = header
            self._at += header.size
            if wanted:
                return True
            self._finish()
        return False

    def _records_in(self, header: BatchHeader, codec: Codec) -> BatchRecords:
        data = self._data[self._at + HEADER_SIZE : self._at + header.size]
        if codec is not Codec.NONE:
            data = codecs.decompress(codec, data, MAX_DECOMPRESSED_BYTES)
        return BatchRecords(data, header, self.partition.topic, self.partition.partition, self.position)

    def _is_wanted(self, header: BatchHeader) -> bool:
        """Return whether the batch has records for the application: not control, aborted or already read records."""
        if self._is_aborted(header, self._at):
            return False
        return not header.is_control and header.last_offset >= self.position and header.count > 0

    def _is_aborted(self, header: BatchHeader, at: int) -> bool:
        """Return whether the batch belongs to an aborted transaction.

        Called for every batch in order. A second call for the same batch, after a change between records and rows in
        the middle of it, changes nothing.
        """
        if not self._committed_only or not header.is_transactional:
            return False
        while self._aborted and self._aborted[-1][1] <= header.last_offset:
            self._aborting.add(self._aborted.pop()[0])
        if header.producer_id not in self._aborting:
            return False
        if not header.is_control:
            return True
        # Compaction may leave only the header of a marker, without its type. Then no record of the transaction is left.
        if header.count > 0 and parse_marker(self._data, at).type is ControlType.ABORT:
            self._aborting.discard(header.producer_id)
        return False

    def _finish(self) -> None:
        """Move the position past the batch, including offsets at its end that compaction left without a record."""
        assert self._header is not None
        if self._header.last_offset >= self.position:
            self.position = self._header.last_offset + 1
            self.epoch = self._header.leader_epoch
        self._header = None
        self._records = None

    def _corrupt(self, error: BatchError) -> MoldauError:
        topic, partition = self.partition
        return CorruptRecord(
            f"reading offset {self.position} of partition {partition} of topic {topic!r}: {error}; the position stays "
            f"there; to skip the batch, seek to offset {self._offset_after()}",
            ErrorCode.CORRUPT_MESSAGE,
        )

    def _offset_after(self) -> int:
        try:
            header = self._header or peek_header(self._data, self._at)
        except BatchError:  # no valid header, so its last offset is unknown
            return self.position + 1
        return max(header.last_offset, self.position) + 1


class HandedBack:
    """Decoded records that were taken back from an iterator. The next poll returns them first. See `RecordSource`."""

    __slots__ = ("_at", "_records", "end", "end_epoch", "epoch", "partition", "position", "version")

    def __init__(
        self, partition: TopicPartition, version: int, position: int, epoch: int, records: list[Record],
        end: int, end_epoch: int,
    ) -> None:  # fmt: skip
        self.partition = partition
        self.version = version
        self.position = position
        self.epoch = epoch
        self.end = end
        self.end_epoch = end_epoch
        self._records = records
        self._at = 0

    @property
    def size(self) -> int:
        return 0  # its bytes stopped counting when they were decoded; it is at most what one iterator took

    @property
    def done(self) -> bool:
        return self._at >= len(self._records)

    def take(self, out: list[Record], limit: int) -> None:
        taken = self._records[self._at : self._at + limit]
        out.extend(taken)
        self._at += len(taken)
        if self.done:
            self.position, self.epoch = self.end, self.end_epoch
        elif taken:
            self.position, self.epoch = taken[-1].offset + 1, taken[-1].leader_epoch

    def take_rows(self, rows: ArrowRows, limit: int) -> bool:
        return False


class Failure:
    """An error that is raised after the application has read the records before it. See `RecordSource`."""

    __slots__ = ("end", "end_epoch", "epoch", "error", "partition", "position", "version")

    def __init__(self, partition: TopicPartition, version: int, position: int, epoch: int, error: MoldauError) -> None:
        self.partition = partition
        self.version = version
        self.position = self.end = position
        self.epoch = self.end_epoch = epoch
        self.error = error

    @property
    def size(self) -> int:
        return 0

    @property
    def done(self) -> bool:
        return False

    def take(self, out: list[Record], limit: int) -> None:
        raise self.error

    def take_rows(self, rows: ArrowRows, limit: int) -> bool:
        raise self.error


def _whole_batches(data: memoryview, position: int) -> tuple[int, int, int]:
    """Return the end of the last whole batch in `data`, the offset after it, and its leader epoch.

    A broker cuts a response at its maximum size, mostly in the middle of a batch. The next fetch returns that batch.
    """
    at, size = 0, len(data)
    last = -1
    while size - at >= HEADER_SIZE:
        length = BATCH_STEP.unpack_from(data, at)[1] + LENGTH_END
        if length < HEADER_SIZE:
            # Not a batch: decoding raises an error when it gets here. The batches after it cannot be found.
            return size, max(position, _end_of(data, last) if last >= 0 else position), -1
        if length > size - at:
            break
        last = at
        at += length
    if last < 0:
        return 0, position, -1
    return at, max(position, _end_of(data, last)), peek_header(data, last).leader_epoch


def _end_of(data: memoryview, at: int) -> int:
    base_offset, _, _, last_offset_delta = BATCH_STEP.unpack_from(data, at)
    return int(base_offset + last_offset_delta + 1)


def nothing_whole(partition: TopicPartition, position: int, size: int) -> BrokerError:
    """Return the error for a response without a whole batch. Brokers since 0.10.1 do not send such responses."""
    return RecordTooLarge(
        f"reading offset {position} of {partition}: the broker sent {size} bytes, which is not one whole batch; raise "
        "max.partition.fetch.bytes and fetch.max.bytes",
        ErrorCode.MESSAGE_TOO_LARGE,
    )
