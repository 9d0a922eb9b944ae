# cython: language_level=3
"""Columns that grow while rows of JSON are read: types, and the functions that run for every value."""

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from moldau.connect._json_buffer cimport Buffer, put, put_byte, put_zeros, reserve

cdef enum Kind:
    UNSET = 0
    BOOL = 1
    INT = 2
    REAL = 3
    TEXT = 4
    LIST = 5
    OBJECT = 6
    ANY = 7
    BYTES = 8
    DECIMAL = 9
    MAP = 10

cdef enum State:
    MISSING = 0
    VALID = 1
    NULL_VALUE = 2


cdef class Node:
    """The values of one field, or of the elements of one list, over all rows."""

    cdef int kind, depth, conflicts, guess
    cdef bint typed, required, mixed, integral_only, time_of_day, text_keys
    cdef Py_ssize_t length, valid, nulls, scale, precision
    cdef Buffer states
    cdef Buffer values  # slots of 8 or 16 bytes, or where the data of each entry ends (int32)
    cdef Buffer data
    cdef bytes name
    cdef list children
    cdef dict by_name
    cdef Node key, item
    cdef object arrow, default


cdef Node new_node(bytes name, int depth)
cdef Node typed_node(schema, bytes name, bint replace_null)
cdef int fill(Node node, Py_ssize_t times) except -1
cdef int truncate(Node node, Py_ssize_t length) except -1
cdef int set_kind(Node node, int kind) except -1
cdef int reset(Node node) except -1
cdef bint to_reals(Node node) noexcept
cdef object finish(Node node)


cdef inline int put_end(Node node, Py_ssize_t end) except -1:
    cdef int32_t value = <int32_t>end
    return put(&node.values, <char*>&value, 4)


cdef inline int pad(Node node, Py_ssize_t length) except -1:
    """Add missing entries up to a length."""
    if node.length < length:
        put_zeros(&node.states, length - node.length)
        fill(node, length - node.length)
        node.length = length
    return 0


cdef inline int put_state(Node node, char state) except -1:
    put_byte(&node.states, state)
    node.length += 1
    if state == VALID:
        node.valid += 1
    else:
        node.nulls += 1
    return 0


cdef inline int put_null(Node node) except -1:
    fill(node, 1)
    return put_state(node, NULL_VALUE)


cdef inline int put_text(Node node, const char* data, Py_ssize_t size) except -1:
    put(&node.data, data, size)
    put_end(node, node.data.size)
    return put_state(node, VALID)
