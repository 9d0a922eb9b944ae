# cython: language_level=3
"""Decimals and bytes in JSON: base64 texts, and numbers that are moved to the scale of their schema."""

from libc.stdint cimport uint8_t, uint64_t

from moldau.connect._json_buffer cimport Buffer, put, put_byte, reserve
from moldau.connect._json_nodes cimport BYTES, VALID, Node, put_end, put_state
from moldau.connect._json_scan cimport BAD, OK, Cursor, Number, Span, bad

cdef extern from *:
    ctypedef long long int128 "__int128"


cdef inline int decode_base64(Buffer* out, Span span) except -1:
    cdef Py_ssize_t i, padding = 0
    cdef uint64_t group = 0
    cdef uint8_t one
    cdef int bits = 0
    reserve(out, span.size)
    for i in range(span.size):
        one = <uint8_t>span.data[i]
        if 65 <= one <= 90:
            one -= 65
        elif 97 <= one <= 122:
            one -= 71
        elif 48 <= one <= 57:
            one += 4
        elif one == 43:
            one = 62
        elif one == 47:
            one = 63
        elif one == 61 and i >= span.size - 2:
            padding += 1
            continue
        else:
            return BAD
        if padding:
            return BAD
        group = (group << 6) | one
        bits += 6
        if bits >= 8:
            bits -= 8
            put_byte(out, <char>(group >> bits))
    if span.size % 4 or (group & ((1 << bits) - 1)):
        return BAD
    return OK


cdef inline int put_decimal(Cursor* c, Node node, int128 value) except -1:
    cdef int128 limit = 1
    cdef Py_ssize_t i
    for i in range(node.precision):
        limit = limit * 10
    if not -limit < value < limit:
        return bad(c, b"decimal has more digits than its schema allows")
    put(&node.values, <char*>&value, 16)
    return put_state(node, VALID)


cdef inline int decimal_of_number(Cursor* c, Node node, Number* number) except -1:
    """A decimal that is written as a number: its digits, moved to the scale of the schema."""
    cdef int128 value = 0
    cdef const char* p = number.first
    cdef Py_ssize_t shift = node.scale
    cdef int digits = 0, exponent = 0
    cdef bint negative = p[0] == 45, fraction = False, minus = False
    if negative:
        p += 1
    while p < number.last and (p[0] | 32) != 101:
        if p[0] == 46:
            fraction = True
        else:
            if value or p[0] != 48:
                digits += 1
            if digits > 38:
                return bad(c, b"decimal has more digits than its schema allows")
            value = value * 10 + (p[0] - 48)
            shift -= fraction
        p += 1
    if p < number.last:
        p += 1
        minus = p[0] == 45
        p += p[0] == 43 or p[0] == 45
        while p < number.last and exponent < 10000:
            exponent = exponent * 10 + (p[0] - 48)
            p += 1
        shift += -exponent if minus else exponent
    while shift < 0 and value and value % 10 == 0:
        value = value // 10
        shift += 1
    while shift > 0 and value and digits < 38:
        value = value * 10
        shift -= 1
        digits += 1
    if value and shift < 0:
        return bad(c, b"decimal has more fraction digits than its schema allows")
    if value and shift > 0:
        return bad(c, b"decimal has more digits than its schema allows")
    return put_decimal(c, node, -value if negative else value)


cdef inline int decode_bytes(Cursor* c, Node node, Span span) except -1:
    cdef int128 value
    cdef Py_ssize_t first = node.data.size, size, i
    cdef uint8_t* data
    if decode_base64(&node.data, span) != OK:
        node.data.size = first
        return bad(c, b"text is not base64")
    if node.kind == BYTES:
        put_end(node, node.data.size)
        return put_state(node, VALID)
    size = node.data.size - first
    data = <uint8_t*>node.data.data + first
    node.data.size = first
    if size == 0:
        return bad(c, b"decimal without bytes")
    value = -1 if data[0] & 0x80 else 0
    while size > 16 and data[0] == (<uint8_t>value) and (data[1] & 0x80) == (<uint8_t>value & 0x80):
        data += 1
        size -= 1
    if size > 16:
        return bad(c, b"decimal has more digits than its schema allows")
    for i in range(size):
        value = value * 256 + data[i]
    return put_decimal(c, node, value)
