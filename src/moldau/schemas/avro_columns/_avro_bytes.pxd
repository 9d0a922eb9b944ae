# cython: language_level=3
"""Reading of Avro's numbers, lengths and texts, and the faults that this may find."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    OK = 0
    ENDS_EARLY = 1
    BAD_NUMBER = 2
    BAD_LENGTH = 3
    BAD_BRANCH = 4
    BAD_SYMBOL = 5
    NOT_UTF8 = 6
    OUT_OF_RANGE = 7
    LARGE_DECIMAL = 8
    TOO_MANY_ITEMS = 9
    UNRESOLVED = 10
    TOO_DEEP = 11
    COLUMN_FULL = 12
    NO_MEMORY = 100


cdef struct Data:
    const uint8_t *p
    const uint8_t *end


cdef inline int varint(Data *c, int64_t *value) noexcept nogil:
    cdef uint64_t found = 0
    cdef int shift = 0
    cdef uint8_t byte
    if c.p < c.end and c.p[0] < 0x80:
        found = c.p[0]
        c.p += 1
        value[0] = <int64_t>(found >> 1) ^ -<int64_t>(found & 1)
        return OK
    while True:
        if c.p >= c.end:
            return ENDS_EARLY
        byte = c.p[0]
        c.p += 1
        found |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            return BAD_NUMBER
    value[0] = <int64_t>(found >> 1) ^ -<int64_t>(found & 1)
    return OK


cdef inline int sized(Data *c, int64_t *size) noexcept nogil:
    """Read the length of bytes that follow, all of which are there."""
    cdef int fault = varint(c, size)
    if fault:
        return fault
    if size[0] < 0:
        return BAD_LENGTH
    if size[0] > c.end - c.p:
        return ENDS_EARLY
    return OK


cdef inline bint is_utf8(const uint8_t *p, int64_t size) noexcept nogil:
    cdef const uint8_t *end = p + size
    cdef uint64_t block
    cdef uint8_t one
    while p < end:
        while end - p >= 8:
            memcpy(&block, p, 8)
            if block & <uint64_t>0x8080808080808080:
                break
            p += 8
        if p >= end:
            return True
        one = p[0]
        if one < 0x80:
            p += 1
        elif one < 0xC2:
            return False
        elif one < 0xE0:
            if end - p < 2 or p[1] & 0xC0 != 0x80:
                return False
            p += 2
        elif one < 0xF0:
            if end - p < 3 or p[1] & 0xC0 != 0x80 or p[2] & 0xC0 != 0x80:
                return False
            if (one == 0xE0 and p[1] < 0xA0) or (one == 0xED and p[1] > 0x9F):  # overlong; surrogates
                return False
            p += 3
        elif one < 0xF5:
            if end - p < 4 or p[1] & 0xC0 != 0x80 or p[2] & 0xC0 != 0x80 or p[3] & 0xC0 != 0x80:
                return False
            if (one == 0xF0 and p[1] < 0x90) or (one == 0xF4 and p[1] > 0x8F):  # overlong; beyond U+10FFFF
                return False
            p += 4
        else:
            return False
    return True
