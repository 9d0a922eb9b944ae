# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Compaction loops in C: the native version of reference.py, with the same names and results.

The map is one block of memory with three words per slot: two of the key's hash, and its last offset plus one (zero
marks an empty slot). Collisions are resolved by linear probing.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from moldau.records._batch_layout cimport (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL_BIT,
    COUNT_AT,
    CRC_AT,
    CRC_FROM,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_AT,
    TRANSACTIONAL_BIT,
)
from moldau.records._walk cimport (
    Header,
    Parsed,
    Walk,
    end_walk,
    load_be16,
    load_be32,
    load_be64,
    next_record,
    read_varint,
    read_varlong,
    start_walk,
    write_varint,
)

from moldau.log.clean.engine_interface import Sifted as _Sifted
from moldau.records import codecs as _codecs
from moldau.records.errors import refusal as _refusal
from moldau.records.batch_layout import MAX_DECOMPRESSED as _MAX_DECOMPRESSED

cdef extern from "_crc32c.h" nogil:
    bint crc32c_available()
    uint32_t crc32c_extend(uint32_t value, const uint8_t *p, size_t n)

cdef object Sifted = _Sifted

cdef bint HARDWARE_CRC = crc32c_available()

cdef enum:
    WORDS = 3
    MOST_GROWTH = 13  # the most that a new timestamp delta (9) and a longer length (4) can add to a record


SLOT_BYTES = WORDS * 8


# -- hashing


cdef inline uint64_t rotate(uint64_t x, int bits) noexcept nogil:
    return x << bits | x >> (64 - bits)


cdef inline void sip_round(uint64_t *v) noexcept nogil:
    v[0] += v[1]
    v[1] = rotate(v[1], 13) ^ v[0]
    v[0] = rotate(v[0], 32)
    v[2] += v[3]
    v[3] = rotate(v[3], 16) ^ v[2]
    v[0] += v[3]
    v[3] = rotate(v[3], 21) ^ v[0]
    v[2] += v[1]
    v[1] = rotate(v[1], 17) ^ v[2]
    v[2] = rotate(v[2], 32)


cdef inline uint64_t load_le64(const uint8_t *p) noexcept nogil:
    return (
        <uint64_t>p[0] | <uint64_t>p[1] << 8 | <uint64_t>p[2] << 16 | <uint64_t>p[3] << 24
        | <uint64_t>p[4] << 32 | <uint64_t>p[5] << 40 | <uint64_t>p[6] << 48 | <uint64_t>p[7] << 56
    )


