# cython: language_level=3
"""Scanner of JSON text: white space, literals, strings, numbers, and whole values that are skipped.

A function returns OK, or BAD with the reason in the cursor. The grammar is that of JSON (RFC 8259) with leading zeros
in numbers, as Kafka's JsonDeserializer allows. A lone surrogate in an escape becomes U+FFFD: Arrow's strings are UTF-8.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from moldau.connect._json_buffer cimport Buffer, put, put_byte, reserve

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, void* overflow) except? -1.0

cdef extern from *:
    """
    static const double MOLDAU_POWERS[23] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
        1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    """
    const double* POWERS "MOLDAU_POWERS"

cdef enum:
    OK = 0
    BAD = 1
    CONFLICT = 2
    MAX_NESTING = 1000  # Jackson's limit


cdef struct Cursor:
    const char* start
    const char* p
    const char* end
    const char* reason


cdef struct Span:
    const char* data
    Py_ssize_t size


cdef struct Number:
    bint integral
    bint exact  # the integer fits 64 bits
    int64_t integer  # the low 64 bits, as BigInteger.longValue
    const char* first
    const char* last


cdef inline int bad(Cursor* c, const char* reason) noexcept:
    c.reason = reason
    return BAD


cdef inline void skip_space(Cursor* c) noexcept:
    while c.p < c.end and (c.p[0] == 32 or c.p[0] == 10 or c.p[0] == 13 or c.p[0] == 9):
        c.p += 1


cdef inline int expect_literal(Cursor* c, const char* text, Py_ssize_t size) noexcept:
    if c.end - c.p < size or memcmp(c.p, text, size) != 0:
        return bad(c, b"not a JSON value")
    c.p += size
    if c.p < c.end and (c.p[0] == 95 or 97 <= (c.p[0] | 32) <= 122 or 48 <= c.p[0] <= 57):
        return bad(c, b"not a JSON value")
    return OK


cdef inline bint utf8_is_valid(const char* data, Py_ssize_t size) noexcept:
    cdef const uint8_t* p = <const uint8_t*>data
    cdef const uint8_t* end = p + size
    cdef uint8_t first
    while p < end:
        first = p[0]
        if first < 0x80:
            p += 1
        elif first < 0xC2:
            return False
        elif first < 0xE0:
            if end - p < 2 or (p[1] & 0xC0) != 0x80:
                return False
            p += 2
        elif first < 0xF0:
            if end - p < 3 or (p[1] & 0xC0) != 0x80 or (p[2] & 0xC0) != 0x80:
                return False
            if (first == 0xE0 and p[1] < 0xA0) or (first == 0xED and p[1] > 0x9F):
                return False
            p += 3
        elif first < 0xF5:
            if end - p < 4 or (p[1] & 0xC0) != 0x80 or (p[2] & 0xC0) != 0x80 or (p[3] & 0xC0) != 0x80:
                return False
            if (first == 0xF0 and p[1] < 0x90) or (first == 0xF4 and p[1] > 0x8F):
                return False
            p += 4
        else:
            return False
    return True


cdef inline int hex4(Cursor* c, uint32_t* code) noexcept:
    """Four hexadecimal digits at the cursor."""
    cdef int i
    cdef uint32_t value = 0
    cdef char one
    if c.end - c.p < 4:
        return bad(c, b"unfinished escape in a string")
    for i in range(4):
        one = c.p[i]
        if 48 <= one <= 57:
            value = value * 16 + (one - 48)
        elif 97 <= (one | 32) <= 102:
            value = value * 16 + ((one | 32) - 87)
        else:
            return bad(c, b"no hexadecimal digit in a \\u escape")
    c.p += 4
    code[0] = value
    return OK


cdef inline int put_code(Buffer* out, uint32_t code) except -1:
    if code < 0x80:
        put_byte(out, <char>code)
    elif code < 0x800:
        put_byte(out, <char>(0xC0 | (code >> 6)))
        put_byte(out, <char>(0x80 | (code & 0x3F)))
    elif code < 0x10000:
        put_byte(out, <char>(0xE0 | (code >> 12)))
        put_byte(out, <char>(0x80 | ((code >> 6) & 0x3F)))
        put_byte(out, <char>(0x80 | (code & 0x3F)))
    else:
        put_byte(out, <char>(0xF0 | (code >> 18)))
        put_byte(out, <char>(0x80 | ((code >> 12) & 0x3F)))
        put_byte(out, <char>(0x80 | ((code >> 6) & 0x3F)))
        put_byte(out, <char>(0x80 | (code & 0x3F)))
    return 0


cdef inline int unescape(Cursor* c, Buffer* out) except -1:
    """One escape; the cursor is after the backslash."""
    cdef char one
    cdef uint32_t code = 0, low = 0
    cdef const char* back
    if c.p >= c.end:
        return bad(c, b"unfinished escape in a string")
    one = c.p[0]
    c.p += 1
    if one == 110:
        put_byte(out, 10)
    elif one == 116:
        put_byte(out, 9)
    elif one == 114:
        put_byte(out, 13)
    elif one == 98:
        put_byte(out, 8)
    elif one == 102:
        put_byte(out, 12)
    elif one == 34 or one == 92 or one == 47:
        put_byte(out, one)
    elif one == 117:
        if hex4(c, &code) != OK:
            return BAD
        if 0xD800 <= code < 0xDC00 and c.end - c.p >= 6 and c.p[0] == 92 and c.p[1] == 117:
            back = c.p
            c.p += 2
            if hex4(c, &low) != OK:
                return BAD
            if 0xDC00 <= low < 0xE000:
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            else:
                c.p = back
        if 0xD800 <= code < 0xE000:
            code = 0xFFFD
        put_code(out, code)
    else:
        return bad(c, b"unknown escape in a string")
    return OK


cdef inline int scan_string(Cursor* c, Buffer* scratch, Span* span) except -1:
    """The text of a string; the cursor is at the opening quote. The span is in the input, or in `scratch`."""
    cdef const char* first
    cdef const char* p
    cdef uint8_t one
    cdef bint high = False, escaped = False
    c.p += 1
    first = c.p
    p = first
    scratch.size = 0
    while True:
        while p < c.end:
            one = <uint8_t>p[0]
            if one == 34 or one == 92 or one < 32:
                break
            if one >= 0x80:
                high = True
            p += 1
        if p >= c.end:
            c.p = p
            return bad(c, b"unfinished string")
        if one == 34:
            break
        if one < 32:
            c.p = p
            return bad(c, b"control character in a string; it must be escaped")
        escaped = True
        put(scratch, first, p - first)
        c.p = p + 1
        if unescape(c, scratch) != OK:
            return BAD
        p = c.p
        first = p
    if escaped:
        put(scratch, first, p - first)
        span.data = scratch.data
        span.size = scratch.size
    else:
        span.data = first
        span.size = p - first
    c.p = p + 1
    if high and not utf8_is_valid(span.data, span.size):
        return bad(c, b"string is not UTF-8")
    return OK


cdef inline int scan_number(Cursor* c, Number* number) noexcept:
    cdef const char* p = c.p
    cdef uint64_t value = 0
    cdef int digits = 0
    cdef bint negative = False
    number.first = p
    number.integral = True
    if p < c.end and p[0] == 45:
        negative = True
        p += 1
    if p >= c.end or not 48 <= p[0] <= 57:
        return bad(c, b"not a JSON value")
    while p < c.end - 1 and p[0] == 48 and 48 <= p[1] <= 57:
        p += 1
    while p < c.end and 48 <= p[0] <= 57:
        value = value * 10 + <uint64_t>(p[0] - 48)
        digits += 1
        p += 1
    if p < c.end and p[0] == 46:
        number.integral = False
        p += 1
        if p >= c.end or not 48 <= p[0] <= 57:
            return bad(c, b"no digit after the decimal point")
        while p < c.end and 48 <= p[0] <= 57:
            p += 1
    if p < c.end and (p[0] | 32) == 101:
        number.integral = False
        p += 1
        if p < c.end and (p[0] == 43 or p[0] == 45):
            p += 1
        if p >= c.end or not 48 <= p[0] <= 57:
            return bad(c, b"no digit in the exponent")
        while p < c.end and 48 <= p[0] <= 57:
            p += 1
    if p - c.p > 1000:
        return bad(c, b"number of more than 1000 characters")
    if p < c.end and (p[0] == 46 or p[0] == 43 or p[0] == 45 or p[0] == 95 or 97 <= (p[0] | 32) <= 122):
        return bad(c, b"not a JSON value")
    number.last = p
    number.exact = digits < 19 or (digits == 19 and value <= <uint64_t>0x7FFFFFFFFFFFFFFF)
    number.integer = <int64_t>(0 - value) if negative else <int64_t>value
    c.p = p
    return OK


cdef inline double number_value(Number* number) except? -1.0:
    """The nearest double; infinite if the number is too large, as BigDecimal.doubleValue."""
    cdef const char* p = number.first
    cdef uint64_t mantissa = 0
    cdef int scale = 0, digits = 0
    cdef bint negative = False
    cdef double value
    cdef char[1008] text
    if p[0] == 45:
        negative = True
        p += 1
    while p < number.last and digits < 19:
        if p[0] == 46:
            scale = 1
            p += 1
            break
        if not 48 <= p[0] <= 57:
            break
        mantissa = mantissa * 10 + <uint64_t>(p[0] - 48)
        digits += 1
        p += 1
    if scale:
        scale = 0
        while p < number.last and 48 <= p[0] <= 57 and digits < 19:
            mantissa = mantissa * 10 + <uint64_t>(p[0] - 48)
            digits += 1
            scale += 1
            p += 1
    if p == number.last and digits < 19 and mantissa <= <uint64_t>0x20000000000000 and scale <= 22:
        # Both numbers are exact doubles: one division rounds correctly.
        value = <double>mantissa / POWERS[scale]
        return -value if negative else value
    memcpy(text, number.first, number.last - number.first)
    text[number.last - number.first] = 0
    return PyOS_string_to_double(&text[0], NULL, NULL)


cdef inline int skip_value(Cursor* c, Buffer* scratch, int depth) except -1:
    """Check the value at the cursor and move behind it."""
    cdef Number number
    cdef Span span
    cdef char closing
    cdef bint is_object
    if c.p >= c.end:
        return bad(c, b"unexpected end of the text")
    if c.p[0] == 34:
        return scan_string(c, scratch, &span)
    if c.p[0] == 116:
        return expect_literal(c, b"true", 4)
    if c.p[0] == 102:
        return expect_literal(c, b"false", 5)
    if c.p[0] == 110:
        return expect_literal(c, b"null", 4)
    if c.p[0] != 123 and c.p[0] != 91:
        return scan_number(c, &number)
    if depth >= MAX_NESTING:
        return bad(c, b"more than 1000 levels of nesting")
    is_object = c.p[0] == 123
    closing = 125 if is_object else 93
    c.p += 1
    skip_space(c)
    if c.p < c.end and c.p[0] == closing:
        c.p += 1
        return OK
    while True:
        if is_object:
            if scan_name(c, scratch, &span) != OK:
                return BAD
        if skip_value(c, scratch, depth + 1) != OK:
            return BAD
        skip_space(c)
        if c.p >= c.end:
            return bad(c, b"unexpected end of the text")
        if c.p[0] == closing:
            c.p += 1
            return OK
        if c.p[0] != 44:
            return bad(c, b"expected a comma or the end of the array or object")
        c.p += 1
        skip_space(c)


cdef inline int scan_name(Cursor* c, Buffer* scratch, Span* span) except -1:
    """The name of a field and the colon; the cursor is then at the value."""
    if c.p >= c.end or c.p[0] != 34:
        return bad(c, b"expected the name of a field in double quotes")
    if scan_string(c, scratch, span) != OK:
        return BAD
    skip_space(c)
    if c.p >= c.end or c.p[0] != 58:
        return bad(c, b"expected a colon after the name of a field")
    c.p += 1
    skip_space(c)
    return OK
