# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Encoding of Arrow arrays as JSON texts in C: the native version of json_reference.py.

A tree of columns holds the addresses of the buffers of an array; every row is written by a walk over that tree. Texts
are those of Kafka's JsonConverter: Java's form of doubles, base64 for bytes, the escapes of Jackson.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport isfinite, isnan
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdio cimport snprintf
from libc.stdlib cimport strtof
from libc.string cimport memset, strchr, strlen

from moldau.connect._json_buffer cimport Buffer, put, put_byte, release, reserve

import pyarrow as pa

from moldau.connect.record_batch import is_null_mark, null_mark, writes_whole_numbers

cdef extern from "Python.h":
    char* PyOS_double_to_string(double value, char code, int precision, int flags, int* kind) except NULL
    void PyMem_Free(void* data)

cdef extern from *:
    """
    static const char MOLDAU_BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char MOLDAU_HEX[] = "0123456789ABCDEF";
    """
    ctypedef long long int128 "__int128"
    ctypedef unsigned long long uint128 "unsigned __int128"
    const char* BASE64 "MOLDAU_BASE64"
    const char* HEX "MOLDAU_HEX"

cdef enum Kind:
    NOTHING = 0
    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    FLOAT = 6
    DOUBLE = 7
    TEXT = 8
    BYTES = 9
    DECIMAL = 10
    LIST = 11
    MAP = 12
    STRUCT = 13
    JSON = 14

cdef enum:
    OK = 0
    BAD = 1
    ADD_POINT = 2  # Py_DTSF_ADD_DOT_0


cdef class Column:
    """The buffers of one array and its children."""

    cdef int kind
    cdef bint required, whole, numeric, schemaless, text_keys
    cdef Py_ssize_t offset, scale
    cdef const uint8_t* validity
    cdef const char* values
    cdef const char* data
    cdef bytes lead  # the name of a field with its quotes and colon
    cdef list children
    cdef Column mark, key, item
    cdef object array

    cdef inline bint is_valid(self, Py_ssize_t at) noexcept:
        return self.kind != NOTHING and (self.validity == NULL or (self.validity[at >> 3] >> (at & 7)) & 1)


cdef object _KINDS = {
    pa.bool_(): BOOL, pa.int8(): INT8, pa.int16(): INT16, pa.int32(): INT32, pa.int64(): INT64, pa.float32(): FLOAT,
    pa.float64(): DOUBLE, pa.string(): TEXT, pa.binary(): BYTES, pa.null(): NOTHING, pa.date32(): INT32,
    pa.time32("ms"): INT32, pa.timestamp("ms", tz="UTC"): INT64,
}


cdef const char* address(buffer) except? NULL:
    return NULL if buffer is None else <const char*><uintptr_t>buffer.address


cdef Column column_of(array, schema, bint numeric, bint whole):
    """The column of an array; `schema` is None for schemaless data."""
    cdef Column column = Column()
    arrow = array.type
    storage = array
    column.array = array
    column.schemaless = schema is None
    column.required = schema is not None and not schema.optional
    column.numeric = numeric
    column.whole = whole
    if isinstance(arrow, pa.BaseExtensionType):
        column.kind = JSON
        storage = array.storage
    elif pa.types.is_decimal128(arrow):
        column.kind = DECIMAL
        column.scale = arrow.scale
    elif pa.types.is_struct(arrow):
        column.kind = STRUCT
    elif pa.types.is_map(arrow):
        column.kind = MAP
    elif pa.types.is_list(arrow):
        column.kind = LIST
    else:
        column.kind = _KINDS[arrow]
    buffers = storage.buffers()
    column.offset = storage.offset
    column.validity = <const uint8_t*>address(buffers[0])
    if column.kind != STRUCT and column.kind != NOTHING:
        column.values = address(buffers[1])
    if column.kind == TEXT or column.kind == BYTES or column.kind == JSON:
        column.data = address(buffers[2])
    add_children(column, array, schema, numeric)
    return column


