"""What one answer brought for one partition: a run of batches, decoded a few records at a time.

A run knows where it begins, how far it has been read, and where it ends, so that the next fetch can be sent before the
application has read this one. Reading it moves nothing but the run itself; the position of the partition follows when
its records are handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from moldau.client.consumer.decode import BatchRecords, Record
from moldau.client.errors import BrokerError, CorruptRecord, MoldauError, RecordTooLarge
from moldau.client.model import TopicPartition
from moldau.records import codecs
from moldau.records.batch import check_header, open_batch, peek_header
from moldau.records.control import ControlType, parse_marker
from moldau.records.errors import BatchError
from moldau.records.model import HEADER_SIZE, LENGTH_END, BatchHeader, Codec
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.records.arrow import ArrowRows, BatchCursor

MAX_DECOMPRESSED_BYTES: Final = 1 << 30
"""One batch, once decompressed. Brokers take what they are configured to take, so this is far beyond honest data."""

Aborted = tuple[int, int]
"""A producer id, and the offset at which its aborted transaction begins."""

_SIZE_AND_DELTA: Final = Struct(">qi11xi")  # base offset, length, (epoch, magic, crc, attributes,) last offset delta


class Source(Protocol):
    """Records of one partition in the order of their offsets, wherever they come from."""

    partition: TopicPartition
    version: int  # of the partition's state when they were asked for
    position: int  # of the next record, as far as it is known
    epoch: int  # of the leader that wrote what stands before the position
    end: int  # the offset after all of it
    end_epoch: int

    @property
    def size(self) -> int:
        """Bytes that are still held."""

    @property
    def done(self) -> bool:
        """Whether nothing is left, not even offsets to go past."""

    def take(self, out: list[Record], limit: int) -> None:
        """Append at most `limit` records, and move on past what holds none. Errors keep what was appended."""

    def take_rows(self, rows: ArrowRows, limit: int) -> bool:
        """The same as rows of a table. False where that cannot be done, and the records have to be fetched again."""


class Run:
    """Batches as an answer brought them, whole ones only. See `Source`."""

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
        """`data` is the run's own; `aborted` is None where transactions that were aborted are to be read, too."""
        self.partition = partition
        self.version = version
        self.position = position
        self.epoch = epoch
        self._data = memoryview(data)
        self._check_crcs = check_crcs
        self._committed_only = aborted is not None
        self._aborted = sorted(aborted or (), key=lambda one: one[1], reverse=True)  # the next to begin is the last
        self._aborting: set[int] = set()  # producers whose transactions, at this point of the log, will be aborted
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
        """Bytes that have not been decoded; those of the batch that is being read count until it is done."""
        opened = self._header.size if self._header is not None else 0
        return self._stop - self._at + opened

    @property
    def done(self) -> bool:
        return self._at >= self._stop and self._records is None

    def take(self, out: list[Record], limit: int) -> None:
        """Append at most `limit` records, and move past what holds none.

        A batch that cannot be read raises an error when it is the next thing to be read, and again at every further
        call: nothing is skipped unless the application says so, by a seek.
        """
        self._cursor = None  # it stands at the batch that `_at` and `position` say
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
                    raise self._unreadable(error) from error
            if len(out) > before:
                self.position = out[-1].offset + 1
                self.epoch = self._header.leader_epoch
            if self._records.left == 0:
                self._finish()

    def take_rows(self, rows: ArrowRows, limit: int) -> bool:
        """As `take`, without an object a record."""
        cursor = self._cursor
        if cursor is None:
            cursor = self._cursor = self._cursor_here()
        try:
            rows.take(cursor, self.partition.topic, self.partition.partition, limit)
        except BatchError as error:
            self._follow(cursor)
            raise self._unreadable(error) from error
        self._follow(cursor)
        return True

    def _cursor_here(self) -> BatchCursor:
        """At the next record, which may be in the middle of a batch that was opened for `take`."""
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

    def _follow(self, cursor: BatchCursor) -> None:
        self._at = cursor.position
        if cursor.next_offset > self.position:
            self.position = cursor.next_offset
            self.epoch = cursor.leader_epoch if cursor.leader_epoch >= 0 else self.epoch

    # -- batches ---------------------------------------------------------------------------------------------------

    def _open(self) -> bool:
        """Open the next batch that has records for the application, going past those that have none."""
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
                raise self._unreadable(error) from error
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
        """Whether the batch has records for the application: not markers, not what was aborted, not what was read."""
        if self._is_aborted(header, self._at):
            return False
        return not header.is_control and header.last_offset >= self.position and header.count > 0

    def _is_aborted(self, header: BatchHeader, at: int) -> bool:
        """Shown every batch in order; one that is shown again, since it is read on in another way, changes nothing."""
        if not self._committed_only or not header.is_transactional:
            return False
        while self._aborted and self._aborted[-1][1] <= header.last_offset:
            self._aborting.add(self._aborted.pop()[0])
        if header.producer_id not in self._aborting:
            return False
        if not header.is_control:
            return True
        # Compaction may leave a marker's header alone, whose type nobody can know: then nothing of it is left, either.
        if header.count > 0 and parse_marker(self._data, at).type is ControlType.ABORT:
            self._aborting.discard(header.producer_id)
        return False

    def _finish(self) -> None:
        """The batch is done, all its offsets with it: also those that compaction has left without a record."""
        assert self._header is not None
        if self._header.last_offset >= self.position:
            self.position = self._header.last_offset + 1
            self.epoch = self._header.leader_epoch
        self._header = None
        self._records = None

    def _unreadable(self, error: BatchError) -> MoldauError:
        topic, partition = self.partition
        return CorruptRecord(
            f"reading offset {self.position} of partition {partition} of topic {topic!r}: {error}; the position stays "
            f"there; to go past the batch, seek to offset {self._past()}",
            ErrorCode.CORRUPT_MESSAGE,
        )

    def _past(self) -> int:
        try:
            header = self._header or peek_header(self._data, self._at)
        except BatchError:  # not even a header: nobody can say where it ends
            return self.position + 1
        return max(header.last_offset, self.position) + 1


