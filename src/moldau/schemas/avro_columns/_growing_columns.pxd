# cython: language_level=3
"""Columns that grow while rows of Avro data are read. `truncate` undoes a row that was read in part."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy, memset

from moldau.schemas.avro_columns._avro_bytes cimport COLUMN_FULL, NO_MEMORY, OK

cdef enum:
    AS_NULL = 0
    AS_BOOL = 1
    AS_INT32 = 2
    AS_INT64 = 3
    AS_FLOAT = 4
    AS_DOUBLE = 5
    AS_BINARY = 6
    AS_FIXED = 7
    AS_STRUCT = 8
    AS_LIST = 9
    AS_MAP = 10

cdef enum:
    LEAST_ROOM = 1024


cdef struct Growing:
    uint8_t *data
    int64_t used
    int64_t room


cdef inline int grow(Growing *buffer, int64_t more) noexcept nogil:
    cdef int64_t room = buffer.room * 2
    cdef void *data
    if room < buffer.used + more:
        room = buffer.used + more
    if room < LEAST_ROOM:
        room = LEAST_ROOM
    data = realloc(buffer.data, room)
    if data == NULL:
        return NO_MEMORY
    buffer.data = <uint8_t *>data
    buffer.room = room
    return OK


cdef inline int room_for(Growing *buffer, int64_t more) noexcept nogil:
    if buffer.used + more <= buffer.room:
        return OK
    return grow(buffer, more)


cdef struct Col:
    int storage
    bint nullable
    int size
    int count  # of children
    int32_t *children
    int64_t length
    int64_t nulls
    Growing valid  # a byte per entry, only if nullable
    Growing values  # fixed-size values, booleans as bytes, or where the data of each entry ends (int32)
    Growing data


cdef inline int width_of(Col *col) noexcept nogil:
    if col.storage == AS_BOOL:
        return 1
    if col.storage == AS_INT64 or col.storage == AS_DOUBLE:
        return 8
    if col.storage == AS_FIXED:
        return col.size
    if col.storage == AS_NULL or col.storage == AS_STRUCT:
        return 0
    return 4  # int32, float, ends


cdef inline int mark_valid(Col *col) noexcept nogil:
    """Count an entry whose value was written."""
    col.length += 1
    if not col.nullable:
        return OK
    if room_for(&col.valid, 1):
        return NO_MEMORY
    col.valid.data[col.valid.used] = 1
    col.valid.used += 1
    return OK


cdef inline int put_null(Col *cols, Col *col) noexcept nogil:
    """A null entry. In a column that is not nullable it is a zero that a null of the parent hides."""
    cdef int width = width_of(col)
    cdef int32_t end = 0
    cdef int i
    if col.storage == AS_STRUCT:
        for i in range(col.count):
            if put_null(cols, cols + col.children[i]):
                return NO_MEMORY
    elif width:
        if room_for(&col.values, width):
            return NO_MEMORY
        if col.storage == AS_BINARY:
            end = <int32_t>col.data.used
            memcpy(col.values.data + col.values.used, &end, 4)
        elif col.storage == AS_LIST or col.storage == AS_MAP:
            end = <int32_t>cols[col.children[0]].length
            memcpy(col.values.data + col.values.used, &end, 4)
        else:
            memset(col.values.data + col.values.used, 0, width)
        col.values.used += width
    col.length += 1
    if col.nullable:
        if room_for(&col.valid, 1):
            return NO_MEMORY
        col.valid.data[col.valid.used] = 0
        col.valid.used += 1
        col.nulls += 1
    return OK


cdef inline void truncate(Col *cols, Col *col, int64_t length) noexcept nogil:
    """Drop the entries after the first `length`, also those of a value that was read in part."""
    cdef int64_t i
    cdef int64_t end = 0
    cdef int child
    if col.nullable:
        for i in range(length, col.valid.used):
            col.nulls -= col.valid.data[i] == 0
        if col.valid.used > length:
            col.valid.used = length
    if col.length > length:
        col.length = length
    if col.values.used > length * width_of(col):
        col.values.used = length * width_of(col)
    if col.storage == AS_STRUCT:
        for child in range(col.count):
            truncate(cols, cols + col.children[child], length)
        return
    if length and (col.storage == AS_BINARY or col.storage == AS_LIST or col.storage == AS_MAP):
        end = (<int32_t *>col.values.data)[length - 1]
    if col.storage == AS_BINARY:
        col.data.used = end
    elif col.storage == AS_LIST or col.storage == AS_MAP:
        for child in range(col.count):
            truncate(cols, cols + col.children[child], end)


cdef inline int put_value(Col *col, const void *value, int width) noexcept nogil:
    if room_for(&col.values, width):
        return NO_MEMORY
    memcpy(col.values.data + col.values.used, value, width)
    col.values.used += width
    return mark_valid(col)


cdef inline int put_int(Col *col, int32_t value) noexcept nogil:
    if room_for(&col.values, 4):
        return NO_MEMORY
    (<int32_t *>(col.values.data + col.values.used))[0] = value
    col.values.used += 4
    return mark_valid(col)


cdef inline int put_long(Col *col, int64_t value) noexcept nogil:
    if room_for(&col.values, 8):
        return NO_MEMORY
    (<int64_t *>(col.values.data + col.values.used))[0] = value
    col.values.used += 8
    return mark_valid(col)


cdef inline int put_binary(Col *col, const uint8_t *data, int64_t size) noexcept nogil:
    if col.data.used + size > INT32_MAX:
        return COLUMN_FULL
    if room_for(&col.data, size):
        return NO_MEMORY
    if size:
        memcpy(col.data.data + col.data.used, data, size)
        col.data.used += size
    return put_int(col, <int32_t>col.data.used)
