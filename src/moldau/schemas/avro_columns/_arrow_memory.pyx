# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Finished buffers of the Avro decoder and encoder as Arrow buffers, without a copy."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from moldau.schemas.avro_columns._growing_columns cimport Col, Growing, grow

import pyarrow as _pa


cdef class Memory:
    """A finished buffer with Python's buffer protocol; freed with the last view of it."""

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def __releasebuffer__(self, Py_buffer *view):
        pass

    def __dealloc__(self):
        free(self.data)


cdef object taken(Growing *buffer):
    """The written bytes as an Arrow buffer; the growing one is empty afterwards."""
    cdef Memory memory = Memory.__new__(Memory)
    if buffer.data == NULL and grow(buffer, 1):
        raise MemoryError
    memory.data = buffer.data
    memory.size = buffer.used
    memset(buffer, 0, sizeof(Growing))
    return _pa.py_buffer(memory)


cdef object packed(Growing *flags):
    """A bitmap of bytes that are 0 or 1."""
    cdef Memory memory = Memory.__new__(Memory)
    cdef int64_t i = 0
    cdef int64_t size = (flags.used + 7) // 8
    cdef uint64_t block
    memory.data = <uint8_t *>calloc(size + 1, 1)
    memory.size = size
    if memory.data == NULL:
        raise MemoryError
    with nogil:
        while i + 8 <= flags.used:
            memcpy(&block, flags.data + i, 8)
            # Gathers the lowest bits of eight bytes into one byte.
            memory.data[i >> 3] = <uint8_t>(block * <uint64_t>0x0102040810204080 >> 56)
            i += 8
        while i < flags.used:
            memory.data[i >> 3] |= <uint8_t>(flags.data[i] << (i & 7))
            i += 1
    return _pa.py_buffer(memory)


cdef object ends_taken(Col *col):
    """The offsets of entries: zero and their ends."""
    cdef Growing offsets
    memset(&offsets, 0, sizeof(Growing))
    if grow(&offsets, col.values.used + 4):
        raise MemoryError
    memset(offsets.data, 0, 4)
    if col.values.used:
        memcpy(offsets.data + 4, col.values.data, col.values.used)
    offsets.used = col.values.used + 4
    col.values.used = 0
    return taken(&offsets)