class HandedBack:
    """Records that had been decoded, and that the application has not seen: they come first next time. See `Source`."""

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
        return 0  # its bytes were given free when it was decoded; it is no more than one poll's worth

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
    """An error that the application has to hear of when it has read all that came before it. See `Source`."""

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
    """Where the last whole batch ends, the offset after it, and its leader's epoch.

    Brokers cut an answer where its size is reached, mostly in the middle of a batch. The tail will come again.
    """
    at, size = 0, len(data)
    last = -1
    while size - at >= HEADER_SIZE:
        length = _SIZE_AND_DELTA.unpack_from(data, at)[1] + LENGTH_END
        if length < HEADER_SIZE:
            # No batch: decoding will say so when it comes to it. What is behind cannot be found.
            return size, max(position, _end_of(data, last) if last >= 0 else position), -1
        if length > size - at:
            break
        last = at
        at += length
    if last < 0:
        return 0, position, -1
    return at, max(position, _end_of(data, last)), peek_header(data, last).leader_epoch


def _end_of(data: memoryview, at: int) -> int:
    base_offset, _, last_offset_delta = _SIZE_AND_DELTA.unpack_from(data, at)
    return int(base_offset + last_offset_delta + 1)


def nothing_whole(partition: TopicPartition, position: int, size: int) -> BrokerError:
    """The error for an answer that has bytes and not one whole batch. Brokers since 0.10.1 do not give such answers."""
    return RecordTooLarge(
        f"reading offset {position} of {partition}: the broker sent {size} bytes, which is not one whole batch; raise "
        "max.partition.fetch.bytes and fetch.max.bytes",
        ErrorCode.MESSAGE_TOO_LARGE,
    )