cdef int add_children(Column column, array, schema, bint numeric) except -1:
    cdef Column child
    arrow = array.type
    if column.kind == LIST:
        inner = None if schema is None else schema.value_schema
        column.item = column_of(array.values, inner, numeric, writes_whole_numbers(arrow.value_field))
    elif column.kind == MAP:
        column.key = column_of(array.keys, None if schema is None else schema.key_schema, numeric, False)
        column.item = column_of(array.items, None if schema is None else schema.value_schema, numeric, False)
        column.text_keys = column.key.kind == TEXT
    elif column.kind == STRUCT:
        column.children = []
        marks = {field.name: i for i, field in enumerate(arrow) if is_null_mark(field.name)}
        for i, field in enumerate(arrow):
            if schema is None and field.name in marks:
                continue
            inner = None if schema is None else schema.fields[i].schema
            child = column_of(array.field(i), inner, numeric, writes_whole_numbers(field))
            child.lead = quoted(field.name.encode()) + b":"
            if schema is None and null_mark(field.name) in marks:
                child.mark = column_of(array.field(marks[null_mark(field.name)]), None, False, False)
            column.children.append(child)
    return 0


# -- values --------------------------------------------------------------------------------------------------------------


cdef bytes quoted(bytes text):
    cdef Buffer out
    memset(&out, 0, sizeof(Buffer))
    try:
        put_string(&out, text, len(text))
        return PyBytes_FromStringAndSize(out.data, out.size)
    finally:
        release(&out)


cdef int put_string(Buffer* out, const char* text, Py_ssize_t size) except -1:
    """A string with Jackson's escapes."""
    cdef Py_ssize_t i, first = 0
    cdef uint8_t one
    reserve(out, size + 2)
    put_byte(out, 34)
    for i in range(size):
        one = <uint8_t>text[i]
        if one >= 32 and one != 34 and one != 92:
            continue
        put(out, text + first, i - first)
        first = i + 1
        put_byte(out, 92)
        if one == 34 or one == 92:
            put_byte(out, <char>one)
        elif one == 10:
            put_byte(out, 110)
        elif one == 9:
            put_byte(out, 116)
        elif one == 13:
            put_byte(out, 114)
        elif one == 8:
            put_byte(out, 98)
        elif one == 12:
            put_byte(out, 102)
        else:
            put(out, b"u00", 3)
            put_byte(out, HEX[one >> 4])
            put_byte(out, HEX[one & 15])
    put(out, text + first, size - first)
    return put_byte(out, 34)


cdef int put_integer(Buffer* out, int64_t value) except -1:
    cdef char[24] digits
    cdef int at = 24
    cdef uint64_t rest = <uint64_t>value if value >= 0 else 0 - <uint64_t>value
    while True:
        at -= 1
        digits[at] = <char>(48 + rest % 10)
        rest = rest // 10
        if rest == 0:
            break
    if value < 0:
        at -= 1
        digits[at] = 45
    return put(out, &digits[at], 24 - at)


cdef int put_double(Buffer* out, double value, bint whole) except -1:
    cdef char* text
    if not isfinite(value):
        return put_not_finite(out, value)
    if whole and -9007199254740992.0 <= value <= 9007199254740992.0 and value == <double><int64_t>value:
        return put_integer(out, <int64_t>value)
    text = PyOS_double_to_string(value, 114, 0, ADD_POINT, NULL)
    put_java(out, text, value)
    PyMem_Free(text)
    return 0


cdef int put_float(Buffer* out, float value) except -1:
    """The shortest text that is read as the same float."""
    cdef char[40] text
    cdef int precision
    if not isfinite(value):
        return put_not_finite(out, value)
    for precision in range(1, 10):
        snprintf(&text[0], 40, b"%.*g", precision, <double>value)
        if strtof(&text[0], NULL) == value:
            break
    return put_java(out, &text[0], value)


cdef int put_not_finite(Buffer* out, double value) except -1:
    """Jackson writes them as strings."""
    if isnan(value):
        return put(out, b'"NaN"', 5)
    return put(out, b'"Infinity"', 10) if value > 0 else put(out, b'"-Infinity"', 11)