cdef inline void hash_key(uint64_t k0, uint64_t k1, const uint8_t *p, Py_ssize_t size, uint64_t *out) noexcept nogil:
    """SipHash-2-4 with an output of 128 bits."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef Py_ssize_t left = size
    cdef int i
    v[0] = k0 ^ <uint64_t>0x736F6D6570736575
    v[1] = k1 ^ <uint64_t>0x646F72616E646F6D ^ 0xEE
    v[2] = k0 ^ <uint64_t>0x6C7967656E657261
    v[3] = k1 ^ <uint64_t>0x7465646279746573
    while left >= 8:
        word = load_le64(p)
        v[3] ^= word
        sip_round(v)
        sip_round(v)
        v[0] ^= word
        p += 8
        left -= 8
    word = <uint64_t>(size & 0xFF) << 56
    for i in range(left):
        word |= <uint64_t>p[i] << (8 * i)
    v[3] ^= word
    sip_round(v)
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    for i in range(4):
        sip_round(v)
    out[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for i in range(4):
        sip_round(v)
    out[1] = v[0] ^ v[1] ^ v[2] ^ v[3]


def siphash128(bytes key, bytes data):
    """The hash alone, for tests with the published values."""
    cdef uint64_t out[2]
    if len(key) != 16:
        raise ValueError("the key must have 16 bytes")
    hash_key(
        load_le64(<const uint8_t *>PyBytes_AS_STRING(key)),
        load_le64(<const uint8_t *>PyBytes_AS_STRING(key) + 8),
        <const uint8_t *>PyBytes_AS_STRING(data),
        len(data),
        out,
    )
    return int(out[0]).to_bytes(8, "little") + int(out[1]).to_bytes(8, "little")


# -- reading a batch


cdef int open_batch(Py_buffer *view, Header *header) except -1:
    """Read the header of a batch that was checked before; fields that matter for memory safety are checked again."""
    cdef const uint8_t *p = <const uint8_t *>view.buf
    if view.len < HEADER_SIZE or <int64_t><int32_t>load_be32(p + LENGTH_AT) + LENGTH_END != view.len:
        raise ValueError(f"{view.len} bytes are not one batch")
    header.size = view.len
    header.base_offset = <int64_t>load_be64(p)
    header.attributes = <int16_t>load_be16(p + ATTRIBUTES_AT)
    header.last_offset_delta = <int32_t>load_be32(p + LAST_OFFSET_DELTA_AT)
    header.base_timestamp = <int64_t>load_be64(p + BASE_TIMESTAMP_AT)
    header.max_timestamp = <int64_t>load_be64(p + MAX_TIMESTAMP_AT)
    header.count = <int32_t>load_be32(p + COUNT_AT)
    return 0


cdef object records_of(batch, Header *header):
    """The buffer with the records: the batch itself, or its decompressed content."""
    if header.attributes & CODEC_MASK == 0:
        return batch
    codec = _codecs.codec_of(header.attributes & CODEC_MASK)
    return _codecs.decompress(codec, memoryview(batch)[HEADER_SIZE:], _MAX_DECOMPRESSED)


cdef inline int begin(Walk *walk, Header *header, Py_buffer *records) except -1:
    cdef Py_ssize_t skip = HEADER_SIZE if header.attributes & CODEC_MASK == 0 else 0
    start_walk(walk, header, <const uint8_t *>records.buf + skip, records.len - skip, False, True)
    return 0


cdef object fail(Walk *walk, int fault):
    raise _refusal(fault, walk.index, walk.found, walk.expected)


cdef bint is_plain(
    const uint8_t *p, Py_ssize_t left, int64_t expected, int64_t end_offset, Header *header
) noexcept nogil:
    """Whether a whole, valid, simple batch is here: see reference.is_plain."""
    if not HARDWARE_CRC or left < HEADER_SIZE or p[MAGIC_AT] != MAGIC:
        return False
    header.size = <int64_t><int32_t>load_be32(p + LENGTH_AT) + LENGTH_END
    header.attributes = <int16_t>load_be16(p + ATTRIBUTES_AT)
    if not HEADER_SIZE <= header.size <= left or header.attributes & (CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT):
        return False
    header.base_offset = <int64_t>load_be64(p)
    header.last_offset_delta = <int32_t>load_be32(p + LAST_OFFSET_DELTA_AT)
    if header.last_offset_delta < 0 or not expected <= header.base_offset < end_offset - header.last_offset_delta:
        return False
    if crc32c_extend(0, p + CRC_FROM, header.size - CRC_FROM) != load_be32(p + CRC_AT):
        return False
    header.base_timestamp = <int64_t>load_be64(p + BASE_TIMESTAMP_AT)
    header.producer_id = <int64_t>load_be64(p + PRODUCER_AT)
    header.count = <int32_t>load_be32(p + COUNT_AT)
    return True


# -- offset map


cdef class OffsetMap:
    """See reference.OffsetMap."""

    cdef uint64_t *table
    cdef uint64_t slots
    cdef uint64_t k0, k1
    cdef Py_ssize_t used
    cdef readonly Py_ssize_t capacity

    def __cinit__(self, Py_ssize_t slots, double load_factor, bytes seed):
        if slots < 1 or not 0 < load_factor <= 1 or len(seed) != 16:
            raise ValueError(f"invalid offset map: {slots} slots, load factor {load_factor}, {len(seed)} bytes of seed")
        self.capacity = max(1, <Py_ssize_t>(slots * load_factor))
        # One slot always stays empty, so that the search for a missing key ends.
        self.slots = max(slots, self.capacity + 1)
        self.k0 = load_le64(<const uint8_t *>PyBytes_AS_STRING(seed))
        self.k1 = load_le64(<const uint8_t *>PyBytes_AS_STRING(seed) + 8)
        self.table = <uint64_t *>calloc(self.slots, WORDS * 8)
        if self.table == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.table)

    def __len__(self):
        return self.used

    cdef inline uint64_t *find(self, const uint8_t *key, Py_ssize_t size, uint64_t *hashed) noexcept nogil:
        """The slot of the key, or the empty slot for it."""
        cdef uint64_t at
        cdef uint64_t *slot
        hash_key(self.k0, self.k1, key, size, hashed)
        at = hashed[0] % self.slots
        while True:
            slot = self.table + at * WORDS
            if slot[2] == 0 or (slot[0] == hashed[0] and slot[1] == hashed[1]):
                return slot
            at += 1
            if at == self.slots:
                at = 0

    cdef inline bint put_key(self, const uint8_t *key, Py_ssize_t size, int64_t offset) noexcept nogil:
        cdef uint64_t hashed[2]
        cdef uint64_t *slot = self.find(key, size, hashed)
        if slot[2] == 0:
            if self.used >= self.capacity:
                return False
            slot[0] = hashed[0]
            slot[1] = hashed[1]
            self.used += 1
        slot[2] = <uint64_t>(offset + 1)
        return True

    cdef inline int64_t get_key(self, const uint8_t *key, Py_ssize_t size) noexcept nogil:
        cdef uint64_t hashed[2]
        return <int64_t>self.find(key, size, hashed)[2] - 1

    def put(self, bytes key, int64_t offset):
        """See reference.OffsetMap.put."""
        return self.put_key(<const uint8_t *>PyBytes_AS_STRING(key), len(key), offset)

    def get(self, bytes key):
        """See reference.OffsetMap.get."""
        return self.get_key(<const uint8_t *>PyBytes_AS_STRING(key), len(key))

    def put_batch(self, batch, int64_t first_offset):
        """See reference.OffsetMap.put_batch."""
        cdef Py_buffer view, inner
        cdef Header header
        PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
        try:
            open_batch(&view, &header)
            records = records_of(batch, &header)
            PyObject_GetBuffer(records, &inner, PyBUF_SIMPLE)
            try:
                return self.put_records(&header, &inner, first_offset)
            finally:
                PyBuffer_Release(&inner)
        finally:
            PyBuffer_Release(&view)

    cdef object put_records(self, Header *header, Py_buffer *records, int64_t first_offset):
        cdef Walk walk
        cdef Parsed record
        cdef int64_t offset, refused = -1
        cdef int fault = 0
        begin(&walk, header, records)
        for _ in range(header.count):
            fault = next_record(&walk, &record)
            if fault:
                break
            if refused >= 0:
                continue  # walk the whole batch, so that damage is found even if there is no room
            offset = header.base_offset + record.offset_delta
            if record.key_size >= 0 and offset >= first_offset:
                if not self.put_key(record.key, record.key_size, offset):
                    refused = offset
        if not fault:
            fault = end_walk(&walk)
        if fault:
            fail(&walk, fault)
        return refused


    def put_run(self, chunk, Py_ssize_t at, int64_t first_offset, int64_t expected, int64_t end_offset):
        """See reference.OffsetMap.put_run."""
        cdef Py_buffer view
        cdef Header header
        cdef int64_t refused = -1
        PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
        try:
            while 0 <= at < view.len and is_plain(
                <const uint8_t *>view.buf + at, view.len - at, expected, end_offset, &header
            ):
                if not self.put_plain(&header, <const uint8_t *>view.buf + at, first_offset, &refused):
                    break  # damaged: the caller checks the batch on its own and reports it
                if refused >= 0:
                    break
                at += header.size
                expected = header.base_offset + header.last_offset_delta + 1
            return at, expected, refused
        finally:
            PyBuffer_Release(&view)

    cdef bint put_plain(
        self, Header *header, const uint8_t *batch, int64_t first_offset, int64_t *refused
    ) noexcept nogil:
        cdef Walk walk
        cdef Parsed record
        cdef int64_t offset
        start_walk(&walk, header, batch + HEADER_SIZE, header.size - HEADER_SIZE, False, True)
        for _ in range(header.count):
            if next_record(&walk, &record):
                return False
            offset = header.base_offset + record.offset_delta
            if record.key_size >= 0 and offset >= first_offset and refused[0] < 0:
                if not self.put_key(record.key, record.key_size, offset):
                    refused[0] = offset
        return end_walk(&walk) == 0


# -- filtering


def skip_run(chunk, Py_ssize_t at, OffsetMap offsets, int64_t through, int64_t expected, int64_t end_offset,
             int64_t before):
    """See reference.skip_run."""
    cdef Py_buffer view
    cdef Header header
    PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
    try:
        while (
            0 <= at < view.len
            and is_plain(<const uint8_t *>view.buf + at, view.len - at, expected, end_offset, &header)
            and header.producer_id < 0
            and at + header.size < before
            and header.base_offset + header.last_offset_delta <= through
            and all_replaced(&header, <const uint8_t *>view.buf + at, offsets)
        ):
            at += header.size
            expected = header.base_offset + header.last_offset_delta + 1
        return at, expected
    finally:
        PyBuffer_Release(&view)


cdef bint all_replaced(Header *header, const uint8_t *batch, OffsetMap offsets) noexcept nogil:
    cdef Walk walk
    cdef Parsed record
    start_walk(&walk, header, batch + HEADER_SIZE, header.size - HEADER_SIZE, False, True)
    for _ in range(header.count):
        if next_record(&walk, &record):
            return False
        if record.key_size >= 0:
            if offsets.get_key(record.key, record.key_size) <= header.base_offset + record.offset_delta:
                return False
    return end_walk(&walk) == 0


cdef struct Verdict:
    int32_t kept
    Py_ssize_t kept_bytes
    bint tombstones
    int64_t earliest  # both as deltas to the base timestamp
    int64_t latest


def sift(batch, OffsetMap offsets, int64_t through, bint drop_deletes, int64_t horizon):
    """See reference.sift."""
    cdef Py_buffer view, inner
    cdef Header header
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        open_batch(&view, &header)
        records = records_of(batch, &header)
        PyObject_GetBuffer(records, &inner, PyBUF_SIMPLE)
        try:
            return sift_records(&header, &inner, offsets, through, drop_deletes, horizon)
        finally:
            PyBuffer_Release(&inner)
    finally:
        PyBuffer_Release(&view)


cdef object sift_records(
    Header *header, Py_buffer *records, OffsetMap offsets, int64_t through, bint drop_deletes, int64_t horizon
):
    cdef Verdict verdict
    cdef bint rebased
    cdef int64_t latest
    # A record has at least seven bytes. The limit protects against a wrong count in the header.
    cdef uint8_t *stays = <uint8_t *>malloc(min(<Py_ssize_t>max(header.count, 0), records.len // 7 + 1) + 1)
    if stays == NULL:
        raise MemoryError
    try:
        judge(header, records, offsets, through, drop_deletes, stays, &verdict)
        if verdict.kept == 0:
            return Sifted(0, None if header.count == 0 else b"", -1, False)
        latest = header.base_timestamp + verdict.latest
        if header.attributes & LOG_APPEND_TIME_BIT:
            latest = header.max_timestamp
        rebased = (
            horizon != -1
            and verdict.tombstones
            and header.base_timestamp + verdict.earliest >= INT64_MIN + horizon
        )
        if verdict.kept == header.count and not rebased:
            return Sifted(verdict.kept, None, latest, False)
        if rebased:
            kept = copy_rebased(header, records, stays, &verdict, horizon)
        else:
            kept = copy_kept(header, records, stays, &verdict)
        return Sifted(verdict.kept, kept, latest, rebased)
    finally:
        free(stays)


cdef int judge(
    Header *header,
    Py_buffer *records,
    OffsetMap offsets,
    int64_t through,
    bint drop_deletes,
    uint8_t *stays,
    Verdict *verdict,
) except -1:
    """Mark for each record whether it is kept, and summarise the kept ones."""
    cdef Walk walk
    cdef Parsed record
    cdef int64_t offset
    cdef int32_t i
    cdef bint keep
    cdef int fault = 0
    verdict.kept = 0
    verdict.kept_bytes = 0
    verdict.tombstones = False
    verdict.earliest = INT64_MAX
    verdict.latest = INT64_MIN
    begin(&walk, header, records)
    for i in range(header.count):
        fault = next_record(&walk, &record)
        if fault:
            break
        offset = header.base_offset + record.offset_delta
        if offset > through:
            keep = True
        elif record.key_size < 0 or (drop_deletes and record.value_size < 0):
            keep = False
        else:
            keep = offsets.get_key(record.key, record.key_size) <= offset
        stays[i] = keep
        if keep:
            verdict.kept += 1
            verdict.kept_bytes += walk.at - record.start
            if record.value_size < 0:
                verdict.tombstones = True
            if record.timestamp_delta > verdict.latest:
                verdict.latest = record.timestamp_delta
            if record.timestamp_delta < verdict.earliest:
                verdict.earliest = record.timestamp_delta
    if not fault:
        fault = end_walk(&walk)
    if fault:
        fail(&walk, fault)
    return 0


cdef bytes copy_kept(Header *header, Py_buffer *records, const uint8_t *stays, Verdict *verdict):
    """The kept records unchanged; adjacent ones are copied in one piece."""
    cdef Walk walk
    cdef Parsed record
    cdef int32_t i
    cdef const uint8_t *piece = NULL
    cdef const uint8_t *end = NULL
    cdef bytes out = PyBytes_FromStringAndSize(NULL, verdict.kept_bytes)
    cdef uint8_t *to = <uint8_t *>PyBytes_AS_STRING(out)
    begin(&walk, header, records)
    for i in range(header.count):
        next_record(&walk, &record)  # cannot fail: `judge` has checked it
        if not stays[i]:
            continue
        if record.start != end:
            if piece != NULL:
                memcpy(to, piece, end - piece)
                to += end - piece
            piece = record.start
        end = walk.at
    memcpy(to, piece, end - piece)
    return out


cdef bytes copy_rebased(Header *header, Py_buffer *records, const uint8_t *stays, Verdict *verdict, int64_t horizon):
    """The kept records with timestamps relative to the horizon."""
    cdef Walk walk
    cdef Parsed record
    cdef int32_t i, length = 0
    cdef int64_t delta = 0
    cdef const uint8_t *p
    cdef const uint8_t *body
    cdef uint8_t number[10]
    cdef Py_ssize_t digits
    cdef Py_ssize_t most = verdict.kept_bytes + <Py_ssize_t>verdict.kept * MOST_GROWTH
    cdef uint8_t *buffer
    cdef uint8_t *to
    if most > INT32_MAX:
        raise ValueError("a batch is limited to 2 GiB")
    buffer = <uint8_t *>malloc(most)
    if buffer == NULL:
        raise MemoryError
    to = buffer
    try:
        begin(&walk, header, records)
        for i in range(header.count):
            next_record(&walk, &record)
            if not stays[i]:
                continue
            p = record.start
            read_varint(&p, walk.at, &length)
            body = p
            p += 1
            read_varlong(&p, walk.at, &delta)
            digits = write_varint(number, header.base_timestamp + delta - horizon) - number
            to = write_varint(to, 1 + digits + (walk.at - p))
            to[0] = body[0]
            to += 1
            memcpy(to, number, digits)
            to += digits
            memcpy(to, p, walk.at - p)
            to += walk.at - p
        return PyBytes_FromStringAndSize(<const char *>buffer, to - buffer)
    finally:
        free(buffer)
