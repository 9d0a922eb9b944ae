# cython: language_level=3
"""Walk over records in pure C, shared by the native modules, which add names and Python objects.

Functions that can fail return 0 or the number of the fault in errors.py. One rule gives memory safety: every read is
compared with the end of the data first.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    # the same numbers as in errors.py, which has the messages
    VARINT_PAST_END = 1
    VARINT_TOO_LONG = 2
    RECORD_LENGTH = 3
    RECORD_PAST_END = 4
    FIELD_PAST_RECORD = 5
    RECORD_TRAILING = 6
    KEY_LENGTH = 7
    VALUE_LENGTH = 8
    HEADER_COUNT = 9
    HEADER_KEY_LENGTH = 10
    HEADER_VALUE_LENGTH = 11
    OFFSET_DELTA = 12
    OFFSET_ORDER = 13
    TIMESTAMP_RANGE = 14
    NO_KEY = 15
    TOO_FEW_RECORDS = 16
    BATCH_TRAILING = 17


cdef struct Header:
    int64_t base_offset
    int64_t size
    int32_t leader_epoch
    int16_t attributes
    int32_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int32_t count


cdef struct Parsed:
    const uint8_t *start
    int64_t timestamp_delta
    int32_t offset_delta
    const uint8_t *key
    int32_t key_size
    const uint8_t *value
    int32_t value_size
    const uint8_t *headers
    int32_t header_count


cdef struct Walk:
    # The position of the walk, the values to check records against, and, after a fault, its details.
    const uint8_t *at
    const uint8_t *end
    int32_t index
    int32_t count
    int32_t last_offset_delta
    int32_t previous_delta
    int64_t base_timestamp
    int64_t lowest_delta
    int64_t highest_delta
    bint require_keys
    bint allow_gaps
    int64_t found
    int64_t expected


# -- numbers


cdef inline uint32_t load_be16(const uint8_t *p) noexcept nogil:
    return <uint32_t>p[0] << 8 | p[1]


cdef inline uint32_t load_be32(const uint8_t *p) noexcept nogil:
    return load_be16(p) << 16 | load_be16(p + 2)


cdef inline uint64_t load_be64(const uint8_t *p) noexcept nogil:
    return <uint64_t>load_be32(p) << 32 | load_be32(p + 4)


cdef inline int read_varint(const uint8_t **at, const uint8_t *end, int32_t *out) noexcept nogil:
    """Return 0, or the fault."""
    cdef const uint8_t *p = at[0]
    cdef uint32_t value, byte
    cdef int shift
    if p >= end:
        return VARINT_PAST_END
    value = p[0]
    p += 1
    if value >= 0x80:
        value &= 0x7F
        shift = 7
        while True:
            if p >= end:
                return VARINT_PAST_END
            byte = p[0]
            p += 1
            if shift == 28 and byte > 0x0F:
                return VARINT_TOO_LONG
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    at[0] = p
    out[0] = <int32_t>((value >> 1) ^ (0 - (value & 1)))
    return 0


cdef inline int read_varlong(const uint8_t **at, const uint8_t *end, int64_t *out) noexcept nogil:
    """Return 0, or the fault."""
    cdef const uint8_t *p = at[0]
    cdef uint64_t value, byte
    cdef int shift
    if p >= end:
        return VARINT_PAST_END
    value = p[0]
    p += 1
    if value >= 0x80:
        value &= 0x7F
        shift = 7
        while True:
            if p >= end:
                return VARINT_PAST_END
            byte = p[0]
            p += 1
            if shift == 63 and byte > 0x01:
                return VARINT_TOO_LONG
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    at[0] = p
    out[0] = <int64_t>((value >> 1) ^ (0 - (value & 1)))
    return 0


cdef inline uint8_t *write_varint(uint8_t *p, int64_t number) noexcept nogil:
    """Write at most five bytes for a number that fits 32 bits, otherwise at most ten."""
    cdef uint64_t value = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    while value > 0x7F:
        p[0] = <uint8_t>(value | 0x80)
        p += 1
        value >>= 7
    p[0] = <uint8_t>value
    return p + 1


# -- walking over records


cdef inline int read_field(
    Walk *walk, const uint8_t **at, const uint8_t *end, const uint8_t **field, int32_t *size, int fault
) noexcept nogil:
    """Read a length (-1 for null) and that many bytes. Return 0, or the fault."""
    cdef int failed = read_varint(at, end, size)
    if failed:
        return failed
    field[0] = at[0]
    if size[0] < 0:
        if size[0] < -1:
            walk.found = size[0]
            return fault
        return 0
    if size[0] > end - at[0]:
        walk.found = size[0]
        walk.expected = end - at[0]
        return FIELD_PAST_RECORD
    at[0] += size[0]
    return 0


cdef inline int skip_headers(Walk *walk, const uint8_t **at, const uint8_t *end, int32_t count) noexcept nogil:
    cdef const uint8_t *field
    cdef int32_t size
    cdef int failed
    # A header needs at least two bytes, so this bounds the count before the loop.
    if count < 0 or count > (end - at[0]) // 2:
        walk.found = count
        walk.expected = end - at[0]
        return HEADER_COUNT
    for _ in range(count):
        failed = read_field(walk, at, end, &field, &size, HEADER_KEY_LENGTH)
        if failed:
            return failed
        if size < 0:
            walk.found = size
            return HEADER_KEY_LENGTH
        failed = read_field(walk, at, end, &field, &size, HEADER_VALUE_LENGTH)
        if failed:
            return failed
    return 0


cdef inline int next_record(Walk *walk, Parsed *record) noexcept nogil:
    """Take the next record and hold it against the rules: 0, or the fault."""
    cdef const uint8_t *at = walk.at
    cdef const uint8_t *end
    cdef int32_t length
    cdef int failed
    if at == walk.end:
        walk.found = walk.index
        walk.expected = walk.count
        return TOO_FEW_RECORDS
    record.start = at
    failed = read_varint(&at, walk.end, &length)
    if failed:
        return failed
    if length < 0:
        walk.found = length
        return RECORD_LENGTH
    if length > walk.end - at:
        walk.found = length
        walk.expected = walk.end - at
        return RECORD_PAST_END
    if length < 1:
        walk.found = 1
        walk.expected = 0
        return FIELD_PAST_RECORD
    end = at + length
    at += 1  # the attributes, which are unused
    failed = read_varlong(&at, end, &record.timestamp_delta)
    if failed:
        return failed
    failed = read_varint(&at, end, &record.offset_delta)
    if failed:
        return failed
    failed = read_field(walk, &at, end, &record.key, &record.key_size, KEY_LENGTH)
    if failed:
        return failed
    failed = read_field(walk, &at, end, &record.value, &record.value_size, VALUE_LENGTH)
    if failed:
        return failed
    failed = read_varint(&at, end, &record.header_count)
    if failed:
        return failed
    record.headers = at
    if record.header_count != 0:
        failed = skip_headers(walk, &at, end, record.header_count)
        if failed:
            return failed
    if at != end:
        walk.found = end - at
        return RECORD_TRAILING
    failed = check_record(walk, record)
    if failed:
        return failed
    walk.at = end
    walk.previous_delta = record.offset_delta
    walk.index += 1
    return 0


cdef inline int check_record(Walk *walk, Parsed *record) noexcept nogil:
    """Check a well-formed record against the batch. Return 0, or the fault."""
    if walk.allow_gaps:
        if not walk.previous_delta < record.offset_delta <= walk.last_offset_delta:
            walk.found = record.offset_delta
            walk.expected = walk.last_offset_delta
            return OFFSET_ORDER
    elif record.offset_delta != walk.index:
        walk.found = record.offset_delta
        walk.expected = walk.index
        return OFFSET_DELTA
    if record.timestamp_delta < walk.lowest_delta or record.timestamp_delta > walk.highest_delta:
        walk.found = record.timestamp_delta
        walk.expected = walk.base_timestamp
        return TIMESTAMP_RANGE
    if walk.require_keys and record.key_size < 0:
        return NO_KEY
    return 0


cdef inline int end_walk(Walk *walk) noexcept nogil:
    if walk.at != walk.end:
        walk.found = walk.end - walk.at
        walk.expected = walk.count
        return BATCH_TRAILING
    return 0


cdef inline void start_walk(
    Walk *walk, Header *header, const uint8_t *data, Py_ssize_t size, bint require_keys, bint allow_gaps
) noexcept nogil:
    walk.at = data
    walk.end = data + size
    walk.index = 0
    walk.count = header.count
    walk.last_offset_delta = header.last_offset_delta
    walk.previous_delta = -1
    walk.base_timestamp = header.base_timestamp
    # The bounds of deltas whose timestamp fits 64 bits
    walk.lowest_delta = INT64_MIN - header.base_timestamp if header.base_timestamp < 0 else INT64_MIN
    walk.highest_delta = INT64_MAX - header.base_timestamp if header.base_timestamp > 0 else INT64_MAX
    walk.require_keys = require_keys
    walk.allow_gaps = allow_gaps
    walk.found = 0
    walk.expected = 0
