# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Encoding of Arrow columns into record batches in C: the native version of arrow_encode_reference.py.

Names, results and errors are the same. Two rules give memory safety: `hold` compares the lengths of all buffers with
the number of rows once, and `get_cell` compares every cell with the end of its data.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_XDECREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from moldau.records._batch_layout cimport HEADER_SIZE
from moldau.records._walk cimport write_varint

from moldau.records import arrow_layout as _model

cdef extern from "Python.h":
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *content, Py_ssize_t size) except NULL
    char *bytes_data "PyBytes_AS_STRING"(PyObject *content) nogil
    int resize_bytes "_PyBytes_Resize"(PyObject **content, Py_ssize_t size) except -1

cdef extern from *:
    int __builtin_clzll(unsigned long long) noexcept nogil

cdef enum:
    MOST_VARINTS = 36  # as in the reference
    MOST_HEADER_VARINTS = 10
    SLACK = 64  # bytes after a batch that may be overwritten: cells are copied in whole blocks
    BLOCK = 32
    FIRST_ROOM = 8 * 1024  # first size of a batch if there are too many partitions for full-size buffers
    ROOM_FOR_ALL = 16 * 1024 * 1024

    # the same numbers as in arrow_layout.py, which has the messages
    OUTSIDE = 1
    NULL_HEADER_KEY = 2
    NEGATIVE_TIMESTAMP = 3
    TOO_LARGE = 4
    NO_SUCH_PARTITION = 5

    NO_PARTITION = -1

cdef object EncodedRows = _model.EncodedRows
cdef object RowError = _model.RowError


# -- columns


cdef struct Column:
    # `arrow_model.Cells` with acquired buffers; `present` is false for a column that is null in every row.
    bint present
    bint has_bits, has_offsets
    Py_buffer bits, offsets, data
    int width
    int64_t cell_size
    int64_t start
    int64_t size  # of data


cdef struct HeaderColumn:
    bint present
    bint has_bits
    Py_buffer bits, offsets
    int width
    int64_t start
    int64_t count
    Column keys, values


cdef struct Cell:
    const uint8_t *data
    int64_t size  # -1: null


cdef struct Rows:
    int64_t count
    Column key, value
    HeaderColumn headers
    bint has_timestamps
    Py_buffer timestamps


cdef int fits(Py_buffer *view, int64_t size) except -1:
    if view.len < size:
        raise ValueError(f"a column's buffer of {view.len} bytes should have {size}; the array is damaged")
    return 0


