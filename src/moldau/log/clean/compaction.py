"""Cleaning of one log: records the last offset of every key in the dirty part, then rewrites all segments.

If the keys do not fit into the map, the cleaning stops at the first offset without room and reports it; the next
cleaning starts there. It reads the log's files and writes new files next to them. It does not know the broker, or
whether it runs in the broker's process.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from posixpath import join

from moldau.host.fs import File, FileSystem
from moldau.log import file_names
from moldau.log.aborted import AbortedTxn, decode_aborted
from moldau.log.clean.batch_filter import CleaningRules, LastEntry, filtered
from moldau.log.clean.engine import SLOT_BYTES, OffsetMap, skip_run
from moldau.log.clean.job import CleaningFailed, Finished, Job, Report, SourceSegment
from moldau.log.clean.output import CleanedSegment
from moldau.log.clean.reader import SegmentReader
from moldau.log.clean.schedule import SourceSize, group
from moldau.log.clean.transaction_filter import TransactionFilter
from moldau.log.errors import DamagedLog
from moldau.log.scan import ScannedBatch, headers
from moldau.records import BatchError, peek_header

Spend = Callable[[int], None]
"""Called with the number of bytes read or written; it may wait, and it may raise to end the work."""


def run(job: Job, fs: FileSystem, report: Callable[[Report], None], spend: Spend, seed: bytes) -> None:
    """Run the job. Report each finished segment, then the end of the job or its failure."""
    try:
        sweep(fs, job.directory)
        _Cleaning(job, fs, report, spend).run(seed)
    except (DamagedLog, BatchError) as error:
        report(CleaningFailed(str(error), lasting=True))
    except OSError as error:
        report(CleaningFailed(f"{error.strerror or error} ({error.filename})", lasting=False))


def sweep(fs: FileSystem, directory: str) -> None:
    """Remove the files of an unfinished cleaning."""
    try:
        found = fs.listdir(directory)
    except FileNotFoundError:
        return  # the log was deleted meanwhile
    for name in found:
        if name.endswith(file_names.CLEANED):
            fs.remove(join(directory, name), missing_ok=True)


class _Cleaning:
    def __init__(self, job: Job, fs: FileSystem, report: Callable[[Report], None], spend: Spend) -> None:
        self._job = job
        self._fs = fs
        self._report = report
        self._spend = spend
        self._files = [fs.open(self._path(source, file_names.LOG), source.size) for source in job.sources]
        self._ends = [source.base_offset for source in job.sources[1:]] + [job.upper_offset]
        self._read_bytes = 0
        self._written_bytes = 0
        self._kept_bytes = 0

    def _path(self, source: SourceSegment, suffix: str) -> str:
        return join(self._job.directory, file_names.segment_file(source.base_offset, suffix))

    def run(self, seed: bytes) -> None:
        job = self._job
        aborted = self._aborted()
        offsets = OffsetMap(_slots(job), job.load_factor, seed)
        through = self._collect_keys(offsets, TransactionFilter(aborted))
        producers = {producer: LastEntry(epoch, offset) for producer, epoch, offset in job.producers}
        rules = CleaningRules(offsets, through, job.now_ms, job.delete_retention_ms, producers)
        transactions = TransactionFilter(aborted)
        for numbers in self._groups(through):
            self._rewrite(numbers, rules, transactions)
        self._report(Finished(through + 1, len(offsets), self._read_bytes, self._written_bytes, self._kept_bytes))

    def _aborted(self) -> list[AbortedTxn]:
        found = [AbortedTxn(*one) for one in self._job.aborted]
        for source in self._job.sources:
            path = self._path(source, file_names.TXN_INDEX)
            if self._fs.exists(path):
                found += decode_aborted(self._fs.read_bytes(path), path)
        return found

    # -- first pass ------------------------------------------------------------------------------------------------

    def _collect_keys(self, offsets: OffsetMap, transactions: TransactionFilter) -> int:
        """Fill the map from the dirty part; return the last offset that it covers."""
        first = self._job.first_dirty_offset
        for number, file in enumerate(self._files):
            if self._ends[number] <= first:
                continue
            reader = self._reader(number, _position_of(file, first))
            while reader.more():
                at, expected, refused = offsets.put_run(
                    reader.chunk, reader.at, first, reader.expected, reader.end_offset
                )
                reader.jump(at, expected)
                if refused < 0 and reader.more():
                    refused = self._collect_batch_keys(reader.take(), offsets, transactions)
                if refused >= 0:
                    return refused - 1
        return self._job.upper_offset - 1

    def _collect_batch_keys(self, batch: ScannedBatch, offsets: OffsetMap, transactions: TransactionFilter) -> int:
        if batch.header.is_control:
            transactions.marker_is_obsolete(batch.header, batch.data)  # only to close its transaction
        elif not transactions.is_aborted(batch.header):
            return offsets.put_batch(batch.data, self._job.first_dirty_offset)
        return -1

    # -- second pass -----------------------------------------------------------------------------------------------

    def _groups(self, through: int) -> list[range]:
        job = self._job
        sizes = [
            SourceSize(
                source.base_offset,
                source.size,
                self._size_of(source, file_names.INDEX),
                self._size_of(source, file_names.TIME_INDEX),
            )
            for source in job.sources
            if source.base_offset <= through
        ]
        following = job.sources[len(sizes)].base_offset if len(sizes) < len(job.sources) else job.upper_offset
        return group(sizes, following, job.segment_bytes, job.index_bytes)

    def _size_of(self, source: SourceSegment, suffix: str) -> int:
        path = self._path(source, suffix)
        return self._fs.size(path) if self._fs.exists(path) else 0

    def _rewrite(self, numbers: range, rules: CleaningRules, transactions: TransactionFilter) -> None:
        job = self._job
        bases = [job.sources[number].base_offset for number in numbers]
        alone = self._files[numbers[0]] if len(numbers) == 1 else None
        output = CleanedSegment(self._fs, job.directory, bases[0], job.index_interval_bytes, alone)
        last = max((number for number in numbers if self._files[number].size), default=-1)
        for number in numbers:
            reader, size = self._reader(number, 0), self._files[number].size
            while reader.more():
                # The last batch of a group stays, at least its header. So the new segment covers the same offsets as
                # the old ones, and a start after a crash can tell which segments it replaces.
                before = size - reader.chunk_at if number == last else size
                at, expected = skip_run(
                    reader.chunk, reader.at, rules.offsets, rules.through, reader.expected, reader.end_offset, before
                )
                if at > reader.at:
                    output.differ()
                    reader.jump(at, expected)
                if reader.more():
                    batch = reader.take()
                    keep_place = number == last and batch.position + batch.header.size == size
                    self._write_kept(batch, output, rules, transactions, keep_place)
        aborted, transactions.kept = transactions.kept, []
        replacement = output.finish(bases, aborted)
        self._written_bytes += output.written_bytes
        self._kept_bytes += output.size
        if replacement is not None:
            self._report(replacement)

    def _write_kept(
        self,
        batch: ScannedBatch,
        output: CleanedSegment,
        rules: CleaningRules,
        transactions: TransactionFilter,
        keep_place: bool,
    ) -> None:
        header = batch.header
        left = filtered(header, batch.data, rules, transactions, keep_place=keep_place)
        if left is None:
            output.differ()
        elif isinstance(left, memoryview):
            output.keep(left, header.last_offset, header.max_timestamp)
            self._spend(len(left))
        else:
            output.put(left, header.last_offset, peek_header(left).max_timestamp)
            self._spend(len(left))

    def _reader(self, number: int, position: int) -> SegmentReader:
        source = self._job.sources[number]
        return SegmentReader(
            self._files[number], position, source.base_offset, self._ends[number], self._job.read_bytes, self._count
        )

    def _count(self, read: int) -> None:
        self._read_bytes += read
        self._spend(read)


def _slots(job: Job) -> int:
    """Enough slots for the largest possible number of keys, within the memory limit."""
    records = job.upper_offset - job.first_dirty_offset
    return max(1, min(job.dedupe_bytes // SLOT_BYTES, ceil(records / job.load_factor) + 1))


def _position_of(file: File, offset: int) -> int:
    """The position of the batch that contains `offset`, or of the first batch after it."""
    for position, header in headers(file, 0, file.size):
        if header.last_offset >= offset:
            return position
    return file.size
