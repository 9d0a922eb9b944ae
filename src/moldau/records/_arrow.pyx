# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decoding of record batches into Arrow buffers in C: the native version of arrow_reference.py.

Names, results and errors are the same. No object per record, and none per batch for an ordinary batch. `_walk.pxd` has
the walk over records.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from moldau.records._batch_layout cimport (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL_BIT,
    COUNT_AT,
    CRC_AT,
    CRC_FROM,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    TRANSACTIONAL_BIT,
)
from moldau.records._walk cimport (
    Header,
    Parsed,
    Walk,
    end_walk,
    load_be16,
    load_be32,
    load_be64,
    next_record,
    read_varint,
    start_walk,
)

from moldau.records import arrow_layout as _model
from moldau.records import codecs as _codecs
from moldau.records.batch import check_header as _check_header
from moldau.records.batch import open_batch as _open_batch
from moldau.records.errors import refusal as _refusal

cdef extern from "_crc32c.h" nogil:
    bint crc32c_available()
    uint32_t crc32c_extend(uint32_t value, const uint8_t *p, size_t n)

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void **memptr, size_t alignment, size_t size)

cdef enum:
    ALIGNMENT = 64  # recommended by Arrow
    LEAST_ROOM = 1024
    SLACK = 64  # bytes after the used ones that may be overwritten: cells are copied in whole blocks
    BLOCK = 32
    OUT_OF_MEMORY = -1000
    NOGIL_BYTES = 32 * 1024  # a batch of at least this size is read without the GIL

cdef bint HARDWARE_CRC = crc32c_available()
cdef int64_t MAX_COLUMN_BYTES = _model.MAX_COLUMN_BYTES
cdef object BinaryColumn = _model.BinaryColumn
cdef object HeaderColumns = _model.HeaderColumns
cdef object RowColumns = _model.RowColumns


# -- memory


cdef class Memory:
    """A finished buffer with Python's buffer protocol; freed with the last view of it."""

    cdef uint8_t *data
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def __releasebuffer__(self, Py_buffer *view):
        pass

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.size


cdef struct Growing:
    # A buffer that grows at its end. SLACK bytes more than `room` are always allocated.
    uint8_t *data
    size_t used
    size_t room


cdef inline int reserve(Growing *buffer, size_t more) noexcept nogil:
    """0, or -1 if there is no memory."""
    if buffer.used + more <= buffer.room:
        return 0
    return grow(buffer, buffer.used + more)