cdef int hold_column(Column *column, object cells, int64_t rows) except -1:
    if cells is None:
        return 0
    validity, offsets, data, column.width, column.cell_size, column.start = cells
    PyObject_GetBuffer(data, &column.data, PyBUF_SIMPLE)
    column.present = True
    column.size = column.data.len
    if validity is not None:
        PyObject_GetBuffer(validity, &column.bits, PyBUF_SIMPLE)
        column.has_bits = True
        fits(&column.bits, (column.start + rows + 7) // 8)
    if column.width:
        PyObject_GetBuffer(offsets, &column.offsets, PyBUF_SIMPLE)
        column.has_offsets = True
        if rows:
            fits(&column.offsets, (column.start + rows + 1) * column.width)
    return 0


cdef int hold_headers(HeaderColumn *column, object cells, int64_t rows) except -1:
    if cells is None:
        return 0
    validity, offsets, column.width, column.start, column.count, keys, values = cells
    PyObject_GetBuffer(offsets, &column.offsets, PyBUF_SIMPLE)
    column.present = True
    if rows:
        fits(&column.offsets, (column.start + rows + 1) * column.width)
    if validity is not None:
        PyObject_GetBuffer(validity, &column.bits, PyBUF_SIMPLE)
        column.has_bits = True
        fits(&column.bits, (column.start + rows + 7) // 8)
    hold_column(&column.keys, keys, column.count)
    hold_column(&column.values, values, column.count)
    return 0


cdef int hold(Rows *rows, object cells) except -1:
    """Acquire the buffers of `cells`; `release` must follow, also after an error."""
    memset(rows, 0, sizeof(Rows))
    count, value, key, timestamp, headers = cells
    rows.count = count
    hold_column(&rows.value, value, rows.count)
    hold_column(&rows.key, key, rows.count)
    hold_headers(&rows.headers, headers, rows.count)
    if timestamp is not None:
        PyObject_GetBuffer(timestamp, &rows.timestamps, PyBUF_SIMPLE)
        rows.has_timestamps = True
        fits(&rows.timestamps, 8 * rows.count)
    return 0


cdef void release_column(Column *column):
    if column.present:
        PyBuffer_Release(&column.data)
    if column.has_bits:
        PyBuffer_Release(&column.bits)
    if column.has_offsets:
        PyBuffer_Release(&column.offsets)


cdef void release(Rows *rows):
    release_column(&rows.key)
    release_column(&rows.value)
    release_column(&rows.headers.keys)
    release_column(&rows.headers.values)
    if rows.headers.present:
        PyBuffer_Release(&rows.headers.offsets)
    if rows.headers.has_bits:
        PyBuffer_Release(&rows.headers.bits)
    if rows.has_timestamps:
        PyBuffer_Release(&rows.timestamps)


cdef inline bint is_null(bint has_bits, Py_buffer *bits, int64_t place) noexcept nogil:
    return has_bits and not (<const uint8_t *>bits.buf)[place >> 3] >> (place & 7) & 1


cdef inline void offsets_at(Py_buffer *offsets, int width, int64_t place, int64_t *begin, int64_t *end) noexcept nogil:
    if width == 4:
        begin[0] = (<const int32_t *>offsets.buf)[place]
        end[0] = (<const int32_t *>offsets.buf)[place + 1]
    else:
        begin[0] = (<const int64_t *>offsets.buf)[place]
        end[0] = (<const int64_t *>offsets.buf)[place + 1]


cdef inline int get_cell(Column *column, int64_t row, Cell *out) noexcept nogil:
    """0, or the fault."""
    cdef int64_t place = column.start + row
    cdef int64_t begin, end
    if not column.present or is_null(column.has_bits, &column.bits, place):
        out.size = -1
        return 0
    if column.width:
        offsets_at(&column.offsets, column.width, place, &begin, &end)
    else:
        begin = place * column.cell_size
        end = begin + column.cell_size
    if not 0 <= begin <= end <= column.size:
        return OUTSIDE
    out.data = <const uint8_t *>column.data.buf + begin
    out.size = end - begin
    return 0


cdef inline int header_span(HeaderColumn *column, int64_t row, int64_t *begin, int64_t *end) noexcept nogil:
    """Set the range of the row's headers: 0, or the fault."""
    cdef int64_t place = column.start + row
    begin[0] = end[0] = 0
    if not column.present or is_null(column.has_bits, &column.bits, place):
        return 0
    offsets_at(&column.offsets, column.width, place, begin, end)
    return 0 if 0 <= begin[0] <= end[0] <= column.count else OUTSIDE


# -- measuring and writing one row


cdef struct Row:
    Cell key, value
    int64_t first_header, last_header
    int64_t header_bytes  # encoded size
    int64_t most  # maximal size of the record


cdef inline int measure(Column *key, Column *value, HeaderColumn *headers, int64_t at, Row *row) noexcept nogil:
    """0, or the fault."""
    cdef int fault = get_cell(key, at, &row.key)
    if fault:
        return fault
    fault = get_cell(value, at, &row.value)
    if fault:
        return fault
    row.most = MOST_VARINTS + (row.key.size if row.key.size > 0 else 0) + (row.value.size if row.value.size > 0 else 0)
    row.first_header = row.last_header = row.header_bytes = 0
    if headers != NULL:
        return measure_headers(headers, at, row)
    return 0


cdef int measure_headers(HeaderColumn *headers, int64_t at, Row *row) noexcept nogil:
    cdef Cell cell
    cdef int64_t header
    cdef int fault = header_span(headers, at, &row.first_header, &row.last_header)
    if fault:
        return fault
    for header in range(row.first_header, row.last_header):
        fault = get_cell(&headers.keys, header, &cell)
        if fault:
            return fault
        if cell.size < 0:
            return NULL_HEADER_KEY
        row.header_bytes += varint_size(cell.size) + cell.size
        row.most += MOST_HEADER_VARINTS + cell.size
        fault = get_cell(&headers.values, header, &cell)
        if fault:
            return fault
        row.header_bytes += varint_size(cell.size)
        if cell.size > 0:
            row.header_bytes += cell.size
            row.most += cell.size
    return 0


cdef inline int64_t varint_size(int64_t number) noexcept nogil:
    cdef uint64_t value = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    return ((63 - __builtin_clzll(value | 1)) * 9 + 73) >> 6


cdef inline uint8_t *write_cell(uint8_t *p, Cell *cell, const uint8_t *end) noexcept nogil:
    """Write a length and the bytes, in whole blocks if reading and writing past the end is harmless."""
    cdef int64_t at = 0
    p = write_varint(p, cell.size)
    if cell.size <= 0:
        return p
    if cell.size > 1024 or end - cell.data < cell.size + BLOCK:
        memcpy(p, cell.data, cell.size)
    else:
        while at < cell.size:
            memcpy(p + at, cell.data + at, BLOCK)
            at += BLOCK
    return p + cell.size


cdef inline const uint8_t *data_end(Column *column) noexcept nogil:
    return <const uint8_t *>column.data.buf + column.size


cdef uint8_t *write_headers(uint8_t *p, HeaderColumn *headers, Row *row) noexcept nogil:
    cdef Cell cell
    cdef int64_t header
    for header in range(row.first_header, row.last_header):
        get_cell(&headers.keys, header, &cell)  # cannot fail: `measure` has checked them
        p = write_cell(p, &cell, data_end(&headers.keys))
        get_cell(&headers.values, header, &cell)
        p = write_cell(p, &cell, data_end(&headers.values))
    return p


# -- checking rows and choosing partitions


def check_rows(cells, int64_t first_row, int64_t max_record_bytes):
    """See arrow_encode_reference.check_rows."""
    cdef Rows rows
    cdef Row row
    cdef HeaderColumn *headers
    cdef int64_t at = 0, total = 0, found = 0
    cdef int64_t *timestamps
    cdef int fault = 0
    try:
        hold(&rows, cells)
        timestamps = <int64_t *>rows.timestamps.buf if rows.has_timestamps else NULL
        headers = &rows.headers if rows.headers.present else NULL
        for at in range(rows.count):
            fault = measure(&rows.key, &rows.value, headers, at, &row)
            if fault:
                break
            if timestamps != NULL and timestamps[at] < 0:
                fault, found = NEGATIVE_TIMESTAMP, timestamps[at]
                break
            if row.most > max_record_bytes:
                fault, found = TOO_LARGE, row.most
                break
            total += row.most
    finally:
        release(&rows)
    if fault:
        raise RowError(fault, first_row + at, found, max_record_bytes)
    return total


cdef inline uint32_t murmur2(const uint8_t *data, int64_t size) noexcept nogil:
    cdef uint32_t hashed = 0x9747B28CU ^ <uint32_t>size
    cdef uint32_t word
    while size >= 4:
        word = (<uint32_t>data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24)
        word *= 0x5BD1E995U
        word ^= word >> 24
        hashed = hashed * 0x5BD1E995U ^ word * 0x5BD1E995U
        data += 4
        size -= 4
    if size:
        if size == 3:
            hashed ^= <uint32_t>data[2] << 16
        if size >= 2:
            hashed ^= <uint32_t>data[1] << 8
        hashed = (hashed ^ data[0]) * 0x5BD1E995U
    hashed = (hashed ^ hashed >> 13) * 0x5BD1E995U
    return hashed ^ hashed >> 15


def choose_partitions(cells, int64_t first_row, given, int32_t partitions, bint by_key):
    """See arrow_encode_reference.choose_partitions."""
    cdef Rows rows
    cdef Py_buffer asked
    cdef Cell key
    cdef int64_t at = 0
    cdef int32_t partition = NO_PARTITION
    cdef int32_t *chosen
    cdef int fault = 0
    cdef bint has_asked = False
    out = PyByteArray_FromStringAndSize(NULL, 4 * <Py_ssize_t>cells.rows)
    chosen = <int32_t *>PyByteArray_AS_STRING(out)
    try:
        hold(&rows, cells)
        if given is not None:
            PyObject_GetBuffer(given, &asked, PyBUF_SIMPLE)
            has_asked = True
            fits(&asked, 4 * rows.count)
        by_key = by_key and rows.key.present
        for at in range(rows.count):
            partition = (<int32_t *>asked.buf)[at] if has_asked else NO_PARTITION
            if partition >= partitions:
                fault = NO_SUCH_PARTITION
                break
            if partition < 0:
                partition = NO_PARTITION
                if by_key:
                    fault = get_cell(&rows.key, at, &key)
                    if fault:
                        partition = 0
                        break
                    if key.size >= 0:
                        partition = <int32_t>((murmur2(key.data, key.size) & 0x7FFFFFFFU) % <uint32_t>partitions)
            chosen[at] = partition
    finally:
        release(&rows)
        if has_asked:
            PyBuffer_Release(&asked)
    if fault:
        raise RowError(fault, first_row + at, partition, partitions)
    return out


# -- encoding


cdef struct OpenBatch:
    # A batch that is being filled, in a `bytes` object that no other code refers to yet.
    PyObject *buffer
    uint8_t *data
    int64_t used
    int64_t room
    int32_t count
    int64_t base_timestamp
    int64_t max_timestamp


cdef class RowEncoder:
    """See arrow_encode_reference.RowEncoder."""

    cdef OpenBatch *open
    cdef object filled
    cdef int32_t partitions
    cdef int64_t batch_bytes, default_timestamp
    cdef public int32_t sticky

    def __cinit__(self, int32_t partitions, int64_t batch_bytes, int64_t default_timestamp):
        self.open = <OpenBatch *>calloc(max(partitions, 1), sizeof(OpenBatch))
        if self.open == NULL:
            raise MemoryError
        self.partitions = partitions
        self.batch_bytes = batch_bytes
        self.default_timestamp = default_timestamp

    def __dealloc__(self):
        cdef int32_t partition
        if self.open != NULL:
            for partition in range(self.partitions):
                Py_XDECREF(self.open[partition].buffer)
        free(self.open)

    def encode(self, cells, partitions, int64_t start):
        """See arrow_encode_reference.RowEncoder.encode."""
        cdef Rows rows
        cdef Py_buffer chosen
        cdef bint has_chosen = False
        if self.filled is not None:
            raise ValueError("a full batch was not taken")
        try:
            hold(&rows, cells)
            if partitions is not None:
                PyObject_GetBuffer(partitions, &chosen, PyBUF_SIMPLE)
                has_chosen = True
                fits(&chosen, 4 * rows.count)
            return self.encode_rows(&rows, <int32_t *>chosen.buf if has_chosen else NULL, start)
        finally:
            release(&rows)
            if has_chosen:
                PyBuffer_Release(&chosen)

    cdef int64_t encode_rows(self, Rows *rows, int32_t *chosen, int64_t at) except -1:
        # Local copies whose address does not escape: the compiler keeps their fields in registers. It must assume that
        # written bytes may overlap everything else, which it therefore reads again after each write.
        cdef Column key = rows.key
        cdef Column value = rows.value
        cdef HeaderColumn *headers = &rows.headers if rows.headers.present else NULL
        cdef int64_t count = rows.count
        cdef int64_t batch_bytes = self.batch_bytes
        cdef OpenBatch *open = self.open
        cdef Row row
        cdef OpenBatch *batch
        cdef int64_t *timestamps = <int64_t *>rows.timestamps.buf if rows.has_timestamps else NULL
        cdef int32_t partition
        cdef int fault
        while at < count:
            partition = NO_PARTITION if chosen == NULL else chosen[at]
            if partition == NO_PARTITION:
                partition = self.sticky
            if not 0 <= partition < self.partitions:
                raise RowError(NO_SUCH_PARTITION, at, partition, self.partitions)
            fault = measure(&key, &value, headers, at, &row)
            if fault:
                raise RowError(fault, at)
            batch = &open[partition]
            if batch.count and HEADER_SIZE + batch.used + row.most > batch_bytes:
                self.filled = self.close(partition)
                return at
            if batch.used + row.most > batch.room:
                self.make_room(batch, batch.used + row.most)
            write_record(
                batch,
                &row,
                data_end(&key),
                data_end(&value),
                headers,
                self.default_timestamp if timestamps == NULL else timestamps[at],
            )
            at += 1
        return at

    cdef int make_room(self, OpenBatch *batch, int64_t wanted) except -1:
        """Allocate room for `wanted` bytes, and for more to come."""
        cdef int64_t room
        if batch.buffer == NULL:
            room = self.batch_bytes if self.batch_bytes * self.partitions <= ROOM_FOR_ALL else FIRST_ROOM
            room = max(room, wanted)
            batch.buffer = new_bytes(NULL, room + SLACK)
        else:
            room = max(wanted, min(2 * batch.room, self.batch_bytes))
            try:
                resize_bytes(&batch.buffer, room + SLACK)
            except MemoryError:
                memset(batch, 0, sizeof(OpenBatch))  # its buffer is freed
                raise
        batch.data = <uint8_t *>bytes_data(batch.buffer)
        batch.room = room
        return 0

    cdef object close(self, int32_t partition):
        cdef OpenBatch *batch = &self.open[partition]
        cdef PyObject *buffer = batch.buffer
        batch.buffer = NULL  # if resizing fails, it is freed
        resize_bytes(&buffer, batch.used)
        records = <object>buffer
        Py_DECREF(records)  # `records` holds its own reference
        encoded = EncodedRows(partition, records, batch.count, batch.base_timestamp, batch.max_timestamp)
        memset(batch, 0, sizeof(OpenBatch))
        return encoded

    def take_full(self):
        """See arrow_encode_reference.RowEncoder.take_full."""
        filled, self.filled = self.filled, None
        return filled

    def flush(self):
        """See arrow_encode_reference.RowEncoder.flush."""
        cdef int32_t partition
        return [self.close(partition) for partition in range(self.partitions) if self.open[partition].count]


cdef inline void write_record(
    OpenBatch *batch,
    Row *row,
    const uint8_t *key_end,
    const uint8_t *value_end,
    HeaderColumn *headers,
    int64_t timestamp,
) noexcept nogil:
    """Write one record; the caller has made room for it."""
    cdef uint8_t *p = batch.data + batch.used
    cdef int64_t header_count = row.last_header - row.first_header
    cdef int32_t count = batch.count
    cdef int64_t delta
    batch.count = count + 1
    if count == 0:
        batch.base_timestamp = batch.max_timestamp = timestamp
    elif timestamp > batch.max_timestamp:
        batch.max_timestamp = timestamp
    delta = timestamp - batch.base_timestamp
    p = write_varint(
        p,
        1
        + varint_size(delta)
        + varint_size(count)
        + varint_size(row.key.size)
        + (row.key.size if row.key.size > 0 else 0)
        + varint_size(row.value.size)
        + (row.value.size if row.value.size > 0 else 0)
        + varint_size(header_count)
        + row.header_bytes,
    )
    p[0] = 0  # attributes: unused by the format
    p = write_varint(p + 1, delta)
    p = write_varint(p, count)
    p = write_cell(p, &row.key, key_end)
    p = write_cell(p, &row.value, value_end)
    p = write_varint(p, header_count)
    if header_count:
        p = write_headers(p, headers, row)
    batch.used = p - batch.data
