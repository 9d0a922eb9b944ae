# cython: language_level=3
"""CRC32C with the processor's instruction, for callers in Python; `_native.pyx` uses it inside its own calls.

A separate module, because nearly everything depends on it, also `_native`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "_crc32c.h" nogil:
    bint crc32c_available()
    uint32_t crc32c_extend(uint32_t value, const uint8_t *p, size_t n)

AVAILABLE = bool(crc32c_available())


def crc32c(data, uint32_t value=0):
    """Like `crc.crc32c`; the result is meaningless unless AVAILABLE."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return crc32c_extend(value, <const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
