# cython: language_level=3
"""Helpers for writing a record into its batch, in C: clocks, the hash of keys, keys and values, varints.

The clock is that of the system. A call to a Clock object would take a quarter of the time of `send`; an accumulator
uses one only if it was given one.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

from moldau.records._walk cimport write_varint

cdef enum:
    MOST_HEADER_OVERHEAD = 10


cdef inline double monotonic() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + now.tv_nsec * 1e-9


cdef inline int64_t now_ms() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


cdef inline uint32_t murmur2(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    """See partitioners.murmur2."""
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t hashed = <uint32_t>(<uint64_t>0x9747B28C) ^ <uint32_t>size
    cdef uint32_t word
    while size >= 4:
        memcpy(&word, data, 4)
        word *= m
        word ^= word >> 24
        hashed = (hashed * m) ^ (word * m)
        data += 4
        size -= 4
    if size == 3:
        hashed ^= <uint32_t>data[2] << 16
    if size >= 2:
        hashed ^= <uint32_t>data[1] << 8
    if size >= 1:
        hashed = (hashed ^ data[0]) * m
    hashed ^= hashed >> 13
    hashed *= m
    return hashed ^ (hashed >> 15)


# -- keys and values


cdef struct Content:
    const uint8_t *data
    Py_ssize_t size  # -1 is a null
    bint held
    Py_buffer view


cdef inline int hold(Content *content, object source) except -1:
    content.held = False
    if source is None:
        content.size = -1
    elif PyBytes_CheckExact(source):
        content.data = <const uint8_t *>PyBytes_AS_STRING(source)
        content.size = PyBytes_GET_SIZE(source)
    else:
        PyObject_GetBuffer(source, &content.view, PyBUF_SIMPLE)
        content.held = True
        content.data = <const uint8_t *>content.view.buf
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


cdef inline Py_ssize_t length_of(int64_t number) noexcept nogil:
    """The number of bytes that `write_varint` writes for `number`."""
    cdef uint64_t value = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    cdef Py_ssize_t size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


cdef inline tuple encode_headers(headers):
    """Return the encoded headers, their count, and their largest possible size as accumulator.py counts it."""
    cdef bytearray out = bytearray()
    cdef int32_t count = 0
    cdef Py_ssize_t most = 0
    for name, content in headers:
        encoded = name.encode()
        most += MOST_HEADER_OVERHEAD + put_bytes(out, encoded) + put_bytes(out, content)
        count += 1
    return bytes(out), count, most


cdef inline Py_ssize_t put_bytes(bytearray out, content) except -1:
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
        return view.len
    finally:
        PyBuffer_Release(&view)
