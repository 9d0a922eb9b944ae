# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Record decoder in C: the native twin of decode_reference.py, with the same names, results and errors."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from moldau.records._batch_layout cimport LOG_APPEND_TIME_BIT
from moldau.records._walk cimport (
    Header,
    Parsed,
    Walk,
    end_walk,
    next_record,
    read_varint,
    start_walk,
)

from moldau.records.errors import refusal as _refusal
from moldau.records.batch_layout import TimestampType as _TimestampType

cdef object refusal = _refusal
cdef object CREATE_TIME = _TimestampType.CREATE_TIME
cdef object LOG_APPEND_TIME = _TimestampType.LOG_APPEND_TIME


# Not tracked by the garbage collector. Otherwise it visits each of thousands of records again and again, which took a
# sixth of the time to read them. Keys and values do not refer to their record, so no reference cycle can leak.
@cython.no_gc
@cython.freelist(1024)
cdef class Record:
    """See decode_reference.Record."""

    cdef readonly object topic
    cdef readonly object key
    cdef readonly object value
    cdef object _headers
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly int32_t partition
    cdef readonly int32_t leader_epoch
    cdef int8_t append_time

    def __init__(
        self,
        topic,
        partition,
        offset,
        *,
        timestamp=-1,
        timestamp_type=CREATE_TIME,
        key=None,
        value=None,
        headers=None,
        leader_epoch=-1,
    ):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.append_time = timestamp_type == LOG_APPEND_TIME
        self.key = key
        self.value = value
        self._headers = list(headers) if headers else None
        self.leader_epoch = leader_epoch

    @property
    def timestamp_type(self):
        return LOG_APPEND_TIME if self.append_time else CREATE_TIME

    @property
    def headers(self):
        if self._headers is None:
            self._headers = []
        return self._headers

    def replace_content(self, key, value):
        """See decode_reference.Record.replace_content."""
        self.key = key
        self.value = value

    def __repr__(self):
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self):
        return _restored, (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.key,
            self.value,
            self._headers,
            self.leader_epoch,
        )


def _restored(topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch):
    return Record(
        topic,
        partition,
        offset,
        timestamp=timestamp,
        timestamp_type=timestamp_type,
        key=key,
        value=value,
        headers=headers,
        leader_epoch=leader_epoch,
    )


cdef class BatchRecords:
    """See decode_reference.BatchRecords."""

    cdef Py_buffer view
    cdef bint held
    cdef Walk walk
    cdef object topic
    cdef int32_t partition
    cdef int32_t leader_epoch
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef int64_t append_time
    cdef bint stamped
    cdef int64_t wanted_delta
    cdef readonly int32_t left

    def __cinit__(self, data, header, str topic, int32_t partition, int64_t wanted):
        cdef Header fields
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.held = True
        fields.base_offset = header.base_offset
        fields.base_timestamp = header.base_timestamp
        fields.last_offset_delta = header.last_offset_delta
        fields.count = header.count
        start_walk(&self.walk, &fields, <const uint8_t *>self.view.buf, self.view.len, False, True)
        self.topic = topic
        self.partition = partition
        self.leader_epoch = header.leader_epoch
        self.base_offset = fields.base_offset
        self.base_timestamp = fields.base_timestamp
        self.stamped = (<int>header.attributes) & LOG_APPEND_TIME_BIT
        self.append_time = header.max_timestamp
        self.wanted_delta = wanted - fields.base_offset
        self.left = fields.count

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    def take(self, list out, Py_ssize_t limit):
        """See decode_reference.BatchRecords.take."""
        cdef Parsed parsed
        cdef Record record
        cdef Walk before
        cdef int fault
        cdef Py_ssize_t taken = 0
        while taken < limit and self.left > 0:
            before = self.walk
            fault = next_record(&self.walk, &parsed)
            if not fault and self.left == 1:
                fault = end_walk(&self.walk)
            if fault:
                error = refusal(fault, self.walk.index, self.walk.found, self.walk.expected)
                self.walk = before  # so that the next call raises the same error
                raise error
            self.left -= 1
            if parsed.offset_delta < self.wanted_delta:
                continue
            record = Record.__new__(Record)
            record.topic = self.topic
            record.partition = self.partition
            record.leader_epoch = self.leader_epoch
            record.offset = self.base_offset + parsed.offset_delta
            record.append_time = self.stamped
            record.timestamp = self.append_time if self.stamped else self.base_timestamp + parsed.timestamp_delta
            if parsed.key_size >= 0:
                record.key = PyBytes_FromStringAndSize(<const char *>parsed.key, parsed.key_size)
            if parsed.value_size >= 0:
                record.value = PyBytes_FromStringAndSize(<const char *>parsed.value, parsed.value_size)
            if parsed.header_count:
                record._headers = headers_of(&parsed, self.walk.at)
            out.append(record)
            taken += 1
        return taken


cdef list headers_of(Parsed *parsed, const uint8_t *end):
    # The walk has already checked these bytes, so the results of read_varint need no check here.
    cdef const uint8_t *at = parsed.headers
    cdef int32_t size = 0
    cdef list headers = []
    for _ in range(parsed.header_count):
        read_varint(&at, end, &size)
        name = PyUnicode_DecodeUTF8(<const char *>at, size, "surrogateescape")
        at += size
        read_varint(&at, end, &size)
        if size < 0:
            headers.append((name, None))
        else:
            headers.append((name, PyBytes_FromStringAndSize(<const char *>at, size)))
            at += size
    return headers