cdef int put_java(Buffer* out, const char* text, double value) except -1:
    """A number in the form of Java's Double.toString: plain from 10^-3 to below 10^7, otherwise d.dddE±x."""
    cdef char[40] digits
    cdef int count = 0, exponent = 0, point = -1, i
    cdef const char* p = text
    cdef double size = -value if value < 0 else value
    if (size == 0 or 1e-3 <= size < 1e7) and strchr(text, 101) == NULL:
        put(out, text, strlen(text))
        return 0 if strchr(text, 46) != NULL else put(out, b".0", 2)
    if p[0] == 45:
        put_byte(out, 45)
        p += 1
    while p[0] != 0 and p[0] != 101:
        if p[0] == 46:
            point = count
        elif count or p[0] != 48:
            digits[count] = p[0]
            count += 1
        elif point >= 0:
            exponent -= 1  # zeros between the point and the first digit
        p += 1
    if point < 0:
        point = count
    if p[0] == 101:
        p += 1
        i = 0
        if p[0] == 45:
            p += 1
            while p[0]:
                i = i * 10 + (p[0] - 48)
                p += 1
            exponent -= i
        else:
            p += p[0] == 43
            while p[0]:
                i = i * 10 + (p[0] - 48)
                p += 1
            exponent += i
    exponent += point - 1
    while count > 1 and digits[count - 1] == 48:
        count -= 1
    if 0 <= exponent < 7:  # "1e+06" of %g
        for i in range(count if count > exponent else exponent + 1):
            put_byte(out, digits[i] if i < count else 48)
            if i == exponent:
                put_byte(out, 46)
        return put_byte(out, 48) if count <= exponent + 1 else 0
    put_byte(out, digits[0])
    put_byte(out, 46)
    if count == 1:
        put_byte(out, 48)
    else:
        put(out, &digits[1], count - 1)
    put_byte(out, 69)
    return put_integer(out, exponent)


