# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Records inside a batch in C: the native version of reference.py.

Names, results and errors are the same. No object per record, except where the caller asks for records. `_walk.pxd` has
the walk over records.
"""

from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from moldau.records._batch_layout cimport (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
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
    PRODUCER_AT,
    PRODUCER_EPOCH_AT,
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
    write_varint,
)

from moldau.records import batch as _batch
from moldau.records import codecs as _codecs
from moldau.records import batch_layout as _model
from moldau.records.crc import crc32c as _crc32c
from moldau.records.errors import refusal as _refusal

cdef extern from "_crc32c.h" nogil:
    bint crc32c_available()
    uint32_t crc32c_extend(uint32_t value, const uint8_t *p, size_t n)

cdef extern from "Python.h":
    object PyType_GenericAlloc(type cls, Py_ssize_t items)

cdef bint HARDWARE_CRC = crc32c_available()

cdef type BatchInfo = _model.BatchInfo
cdef type BatchRecord = _model.BatchRecord
cdef object RecordColumns = _model.RecordColumns
cdef object refusal = _refusal
cdef array INT32S = array("i")
cdef array INT64S = array("q")

cdef Py_ssize_t MAX_DECOMPRESSED = _model.MAX_DECOMPRESSED

cdef enum:
    MOST_VARINTS = 64  # the largest size of a record without its contents: 5 + 1 + 10 + 5 + 5 + 5 + 5 at most


# -- opening a batch


cdef int open_batch(object buf, Py_buffer *view, Py_ssize_t pos, Header *header) except -1:
    """Read the header of a batch, and check that the batch is complete and has the right format and checksum."""
    cdef Py_ssize_t left = view.len - pos if 0 <= pos <= view.len else 0
    cdef const uint8_t *p = <const uint8_t *>view.buf + pos
    cdef uint32_t stated, found
    if left > MAGIC_AT and p[MAGIC_AT] != MAGIC:
        _batch.refuse_magic(p[MAGIC_AT])
    if left < HEADER_SIZE:
        raise _batch.cut_off(left)
    header.size = <int64_t><int32_t>load_be32(p + LENGTH_AT) + LENGTH_END
    if header.size < HEADER_SIZE:
        raise _batch.too_small(header.size)
    if header.size > left:
        raise _batch.cut_short(header.size, left)
    stated = load_be32(p + CRC_AT)
    if HARDWARE_CRC:
        found = crc32c_extend(0, p + CRC_FROM, header.size - CRC_FROM)
    else:
        found = _crc32c(memoryview(buf)[pos + CRC_FROM : pos + header.size])
    if found != stated:
        raise _batch.wrong_crc(found, stated)
    header.base_offset = <int64_t>load_be64(p)
    header.leader_epoch = <int32_t>load_be32(p + LEADER_EPOCH_AT)
    header.attributes = <int16_t>load_be16(p + ATTRIBUTES_AT)
    header.last_offset_delta = <int32_t>load_be32(p + LAST_OFFSET_DELTA_AT)
    header.base_timestamp = <int64_t>load_be64(p + BASE_TIMESTAMP_AT)
    header.max_timestamp = <int64_t>load_be64(p + MAX_TIMESTAMP_AT)
    header.producer_id = <int64_t>load_be64(p + PRODUCER_AT)
    header.producer_epoch = <int16_t>load_be16(p + PRODUCER_EPOCH_AT)
    header.base_sequence = <int32_t>load_be32(p + BASE_SEQUENCE_AT)
    header.count = <int32_t>load_be32(p + COUNT_AT)
    return 0


cdef inline object codec_of(Header *header, bint allow_control, bint allow_gaps):
    """The codec, or None if the records are not compressed."""
    if (
        header.attributes & (CODEC_MASK | CONTROL_BIT) == 0
        and header.count > 0
        and header.last_offset_delta == header.count - 1
        and 0 <= header.base_offset <= INT64_MAX - header.last_offset_delta
    ):
        return None  # the usual case; check_header handles the others
    codec = _batch.check_header(
        header.base_offset,
        header.attributes,
        header.last_offset_delta,
        header.count,
        allow_control=allow_control,
        allow_gaps=allow_gaps,
    )
    return None if header.attributes & CODEC_MASK == 0 else codec


cdef object decompressed(object buf, Py_ssize_t pos, Header *header, object codec, Py_ssize_t limit):
    return _codecs.decompress(codec, memoryview(buf)[pos + HEADER_SIZE : pos + header.size], limit)


cdef object fail(Walk *walk, int fault):
    raise refusal(fault, walk.index, walk.found, walk.expected)


# -- checking


cdef struct BatchTimes:
    int64_t first
    int64_t earliest
    int64_t latest
    int32_t delta_of_latest


def check_batch(
    buf,
    Py_ssize_t pos,
    *,
    bint require_keys=False,
    bint allow_control=False,
    bint allow_gaps=False,
    Py_ssize_t max_decompressed=MAX_DECOMPRESSED,
):
    """See reference.check_batch."""
    cdef Py_buffer view, inner
    cdef Header header
    cdef BatchTimes times
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        open_batch(buf, &view, pos, &header)
        codec = codec_of(&header, allow_control, allow_gaps)
        if codec is None:
            check_records(
                &header,
                <const uint8_t *>view.buf + pos + HEADER_SIZE,
                header.size - HEADER_SIZE,
                require_keys,
                allow_gaps,
                &times,
            )
        else:
            data = decompressed(buf, pos, &header, codec, max_decompressed)
            PyObject_GetBuffer(data, &inner, PyBUF_SIMPLE)
            try:
                check_records(&header, <const uint8_t *>inner.buf, inner.len, require_keys, allow_gaps, &times)
            finally:
                PyBuffer_Release(&inner)
    finally:
        PyBuffer_Release(&view)
    return batch_info(&header, &times)


cdef int check_records(
    Header *header, const uint8_t *data, Py_ssize_t size, bint require_keys, bint allow_gaps, BatchTimes *times
) except -1:
    cdef Walk walk
    cdef Parsed record
    cdef int32_t first_delta = -1, delta_of_latest = -1
    cdef int64_t first = 0, earliest = INT64_MAX, latest = INT64_MIN
    cdef int fault = 0
    start_walk(&walk, header, data, size, require_keys, allow_gaps)
    for _ in range(header.count):
        fault = next_record(&walk, &record)
        if fault:
            break
        if delta_of_latest < 0:
            first = earliest = latest = record.timestamp_delta
            first_delta = delta_of_latest = record.offset_delta
        elif record.timestamp_delta > latest:
            latest = record.timestamp_delta
            delta_of_latest = record.offset_delta
        elif record.timestamp_delta < earliest:
            earliest = record.timestamp_delta
    if not fault:
        fault = end_walk(&walk)
    if fault:
        fail(&walk, fault)
    times.delta_of_latest = delta_of_latest
    if header.count == 0:
        times.first = times.earliest = times.latest = -1
    elif header.attributes & LOG_APPEND_TIME_BIT:
        times.first = times.earliest = times.latest = header.max_timestamp
        times.delta_of_latest = first_delta
    else:
        times.first = header.base_timestamp + first
        times.earliest = header.base_timestamp + earliest
        times.latest = header.base_timestamp + latest
    return 0


cdef inline void put(object tuple_, Py_ssize_t i, object item):
    Py_INCREF(item)  # PyTuple_SET_ITEM steals this reference
    PyTuple_SET_ITEM(tuple_, i, item)


cdef object batch_info(Header *header, BatchTimes *times):
    # Filled by hand: calling the named tuple takes 0.3 µs, a seventh of the whole check.
    info = PyType_GenericAlloc(BatchInfo, 15)
    put(info, 0, header.base_offset)
    put(info, 1, header.size)
    put(info, 2, header.leader_epoch)
    put(info, 3, header.attributes)
    put(info, 4, header.last_offset_delta)
    put(info, 5, header.base_timestamp)
    put(info, 6, header.max_timestamp)
    put(info, 7, header.producer_id)
    put(info, 8, header.producer_epoch)
    put(info, 9, header.base_sequence)
    put(info, 10, header.count)
    put(info, 11, times.first)
    put(info, 12, times.earliest)
    put(info, 13, times.latest)
    put(info, 14, times.delta_of_latest)
    return info


# -- reading


def walk(buf, Py_ssize_t pos=0, *, Py_ssize_t max_decompressed=MAX_DECOMPRESSED):
    """See reference.walk."""
    cdef Py_buffer view, inner
    cdef Header header
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        open_batch(buf, &view, pos, &header)
        codec = codec_of(&header, True, True)
    finally:
        PyBuffer_Release(&view)
    if codec is None:
        data = memoryview(buf)[pos + HEADER_SIZE : pos + header.size]
    else:
        data = decompressed(buf, pos, &header, codec, max_decompressed)
    PyObject_GetBuffer(data, &inner, PyBUF_SIMPLE)
    try:
        return columns(data, &header, <const uint8_t *>inner.buf, inner.len)
    finally:
        PyBuffer_Release(&inner)


cdef object columns(object data, Header *header, const uint8_t *base, Py_ssize_t size):
    cdef Walk walk
    cdef Parsed record
    cdef int32_t i
    cdef int fault
    cdef bint append_time = header.attributes & LOG_APPEND_TIME_BIT
    # A record needs at least seven bytes: check the count before memory is allocated for it.
    cdef Py_ssize_t room = min(<Py_ssize_t>header.count, size // 7 + 1)
    cdef array offset = clone(INT64S, room, False)
    cdef array timestamp = clone(INT64S, room, False)
    cdef array record_at = clone(INT32S, room, False)
    cdef array key_at = clone(INT32S, room, False)
    cdef array key_size = clone(INT32S, room, False)
    cdef array value_at = clone(INT32S, room, False)
    cdef array value_size = clone(INT32S, room, False)
    cdef array headers_at = clone(INT32S, room, False)
    cdef array header_count = clone(INT32S, room, False)
    start_walk(&walk, header, base, size, False, True)
    for i in range(header.count):
        fault = next_record(&walk, &record)
        if fault:
            fail(&walk, fault)
        offset.data.as_longlongs[i] = header.base_offset + record.offset_delta
        timestamp.data.as_longlongs[i] = (
            header.max_timestamp if append_time else header.base_timestamp + record.timestamp_delta
        )
        record_at.data.as_ints[i] = <int32_t>(record.start - base)
        key_at.data.as_ints[i] = <int32_t>(record.key - base)
        key_size.data.as_ints[i] = record.key_size
        value_at.data.as_ints[i] = <int32_t>(record.value - base)
        value_size.data.as_ints[i] = record.value_size
        headers_at.data.as_ints[i] = <int32_t>(record.headers - base)
        header_count.data.as_ints[i] = record.header_count
    fault = end_walk(&walk)
    if fault:
        fail(&walk, fault)
    return RecordColumns(
        data, offset, timestamp, record_at, key_at, key_size, value_at, value_size, headers_at, header_count
    )


def decode_batch(buf, Py_ssize_t pos=0, *, Py_ssize_t max_decompressed=MAX_DECOMPRESSED):
    """See reference.decode_batch."""
    cdef Py_buffer view, inner
    cdef Header header
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        open_batch(buf, &view, pos, &header)
        codec = codec_of(&header, True, True)
        if codec is None:
            return decode_records(&header, <const uint8_t *>view.buf + pos + HEADER_SIZE, header.size - HEADER_SIZE)
        data = decompressed(buf, pos, &header, codec, max_decompressed)
        PyObject_GetBuffer(data, &inner, PyBUF_SIMPLE)
        try:
            return decode_records(&header, <const uint8_t *>inner.buf, inner.len)
        finally:
            PyBuffer_Release(&inner)
    finally:
        PyBuffer_Release(&view)


cdef list decode_records(Header *header, const uint8_t *data, Py_ssize_t size):
    cdef Walk walk
    cdef Parsed record
    cdef int fault
    cdef bint append_time = header.attributes & LOG_APPEND_TIME_BIT
    cdef list records = []
    start_walk(&walk, header, data, size, False, True)
    for _ in range(header.count):
        fault = next_record(&walk, &record)
        if fault:
            fail(&walk, fault)
        one = PyType_GenericAlloc(BatchRecord, 5)
        put(one, 0, header.base_offset + record.offset_delta)
        put(one, 1, header.max_timestamp if append_time else header.base_timestamp + record.timestamp_delta)
        put(one, 2, bytes_or_none(record.key, record.key_size))
        put(one, 3, bytes_or_none(record.value, record.value_size))
        put(one, 4, headers_of(&record, walk.at) if record.header_count else ())
        records.append(one)
    fault = end_walk(&walk)
    if fault:
        fail(&walk, fault)
    return records


cdef inline object bytes_or_none(const uint8_t *data, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char *>data, size)


cdef tuple headers_of(Parsed *record, const uint8_t *end):
    # The walk has already checked these bytes, so reading them again cannot fail.
    cdef const uint8_t *at = record.headers
    cdef int32_t size = 0
    cdef list headers = []
    for _ in range(record.header_count):
        read_varint(&at, end, &size)
        name = PyUnicode_DecodeUTF8(<const char *>at, size, "surrogateescape")
        at += size
        read_varint(&at, end, &size)
        headers.append((name, bytes_or_none(at, size)))
        if size > 0:
            at += size
    return tuple(headers)


# -- writing


cdef struct Content:
    # A key or a value while it is being written; a size of -1 is null. `view` is held only for objects other than `bytes`.
    const void *data
    Py_ssize_t size
    bint held
    Py_buffer view


cdef inline int hold(Content *content, object source) except -1:
    content.held = False
    if source is None:
        content.size = -1
    elif PyBytes_CheckExact(source):
        content.data = PyBytes_AS_STRING(source)
        content.size = PyBytes_GET_SIZE(source)
    else:
        PyObject_GetBuffer(source, &content.view, PyBUF_SIMPLE)
        content.held = True
        content.data = content.view.buf
        content.size = content.view.len
    return 0


cdef inline void release(Content *content):
    if content.held:
        PyBuffer_Release(&content.view)


cdef inline uint8_t *write_content(uint8_t *p, Content *content) noexcept nogil:
    p = write_varint(p, content.size)
    if content.size > 0:
        memcpy(p, content.data, content.size)
        p += content.size
    return p


cdef class RecordsBuilder:
    """See reference.RecordsBuilder."""

    cdef uint8_t *buffer
    cdef Py_ssize_t used, room
    cdef int64_t base
    cdef bint has_base
    cdef readonly int64_t max_timestamp
    cdef readonly int32_t last_offset_delta
    cdef readonly int32_t count

    def __cinit__(self, base_timestamp=None):
        self.max_timestamp = -1
        self.last_offset_delta = -1
        self.has_base = base_timestamp is not None
        if self.has_base:
            self.base = base_timestamp

    def __dealloc__(self):
        PyMem_Free(self.buffer)

    @property
    def base_timestamp(self):
        return self.base if self.has_base else None

    @property
    def size(self):
        """Bytes written so far."""
        return self.used

    def append(self, offset_delta, timestamp, key, value, headers=()):
        """See reference.RecordsBuilder.append."""
        cdef Content key_content, value_content
        cdef bytes encoded = None
        cdef int32_t header_count = 0
        cdef int too_big = 0
        cdef int64_t delta, when, base
        delta = PyLong_AsLongLongAndOverflow(offset_delta, &too_big)
        if too_big or not self.last_offset_delta < delta <= INT32_MAX:
            raise ValueError(f"offset delta {offset_delta} cannot follow {self.last_offset_delta}")
        when = PyLong_AsLongLongAndOverflow(timestamp, &too_big)
        base = self.base if self.has_base else when
        if too_big or (when < INT64_MIN + base if base > 0 else when > INT64_MAX + base):
            far = self.base if self.has_base else timestamp
            raise ValueError(f"timestamp {timestamp} does not fit 64 bits, or its difference from {far} does not")
        if headers:
            encoded, header_count = encode_headers(headers)
        hold(&key_content, key)
        try:
            hold(&value_content, value)
            try:
                # No Python code runs in there, so nothing can change the builder in between.
                self.write(<int32_t>delta, when, base, &key_content, &value_content, encoded, header_count)
            finally:
                release(&value_content)
        finally:
            release(&key_content)
        return self.used

    cdef int write(
        self,
        int32_t offset_delta,
        int64_t timestamp,
        int64_t base,
        Content *key,
        Content *value,
        bytes headers,
        int32_t header_count,
    ) except -1:
        cdef Py_ssize_t header_size = 0 if headers is None else PyBytes_GET_SIZE(headers)
        cdef Py_ssize_t most = MOST_VARINTS + max(key.size, 0) + max(value.size, 0) + header_size
        cdef uint8_t *start
        cdef uint8_t *body
        cdef uint8_t *p
        cdef Py_ssize_t length
        if self.used + most > INT32_MAX:
            raise ValueError("a batch is limited to 2 GiB")
        self.reserve(self.used + most)
        start = self.buffer + self.used
        # The length comes first but is known last: leave room for it, write the record, then close the gap.
        body = start + 5
        body[0] = 0
        p = write_varint(body + 1, timestamp - base)
        p = write_varint(p, offset_delta)
        p = write_content(p, key)
        p = write_content(p, value)
        p = write_varint(p, header_count)
        if header_size:
            memcpy(p, PyBytes_AS_STRING(headers), header_size)
            p += header_size
        length = p - body
        p = write_varint(start, length)
        memmove(p, body, length)
        self.used = p + length - self.buffer
        if self.count == 0 or timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.base = base
        self.has_base = True
        self.last_offset_delta = offset_delta
        self.count += 1
        return 0

    cdef int reserve(self, Py_ssize_t room) except -1:
        cdef uint8_t *grown
        if room <= self.room:
            return 0
        room = max(room + room // 2, 512)
        grown = <uint8_t *>PyMem_Realloc(self.buffer, room)
        if grown == NULL:
            raise MemoryError
        self.buffer = grown
        self.room = room
        return 0

    def records(self):
        """The bytes written so far."""
        return PyBytes_FromStringAndSize(<const char *>self.buffer, self.used)


cdef tuple encode_headers(headers):
    cdef bytearray out = bytearray()
    cdef int32_t count = 0
    for name, content in headers:
        put_header_bytes(out, name.encode("utf-8", "surrogateescape"))
        put_header_bytes(out, content)
        count += 1
    return bytes(out), count


cdef int put_header_bytes(bytearray out, content) except -1:
    cdef uint8_t number[10]
    cdef uint8_t *end
    cdef Py_buffer view
    if content is None:
        out.append(1)
        return 0
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        end = write_varint(number, view.len)
        out += number[: end - number]
        out += (<const char *>view.buf)[: view.len]
    finally:
        PyBuffer_Release(&view)
    return 0