cdef int grow(Growing *buffer, size_t wanted) noexcept nogil:
    cdef void *data = NULL
    cdef size_t room = buffer.room + buffer.room // 2
    if room < wanted:
        room = wanted
    if room < LEAST_ROOM:
        room = LEAST_ROOM
    room = (room + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    if posix_memalign(&data, ALIGNMENT, room + SLACK) != 0:
        return -1
    if buffer.data != NULL:
        memcpy(data, buffer.data, buffer.used)
    free(buffer.data)
    buffer.data = <uint8_t *>data
    buffer.room = room
    return 0


cdef Memory finished(Growing *buffer):
    """The written bytes as an object; the buffer is empty afterwards."""
    cdef Memory memory = Memory.__new__(Memory)
    if buffer.data == NULL and reserve(buffer, 1):
        raise MemoryError
    memory.data = buffer.data
    memory.size = buffer.used
    memset(buffer, 0, sizeof(Growing))
    return memory


cdef inline void copy_cell(uint8_t *to, const uint8_t *cell, size_t size, const uint8_t *end) noexcept nogil:
    """memcpy for cells that are mostly small: copies whole blocks, past the end of the cell where that is harmless.

    Bytes up to `end` may be read; SLACK bytes after the destination may be overwritten.
    """
    cdef size_t at = 0
    if size > 1024 or <size_t>(end - cell) < size + BLOCK:
        memcpy(to, cell, size)
        return
    while at < size:
        memcpy(to + at, cell + at, BLOCK)
        at += BLOCK


# -- growing binary column


cdef struct Binary:
    Growing bits  # one bit per row, set if not null; bits of later rows are set in advance
    Growing offsets
    Growing data
    int64_t rows
    int64_t nulls


cdef int binary_reserve(Binary *column, int64_t rows, int64_t size) noexcept nogil:
    cdef size_t bits = <size_t>(column.rows + rows + 7) // 8
    cdef size_t before = column.bits.used
    if bits > before:
        if reserve(&column.bits, bits - before):
            return -1
        memset(column.bits.data + before, 0xFF, bits - before)
        column.bits.used = bits
    if column.offsets.data != NULL:
        column.offsets.used = 4 * (column.rows + 1)
    if reserve(&column.offsets, 4 * (rows + 1)) or reserve(&column.data, size):
        return -1
    if column.rows == 0:
        (<int32_t *>column.offsets.data)[0] = 0
    return 0


cdef inline void binary_append(Binary *column, const uint8_t *cell, int32_t size, const uint8_t *end) noexcept nogil:
    """Append a cell; the caller has reserved the room."""
    if size > 0:
        copy_cell(column.data.data + column.data.used, cell, size, end)
        column.data.used += size
    elif size < 0:
        column.bits.data[column.rows >> 3] &= ~<uint8_t>(1 << (column.rows & 7))
        column.nulls += 1
    column.rows += 1
    (<int32_t *>column.offsets.data)[column.rows] = <int32_t>column.data.used


cdef object binary_column(Binary *column):
    if binary_reserve(column, 0, 0):
        raise MemoryError
    column.offsets.used = 4 * (column.rows + 1)
    column.bits.used = (column.rows + 7) // 8
    if column.rows & 7:
        column.bits.data[column.rows >> 3] &= <uint8_t>((1 << (column.rows & 7)) - 1)
    bits = finished(&column.bits)
    result = BinaryColumn(
        bits if column.nulls else None, column.nulls, finished(&column.offsets), finished(&column.data)
    )
    column.rows = 0
    column.nulls = 0
    return result


cdef void binary_free(Binary *column) noexcept:
    free(column.bits.data)
    free(column.offsets.data)
    free(column.data.data)


# -- decoding


cdef class BatchCursor:
    """See arrow_reference.BatchCursor."""

    cdef object buf, wanted, inner
    cdef Py_buffer view, inner_view
    cdef bint holds_view, holds_inner, check_crcs, is_open, is_checked
    cdef Py_ssize_t end
    cdef Header header
    cdef Walk walk
    cdef readonly Py_ssize_t position
    cdef readonly int64_t next_offset
    cdef readonly int32_t leader_epoch

    def __cinit__(
        self, buf, Py_ssize_t position=0, end=None, *, int64_t from_offset=0, bint check_crcs=True, wanted=None
    ):
        PyObject_GetBuffer(buf, &self.view, PyBUF_SIMPLE)
        self.holds_view = True
        self.buf = buf
        self.end = self.view.len if end is None else end
        if not 0 <= position <= self.end <= self.view.len:
            raise ValueError(f"batches from {position} to {self.end} in {self.view.len} bytes")
        self.check_crcs = check_crcs
        self.wanted = wanted
        self.position = position
        self.next_offset = from_offset
        self.leader_epoch = -1

    def __dealloc__(self):
        self.drop_inner()
        if self.holds_view:
            PyBuffer_Release(&self.view)

    cdef void drop_inner(self):
        if self.holds_inner:
            PyBuffer_Release(&self.inner_view)
            self.holds_inner = False

    @property
    def done(self):
        """Whether no batch is left."""
        return self.position >= self.end

    cdef int enter(self) except -1:
        """Open the batch at `position`; if it has no rows it is skipped, and not open afterwards."""
        cdef const uint8_t *p = <const uint8_t *>self.view.buf + self.position
        if self.is_ordinary(p, self.end - self.position):
            start_walk(&self.walk, &self.header, p + HEADER_SIZE, self.header.size - HEADER_SIZE, False, True)
        elif not self.enter_with_care():
            return 0
        self.is_open = True
        self.is_checked = False
        return 0

    cdef bint is_ordinary(self, const uint8_t *p, Py_ssize_t left):
        """Whether the batch is whole and valid, not compressed, without gaps, and not subject to `wanted`."""
        cdef Header *header = &self.header
        cdef int16_t special = CODEC_MASK | CONTROL_BIT
        if self.wanted is not None:
            special |= TRANSACTIONAL_BIT
        if left < HEADER_SIZE or p[MAGIC_AT] != MAGIC:
            return False
        header.size = <int64_t><int32_t>load_be32(p + LENGTH_AT) + LENGTH_END
        header.attributes = <int16_t>load_be16(p + ATTRIBUTES_AT)
        if header.size < HEADER_SIZE or header.size > left or header.attributes & special:
            return False
        header.base_offset = <int64_t>load_be64(p)
        header.leader_epoch = <int32_t>load_be32(p + LEADER_EPOCH_AT)
        header.last_offset_delta = <int32_t>load_be32(p + LAST_OFFSET_DELTA_AT)
        header.base_timestamp = <int64_t>load_be64(p + BASE_TIMESTAMP_AT)
        header.max_timestamp = <int64_t>load_be64(p + MAX_TIMESTAMP_AT)
        header.count = <int32_t>load_be32(p + COUNT_AT)
        if header.count < 1 or header.last_offset_delta != header.count - 1:
            return False
        if not 0 <= header.base_offset <= INT64_MAX - header.last_offset_delta:
            return False
        if not self.check_crcs:
            return True
        return HARDWARE_CRC and crc32c_extend(0, p + CRC_FROM, header.size - CRC_FROM) == load_be32(p + CRC_AT)

    cdef bint enter_with_care(self) except -1:
        """Open the batch with the checks and errors of the reference. False if the batch was skipped."""
        cdef Header *header = &self.header
        cdef Py_ssize_t start = self.position
        whole = memoryview(self.buf)[: self.end]
        found = _open_batch(whole, start, check_crc=self.check_crcs)
        codec = _check_header(
            found.base_offset,
            found.attributes,
            found.last_offset_delta,
            found.count,
            allow_control=True,
            allow_gaps=True,
        )
        header.base_offset = found.base_offset
        header.size = found.size
        header.leader_epoch = found.leader_epoch
        header.attributes = found.attributes
        header.last_offset_delta = found.last_offset_delta
        header.base_timestamp = found.base_timestamp
        header.max_timestamp = found.max_timestamp
        header.count = found.count
        keep = not found.is_control
        if self.wanted is not None and (found.is_control or found.is_transactional):
            keep = self.wanted(found, start) and keep
        if not keep:
            self.leave()
            return False
        self.inner = _codecs.decompress(codec, whole[start + HEADER_SIZE : start + header.size])
        PyObject_GetBuffer(self.inner, &self.inner_view, PyBUF_SIMPLE)
        self.holds_inner = True
        start_walk(&self.walk, header, <const uint8_t *>self.inner_view.buf, self.inner_view.len, False, True)
        return True

    cdef void leave(self):
        """Move to the next batch."""
        self.position += self.header.size
        if self.next_offset <= self.header.base_offset + self.header.last_offset_delta:
            self.next_offset = self.header.base_offset + self.header.last_offset_delta + 1
        self.is_open = False
        self.drop_inner()
        self.inner = None

    cdef int check_all(self) except -1:
        """Check every record before the first one is returned: for a batch that is taken in several parts."""
        cdef Walk walk = self.walk
        cdef Parsed record
        cdef int fault = 0
        if self.is_checked:
            return 0
        while walk.index < walk.count and not fault:
            fault = next_record(&walk, &record)
        if not fault:
            fault = end_walk(&walk)
        if fault:
            self.refuse(&walk, fault)
        self.is_checked = True
        return 0

    cdef int refuse(self, Walk *walk, int fault) except -1:
        self.is_open = False
        self.drop_inner()
        self.inner = None
        raise _refusal(fault, walk.index, walk.found, walk.expected)


cdef class RowCollector:
    """See arrow_reference.RowCollector."""

    cdef int64_t max_bytes
    cdef bint with_headers
    cdef Binary keys, values, header_keys, header_values
    cdef Growing topic, partition, offset, timestamp, timestamp_type, header_at
    cdef readonly bint full
    cdef readonly int64_t rows

    def __cinit__(self, *, bint headers=False, int64_t max_bytes=MAX_COLUMN_BYTES):
        self.with_headers = headers
        self.max_bytes = max_bytes

    def __dealloc__(self):
        binary_free(&self.keys)
        binary_free(&self.values)
        binary_free(&self.header_keys)
        binary_free(&self.header_values)
        free(self.topic.data)
        free(self.partition.data)
        free(self.offset.data)
        free(self.timestamp.data)
        free(self.timestamp_type.data)
        free(self.header_at.data)

    def take(self, BatchCursor cursor not None, int32_t topic, int32_t partition, int64_t max_rows):
        """See arrow_reference.RowCollector.take."""
        cdef int64_t taken = 0
        cdef int64_t got
        while taken < max_rows and cursor.position < cursor.end:
            if not cursor.is_open:
                cursor.enter()
                if not cursor.is_open:
                    continue
            if self.rows and self.largest() + (cursor.walk.end - cursor.walk.at) > self.max_bytes:
                self.full = True
                break
            if cursor.walk.count - cursor.walk.index > max_rows - taken:
                cursor.check_all()
            if cursor.walk.end - cursor.walk.at >= NOGIL_BYTES:
                with nogil:
                    got = self.take_batch(cursor, topic, partition, max_rows - taken)
            else:
                got = self.take_batch(cursor, topic, partition, max_rows - taken)
            if got == OUT_OF_MEMORY:
                raise MemoryError
            if got < 0:
                cursor.refuse(&cursor.walk, <int>-got)
            taken += got
            if cursor.walk.index == cursor.walk.count:
                cursor.leave()
        return taken

    cdef int64_t largest(self):
        return <int64_t>max(
            max(self.keys.data.used, self.values.data.used),
            max(self.header_keys.data.used, self.header_values.data.used),
        )

    cdef int64_t take_batch(
        self, BatchCursor cursor, int32_t topic, int32_t partition, int64_t max_rows
    ) noexcept nogil:
        """The number of rows; on a fault, its negated number, and everything is as before."""
        # Local copies whose address does not escape: the compiler keeps their fields in registers. It must assume that
        # written bytes may overlap everything else, which it therefore reads again after each write.
        cdef Walk walk = cursor.walk
        cdef Binary keys, values
        cdef Parsed record
        cdef const uint8_t *end = walk.end
        cdef int64_t base_offset = cursor.header.base_offset
        cdef int64_t base_timestamp = cursor.header.base_timestamp
        cdef bint append_time = cursor.header.attributes & LOG_APPEND_TIME_BIT != 0
        cdef bint with_headers = self.with_headers
        cdef int64_t from_offset = cursor.next_offset
        cdef int64_t before = self.rows
        cdef int64_t headers_before = self.header_keys.rows
        cdef int64_t row = before
        cdef int64_t last = before + max_rows
        cdef int64_t *offsets
        cdef int64_t *timestamps
        cdef int fault = 0
        # A record has at least seven bytes. The limit protects against a wrong count in the header.
        cdef int64_t most = min(max_rows, min(<int64_t>(walk.count - walk.index), (walk.end - walk.at) // 7 + 1))
        if self.reserve_rows(most, walk.end - walk.at):
            return OUT_OF_MEMORY
        keys = self.keys
        values = self.values
        offsets = <int64_t *>self.offset.data
        timestamps = <int64_t *>self.timestamp.data
        while walk.index < walk.count and row < last:
            fault = next_record(&walk, &record)
            if fault:
                break
            if base_offset + record.offset_delta < from_offset:
                continue
            offsets[row] = base_offset + record.offset_delta
            timestamps[row] = base_timestamp + record.timestamp_delta
            binary_append(&keys, record.key, record.key_size, end)
            binary_append(&values, record.value, record.value_size, end)
            row += 1
            if with_headers and self.take_headers(&record, walk.at, end):
                fault = OUT_OF_MEMORY
                break
        if not fault and walk.index == walk.count:
            fault = end_walk(&walk)
        if fault:
            cursor.walk.index = walk.index
            cursor.walk.found = walk.found
            cursor.walk.expected = walk.expected
            self.forget(before, headers_before)
            return OUT_OF_MEMORY if fault == OUT_OF_MEMORY else -fault
        self.keys = keys
        self.values = values
        cursor.walk = walk
        self.rows = row
        if row > before:
            cursor.next_offset = offsets[row - 1] + 1
            cursor.leader_epoch = cursor.header.leader_epoch
            self.fill(before, topic, partition, append_time, cursor.header.max_timestamp)
        return row - before

    cdef int reserve_rows(self, int64_t rows, int64_t size) noexcept nogil:
        """Reserve room for the rows of one batch. They are written first and counted afterwards."""
        if binary_reserve(&self.keys, rows, size) or binary_reserve(&self.values, rows, size):
            return -1
        self.topic.used = self.partition.used = self.timestamp_type.used = 4 * self.rows
        self.offset.used = self.timestamp.used = 8 * self.rows
        if reserve(&self.topic, 4 * rows) or reserve(&self.partition, 4 * rows):
            return -1
        if reserve(&self.timestamp_type, 4 * rows):
            return -1
        if reserve(&self.offset, 8 * rows) or reserve(&self.timestamp, 8 * rows):
            return -1
        if self.with_headers:
            self.header_at.used = 4 * (self.rows + 1)
            if reserve(&self.header_at, 4 * rows):
                return -1
            if self.rows == 0:
                (<int32_t *>self.header_at.data)[0] = 0
        return 0

    cdef int take_headers(self, Parsed *record, const uint8_t *record_end, const uint8_t *end) noexcept nogil:
        # The walk has validated these bytes, so reading them again cannot fail.
        cdef const uint8_t *at = record.headers
        cdef int32_t size = 0
        cdef Py_ssize_t room = record_end - at
        if binary_reserve(&self.header_keys, record.header_count, room):
            return -1
        if binary_reserve(&self.header_values, record.header_count, room):
            return -1
        for _ in range(record.header_count):
            read_varint(&at, record_end, &size)
            binary_append(&self.header_keys, at, size, end)
            at += size
            read_varint(&at, record_end, &size)
            binary_append(&self.header_values, at, size, end)
            if size > 0:
                at += size
        self.header_at.used += 4
        (<int32_t *>self.header_at.data)[self.header_at.used // 4 - 1] = <int32_t>self.header_keys.rows
        return 0

    cdef void fill(
        self, int64_t start, int32_t topic, int32_t partition, bint append_time, int64_t max_timestamp
    ) noexcept nogil:
        """Fill the columns that are the same for all rows of a batch."""
        cdef int64_t row
        cdef int32_t *topics = <int32_t *>self.topic.data
        cdef int32_t *partitions = <int32_t *>self.partition.data
        cdef int32_t *types = <int32_t *>self.timestamp_type.data
        cdef int64_t *timestamps = <int64_t *>self.timestamp.data
        for row in range(start, self.rows):
            topics[row] = topic
        for row in range(start, self.rows):
            partitions[row] = partition
        for row in range(start, self.rows):
            types[row] = append_time
        if append_time:
            for row in range(start, self.rows):
                timestamps[row] = max_timestamp

    cdef void forget(self, int64_t rows, int64_t headers) noexcept nogil:
        """Undo the rows of an invalid batch; the lengths of keys and values have not changed yet."""
        restore(&self.keys, rows)
        restore(&self.values, rows)
        if self.with_headers:
            restore(&self.header_keys, headers)
            restore(&self.header_values, headers)

    def finish(self):
        """See arrow_reference.RowCollector.finish."""
        headers = None
        self.reserve_rows(0, 0)
        if self.with_headers:
            if reserve(&self.header_at, 4):
                raise MemoryError
            (<int32_t *>self.header_at.data)[0] = 0
            count = self.header_keys.rows
            keys = binary_column(&self.header_keys)
            headers = HeaderColumns(finished(&self.header_at), count, keys, binary_column(&self.header_values))
        rows = self.rows
        self.rows = 0
        self.full = False
        return RowColumns(
            rows,
            binary_column(&self.keys),
            binary_column(&self.values),
            finished(&self.topic),
            finished(&self.partition),
            finished(&self.offset),
            finished(&self.timestamp),
            finished(&self.timestamp_type),
            headers,
        )


cdef void restore(Binary *column, int64_t rows) noexcept nogil:
    """Truncate the column to `rows`, and set the bits of later rows again."""
    cdef int64_t row
    cdef size_t byte
    column.rows = rows
    column.data.used = 0 if column.offsets.data == NULL else (<int32_t *>column.offsets.data)[rows]
    for row in range(rows, (rows + 7) // 8 * 8):
        if <size_t>(row >> 3) < column.bits.used:
            column.bits.data[row >> 3] |= <uint8_t>(1 << (row & 7))
    for byte in range((rows + 7) // 8, column.bits.used):
        column.bits.data[byte] = 0xFF
    column.nulls = count_nulls(column)


cdef int64_t count_nulls(Binary *column) noexcept nogil:
    cdef int64_t row, nulls = 0
    for row in range(column.rows):
        nulls += not column.bits.data[row >> 3] >> (row & 7) & 1
    return nulls