cdef int put_base64(Buffer* out, const uint8_t* data, Py_ssize_t size) except -1:
    cdef Py_ssize_t i
    cdef uint8_t second, third
    reserve(out, (size + 2) // 3 * 4 + 2)
    put_byte(out, 34)
    for i in range(0, size, 3):
        second = data[i + 1] if i + 1 < size else 0
        third = data[i + 2] if i + 2 < size else 0
        put_byte(out, BASE64[data[i] >> 2])
        put_byte(out, BASE64[((data[i] & 3) << 4) | (second >> 4)])
        put_byte(out, BASE64[((second & 15) << 2) | (third >> 6)] if i + 1 < size else 61)
        put_byte(out, BASE64[third & 63] if i + 2 < size else 61)
    return put_byte(out, 34)


cdef int put_decimal(Buffer* out, const uint8_t* slot, Py_ssize_t scale, bint numeric) except -1:
    """A decimal: as a number, or the bytes of its unscaled integer (the fewest, high byte first) in base64."""
    cdef uint8_t[16] data
    cdef char[64] digits
    cdef int128 value
    cdef uint128 rest
    cdef int i, count = 0
    if not numeric:
        for i in range(16):
            data[i] = slot[15 - i]
        i = 0
        while i < 15 and (data[i] == 0 or data[i] == 255) and (data[i] & 0x80) == (data[i + 1] & 0x80):
            i += 1
        return put_base64(out, &data[i], 16 - i)
    value = (<const int128*>slot)[0]
    if value < 0:
        put_byte(out, 45)
        rest = <uint128>(-value)
    else:
        rest = <uint128>value
    while rest or count <= (scale if scale > 0 else 0):
        digits[count] = <char>(48 + <int>(rest % 10))
        rest = rest // 10
        count += 1
    for i in range(count - 1, -1, -1):
        put_byte(out, digits[i])
        if i == scale and i > 0:
            put_byte(out, 46)
    if value != 0:
        for i in range(<int>-scale):
            put_byte(out, 48)
    return 0


cdef int put_value(Buffer* out, Column column, Py_ssize_t row) except -1:
    """One value, or null."""
    cdef Py_ssize_t at = column.offset + row
    cdef int kind = column.kind
    cdef const int32_t* offsets
    if not column.is_valid(at):
        if column.required:
            return BAD
        put(out, b"null", 4)
    elif kind == TEXT:
        offsets = <const int32_t*>column.values
        put_string(out, column.data + offsets[at], offsets[at + 1] - offsets[at])
    elif kind == INT64:
        put_integer(out, (<const int64_t*>column.values)[at])
    elif kind == DOUBLE:
        put_double(out, (<const double*>column.values)[at], column.whole)
    elif kind == BOOL:
        if (<const uint8_t*>column.values)[at >> 3] >> (at & 7) & 1:
            put(out, b"true", 4)
        else:
            put(out, b"false", 5)
    elif kind == STRUCT:
        return put_struct(out, column, row)
    elif kind == LIST:
        return put_list(out, column, at)
    elif kind == MAP:
        return put_map(out, column, at)
    elif kind == INT32:
        put_integer(out, (<const int32_t*>column.values)[at])
    elif kind == INT16:
        put_integer(out, (<const int16_t*>column.values)[at])
    elif kind == INT8:
        put_integer(out, (<const int8_t*>column.values)[at])
    elif kind == FLOAT:
        put_float(out, (<const float*>column.values)[at])
    elif kind == DECIMAL:
        put_decimal(out, <const uint8_t*>column.values + 16 * at, column.scale, column.numeric)
    else:
        offsets = <const int32_t*>column.values
        if kind == JSON:
            put(out, column.data + offsets[at], offsets[at + 1] - offsets[at])
        else:
            put_base64(out, <const uint8_t*>column.data + offsets[at], offsets[at + 1] - offsets[at])
    return OK


cdef int put_struct(Buffer* out, Column column, Py_ssize_t row) except -1:
    cdef Column child
    cdef bint first = True
    put_byte(out, 123)
    for one in column.children:
        child = <Column>one
        if column.schemaless and not child.is_valid(child.offset + row) and not is_marked(child, row):
            continue
        if not first:
            put_byte(out, 44)
        first = False
        put(out, <const char*>child.lead, len(child.lead))
        if put_value(out, child, row) != OK:
            return BAD
    return put_byte(out, 125)


cdef bint is_marked(Column child, Py_ssize_t row) noexcept:
    """The field is null and not missing."""
    cdef Py_ssize_t at
    if child.mark is None:
        return False
    at = child.mark.offset + row
    return child.mark.is_valid(at) and (<const uint8_t*>child.mark.values)[at >> 3] >> (at & 7) & 1


cdef int put_list(Buffer* out, Column column, Py_ssize_t at) except -1:
    cdef const int32_t* offsets = <const int32_t*>column.values
    cdef Py_ssize_t i
    put_byte(out, 91)
    for i in range(offsets[at], offsets[at + 1]):
        if i > offsets[at]:
            put_byte(out, 44)
        if put_value(out, column.item, i) != OK:
            return BAD
    return put_byte(out, 93)


cdef int put_map(Buffer* out, Column column, Py_ssize_t at) except -1:
    """A map: an object if its keys are strings, otherwise an array of pairs."""
    cdef const int32_t* offsets = <const int32_t*>column.values
    cdef Py_ssize_t i
    put_byte(out, 123 if column.text_keys else 91)
    for i in range(offsets[at], offsets[at + 1]):
        if i > offsets[at]:
            put_byte(out, 44)
        if not column.text_keys:
            put_byte(out, 91)
        if put_value(out, column.key, i) != OK:
            return BAD
        put_byte(out, 58 if column.text_keys else 44)
        if put_value(out, column.item, i) != OK:
            return BAD
        if not column.text_keys:
            put_byte(out, 93)
    return put_byte(out, 125 if column.text_keys else 93)


# -- entry point ---------------------------------------------------------------------------------------------------------


def encode(array, schema, bint numeric, bytes prefix, bytes suffix):
    """The texts of all rows, each between `prefix` and `suffix`; rows that are null stay null. And the bad rows."""
    cdef Column column = column_of(array, schema, numeric, False)
    cdef Py_ssize_t row, count = len(array), first
    cdef Buffer out, ends
    cdef int32_t end = 0
    errors = []
    memset(&out, 0, sizeof(Buffer))
    memset(&ends, 0, sizeof(Buffer))
    try:
        put(&ends, <char*>&end, 4)
        for row in range(count):
            if column.is_valid(column.offset + row):
                first = out.size
                put(&out, prefix, len(prefix))
                if put_value(&out, column, row) != OK:
                    errors.append(row)
                    out.size = first
                put(&out, suffix, len(suffix))
                if out.size > 0x7FFFFFFF:
                    raise OverflowError("a batch has more than 2 GB of JSON; divide it")
            end = <int32_t>out.size
            put(&ends, <char*>&end, 4)
        buffers = [
            pa.py_buffer(PyBytes_FromStringAndSize(ends.data, ends.size)),
            pa.py_buffer(PyBytes_FromStringAndSize(out.data, out.size)),
        ]
    finally:
        release(&out)
        release(&ends)
    validity = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.binary(), count, [validity, *buffers]), errors
