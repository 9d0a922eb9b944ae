# cython: language_level=3
"""Growable buffers of the JSON decoder and encoder."""

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset


cdef struct Buffer:
    char* data
    size_t size
    size_t capacity


cdef inline int reserve(Buffer* buffer, size_t more) except -1:
    cdef size_t wanted = buffer.size + more
    cdef size_t capacity = buffer.capacity
    cdef void* data
    if wanted <= capacity:
        return 0
    capacity = capacity * 2 if capacity else 256
    if capacity < wanted:
        capacity = wanted
    data = realloc(buffer.data, capacity)
    if data == NULL:
        raise MemoryError()
    buffer.data = <char*>data
    buffer.capacity = capacity
    return 0


cdef inline int put(Buffer* buffer, const char* data, size_t size) except -1:
    if size == 0:  # memcpy must not get NULL, even for no bytes
        return 0
    if buffer.size + size > buffer.capacity:
        reserve(buffer, size)
    memcpy(buffer.data + buffer.size, data, size)
    buffer.size += size
    return 0


cdef inline int put_byte(Buffer* buffer, char one) except -1:
    if buffer.size + 1 > buffer.capacity:
        reserve(buffer, 1)
    buffer.data[buffer.size] = one
    buffer.size += 1
    return 0


cdef inline int put_zeros(Buffer* buffer, size_t size) except -1:
    if size == 0:
        return 0
    if buffer.size + size > buffer.capacity:
        reserve(buffer, size)
    memset(buffer.data + buffer.size, 0, size)
    buffer.size += size
    return 0


cdef inline void release(Buffer* buffer) noexcept:
    free(buffer.data)
    buffer.data = NULL
    buffer.size = 0
    buffer.capacity = 0
