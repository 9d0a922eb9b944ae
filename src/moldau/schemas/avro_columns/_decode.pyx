# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decoding of Avro data into Arrow buffers in C: the native version of decode_reference.py.

The steps of a program become an array of structs; columns are buffers that grow at their end. A row that fails halfway
is undone by `truncate`. The loop over rows runs without the GIL.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from moldau.schemas.avro_columns._arrow_memory cimport ends_taken, packed, taken
from moldau.schemas.avro_columns._avro_bytes cimport (
    BAD_BRANCH,
    BAD_LENGTH,
    BAD_SYMBOL,
    COLUMN_FULL,
    ENDS_EARLY,
    LARGE_DECIMAL,
    NO_MEMORY,
    NOT_UTF8,
    OK,
    OUT_OF_RANGE,
    TOO_DEEP,
    TOO_MANY_ITEMS,
    UNRESOLVED,
    Data,
    is_utf8,
    sized,
    varint,
)
from moldau.schemas.avro_columns._growing_columns cimport (
    AS_BINARY,
    AS_BOOL,
    AS_LIST,
    AS_MAP,
    AS_NULL,
    AS_STRUCT,
    Col,
    mark_valid,
    put_binary,
    put_int,
    put_long,
    put_null,
    put_value,
    room_for,
    truncate,
)

import pyarrow as _pa

from moldau.schemas.avro_columns.arrow_types import Storage
from moldau.schemas.avro_columns.decode_program import MAX_DEPTH, MAX_EMPTY_ITEMS, DataFault, DecodeOp

cdef extern from *:
    """
    typedef __int128 wide_int;
    """
    ctypedef int64_t wide_int  # 128 bits in C

cdef enum:
    OP_FAIL = 0
    OP_NOTHING = 1
    OP_SKIP_FIXED = 2
    OP_SKIP_VARINT = 3
    OP_SKIP_BYTES = 4
    OP_RECORD = 5
    OP_UNION = 6
    OP_ARRAY = 7
    OP_MAP = 8
    OP_NULL = 9
    OP_BOOL = 10
    OP_INT = 11
    OP_LONG = 12
    OP_VARINT_TO_FLOAT = 13
    OP_VARINT_TO_DOUBLE = 14
    OP_FLOAT = 15
    OP_FLOAT_TO_DOUBLE = 16
    OP_DOUBLE = 17
    OP_BYTES = 18
    OP_STRING = 19
    OP_FIXED = 20
    OP_ENUM = 21
    OP_DECIMAL = 22
    OP_FIXED_DECIMAL = 23
    OP_MEMBER = 24
    OP_CONSTANT = 25

# The numbers above are those of the enums in Python. A change on one side only fails here, at import.
assert [one.name for one in DecodeOp] == [
    "FAIL", "NOTHING", "SKIP_FIXED", "SKIP_VARINT", "SKIP_BYTES", "RECORD", "UNION", "ARRAY", "MAP", "NULL", "BOOL",
    "INT", "LONG", "VARINT_TO_FLOAT", "VARINT_TO_DOUBLE", "FLOAT", "FLOAT_TO_DOUBLE", "DOUBLE", "BYTES", "STRING",
    "FIXED", "ENUM", "DECIMAL", "FIXED_DECIMAL", "MEMBER", "CONSTANT",
]
assert DataFault.COLUMN_FULL == COLUMN_FULL and Storage.MAP == AS_MAP

cdef int64_t _max_empty_items = MAX_EMPTY_ITEMS
cdef int _max_depth = MAX_DEPTH


# -- reading


cdef struct Stp:
    int op
    int number
    Col *col
    int count  # of children
    Stp **children
    int64_t size
    int64_t low
    int64_t high
    bint may_be_empty
    int symbol_count
    int64_t *symbol_sizes  # -1: the reader has no such symbol
    const uint8_t **symbols
    const uint8_t *data
    int64_t data_size
    uint64_t limit_low  # of a decimal: 10 ** digits
    uint64_t limit_high


cdef struct Cur:
    Data data
    Col *cols
    int failed  # the number of the step that failed


cdef inline int text(Cur *c, Col *col) noexcept nogil:
    cdef int64_t size = 0
    cdef int fault = sized(&c.data, &size)
    if fault:
        return fault
    if not is_utf8(c.data.p, size):
        return NOT_UTF8
    if col != NULL:
        fault = put_binary(col, c.data.p, size)
    c.data.p += size
    return fault


cdef int decimal(Stp *step, Col *col, const uint8_t *p, int64_t size) noexcept nogil:
    """A big-endian number of any length as 16 bytes, little-endian."""
    cdef uint8_t sign = 0xFF if size and p[0] & 0x80 else 0
    cdef uint8_t out[16]
    cdef wide_int value, limit
    cdef int i
    while size > 16:
        if p[0] != sign:
            return LARGE_DECIMAL
        p += 1
        size -= 1
    if size == 16 and (p[0] ^ sign) & 0x80:
        return LARGE_DECIMAL
    memset(out, sign, 16)
    for i in range(<int>size):
        out[i] = p[size - 1 - i]
    memcpy(&value, out, 16)
    limit = <wide_int>step.limit_high << 64 | <wide_int>step.limit_low
    if value >= limit or value <= -limit:
        return LARGE_DECIMAL
    return put_value(col, out, 16)


cdef int run(Cur *c, Stp *step, int depth) noexcept nogil:
    cdef int fault = step_of(c, step, depth)
    if fault and c.failed < 0:
        c.failed = step.number
    return fault


cdef int step_of(Cur *c, Stp *step, int depth) noexcept nogil:
    cdef Col *col = step.col
    cdef int64_t number = 0
    cdef double real
    cdef float single
    cdef int fault
    cdef int op = step.op
    cdef int i
    if depth > _max_depth:
        return TOO_DEEP
    if op == OP_STRING:
        return text(c, col)
    elif op == OP_LONG:
        fault = varint(&c.data, &number)
        if fault:
            return fault
        if number < step.low or number > step.high:
            return OUT_OF_RANGE
        return put_long(col, number)
    elif op == OP_INT:
        fault = varint(&c.data, &number)
        if fault:
            return fault
        if number < step.low or number > step.high:
            return OUT_OF_RANGE
        return put_int(col, <int32_t>number)
    elif op == OP_DOUBLE:
        if c.data.end - c.data.p < 8:
            return ENDS_EARLY
        fault = put_value(col, c.data.p, 8)
        c.data.p += 8
        return fault
    elif op == OP_UNION:
        fault = varint(&c.data, &number)
        if fault:
            return fault
        if number < 0 or number >= step.count:
            return BAD_BRANCH
        return run(c, step.children[number], depth + 1)
    elif op == OP_NULL:
        return put_null(c.cols, col)
    elif op == OP_RECORD:
        for i in range(step.count):
            fault = run(c, step.children[i], depth + 1)
            if fault:
                return fault
        return OK if col == NULL else mark_valid(col)
    elif op == OP_BOOL:
        if c.data.p >= c.data.end:
            return ENDS_EARLY
        if room_for(&col.values, 1):
            return NO_MEMORY
        col.values.data[col.values.used] = c.data.p[0] != 0
        col.values.used += 1
        c.data.p += 1
        return mark_valid(col)
    elif op == OP_FLOAT or op == OP_FLOAT_TO_DOUBLE:
        if c.data.end - c.data.p < 4:
            return ENDS_EARLY
        memcpy(&single, c.data.p, 4)
        c.data.p += 4
        if op == OP_FLOAT:
            return put_value(col, &single, 4)
        real = single
        return put_value(col, &real, 8)
    elif op == OP_ENUM:
        fault = varint(&c.data, &number)
        if fault:
            return fault
        if number < 0 or number >= step.symbol_count or step.symbol_sizes[number] < 0:
            return BAD_SYMBOL
        return put_binary(col, step.symbols[number], step.symbol_sizes[number])
    elif op == OP_BYTES:
        fault = sized(&c.data, &number)
        if fault:
            return fault
        fault = put_binary(col, c.data.p, number)
        c.data.p += number
        return fault
    elif op == OP_ARRAY or op == OP_MAP:
        return items(c, step, depth)
    return rare_step_of(c, step, depth)


cdef int rare_step_of(Cur *c, Stp *step, int depth) noexcept nogil:
    cdef Col *col = step.col
    cdef int64_t number = 0
    cdef double real
    cdef float single
    cdef int fault
    cdef int op = step.op
    if op == OP_NOTHING:
        return OK
    elif op == OP_SKIP_FIXED:
        if c.data.end - c.data.p < step.size:
            return ENDS_EARLY
        c.data.p += step.size
        return OK
    elif op == OP_SKIP_VARINT:
        return varint(&c.data, &number)
    elif op == OP_SKIP_BYTES:
        fault = sized(&c.data, &number)
        if not fault:
            c.data.p += number
        return fault
    elif op == OP_VARINT_TO_FLOAT or op == OP_VARINT_TO_DOUBLE:
        fault = varint(&c.data, &number)
        if fault:
            return fault
        if op == OP_VARINT_TO_DOUBLE:
            real = <double>number
            return put_value(col, &real, 8)
        # By way of a double, like the reference and fastavro: rounded twice.
        single = <float><double>number
        return put_value(col, &single, 4)
    elif op == OP_FIXED or op == OP_FIXED_DECIMAL:
        if c.data.end - c.data.p < step.size:
            return ENDS_EARLY
        if op == OP_FIXED:
            fault = put_value(col, c.data.p, <int>step.size)
        else:
            fault = decimal(step, col, c.data.p, step.size)
        c.data.p += step.size
        return fault
    elif op == OP_DECIMAL:
        fault = sized(&c.data, &number)
        if fault:
            return fault
        fault = decimal(step, col, c.data.p, number)
        c.data.p += number
        return fault
    elif op == OP_MEMBER:
        return member(c, step, depth)
    elif op == OP_CONSTANT:
        return constant(c, step, depth)
    return UNRESOLVED


cdef int items(Cur *c, Stp *step, int depth) noexcept nogil:
    """The blocks of an array or map: a count, the items, and so on up to a count of zero."""
    cdef Col *col = step.col
    cdef Col *item = NULL
    cdef Col *key = NULL
    cdef bint is_map = step.op == OP_MAP
    cdef int64_t count = 0
    cdef int64_t size = 0
    cdef int64_t i
    cdef int fault
    if col != NULL:
        item = c.cols + col.children[0]
        if is_map:
            key = item
    while True:
        fault = varint(&c.data, &count)
        if fault:
            return fault
        if count == 0:
            break
        if count < 0:
            count = -count
            fault = varint(&c.data, &size)
            if fault:
                return fault
        # The smallest number has no positive counterpart: it is still negative.
        if step.may_be_empty:
            if count < 0 or count > _max_empty_items:
                return TOO_MANY_ITEMS
        elif count < 0 or count > c.data.end - c.data.p:
            return BAD_LENGTH
        if col != NULL and item.length + count > INT32_MAX:
            return COLUMN_FULL
        for i in range(count):
            if is_map:
                fault = text(c, key)
                if fault:
                    return fault
            fault = run(c, step.children[0], depth + 1)
            if fault:
                return fault
    return OK if col == NULL else put_int(col, <int32_t>item.length)


cdef int member(Cur *c, Stp *step, int depth) noexcept nogil:
    cdef Col *col = step.col
    cdef int fault
    cdef int i
    for i in range(col.count):
        if i == step.size:
            fault = run(c, step.children[0], depth + 1)
        else:
            fault = put_null(c.cols, c.cols + col.children[i])
        if fault:
            return fault
    return mark_valid(col)


cdef int constant(Cur *c, Stp *step, int depth) noexcept nogil:
    cdef Cur inner
    cdef int fault
    inner.data.p = step.data
    inner.data.end = step.data + step.data_size
    inner.cols = c.cols
    inner.failed = -1
    fault = run(&inner, step.children[0], depth + 1)
    if fault and c.failed < 0:
        c.failed = inner.failed
    return fault


# -- programs


cdef class Decoder:
    """See decode_reference.Decoder."""

    cdef object program
    cdef list kept  # objects to which steps point
    cdef Col *cols
    cdef int col_count
    cdef Stp *steps
    cdef int step_count

    def __cinit__(self, program):
        cdef int i
        self.program = program
        self.kept = []
        self.col_count = len(program.columns)
        self.step_count = len(program.steps)
        self.cols = <Col *>calloc(self.col_count, sizeof(Col))
        self.steps = <Stp *>calloc(self.step_count, sizeof(Stp))
        if self.cols == NULL or self.steps == NULL:
            raise MemoryError
        for i in range(self.col_count):
            self.make_column(i, program.columns[i])
        for i in range(self.step_count):
            self.make_step(i, program.steps[i])

    def __dealloc__(self):
        cdef int i
        if self.cols != NULL:
            for i in range(self.col_count):
                free(self.cols[i].children)
                free(self.cols[i].valid.data)
                free(self.cols[i].values.data)
                free(self.cols[i].data.data)
        if self.steps != NULL:
            for i in range(self.step_count):
                free(self.steps[i].children)
                free(self.steps[i].symbol_sizes)
                free(self.steps[i].symbols)
        free(self.cols)
        free(self.steps)

    cdef int make_column(self, int number, column) except -1:
        cdef Col *col = self.cols + number
        col.storage = column.storage
        col.nullable = column.nullable and column.storage != AS_NULL
        col.size = column.size
        col.count = len(column.children)
        col.children = <int32_t *>calloc(col.count + 1, sizeof(int32_t))
        if col.children == NULL:
            raise MemoryError
        for i, child in enumerate(column.children):
            col.children[i] = child
        if "decimal256" in str(column.arrow):
            raise ValueError("the native decoder has no decimals of 256 bits")
        return 0

    cdef int make_step(self, int number, found) except -1:
        cdef Stp *step = self.steps + number
        cdef const uint8_t[::1] view
        step.op = found.op
        step.number = number
        step.col = NULL if found.column < 0 else self.cols + <int>found.column
        step.count = len(found.children)
        step.children = <Stp **>calloc(step.count + 1, sizeof(Stp *))
        step.symbol_count = len(found.symbols)
        step.symbol_sizes = <int64_t *>calloc(step.symbol_count + 1, sizeof(int64_t))
        step.symbols = <const uint8_t **>calloc(step.symbol_count + 1, sizeof(uint8_t *))
        if step.children == NULL or step.symbol_sizes == NULL or step.symbols == NULL:
            raise MemoryError
        for i, child in enumerate(found.children):
            step.children[i] = self.steps + <int>child
        for i, symbol in enumerate(found.symbols):
            step.symbol_sizes[i] = -1 if symbol is None else len(symbol)
            step.symbols[i] = NULL if symbol is None else <const uint8_t *><const char *>symbol
            self.kept.append(symbol)
        step.size = found.size
        step.low = found.low
        step.high = found.high
        step.may_be_empty = found.may_be_empty
        self.kept.append(found.data)
        step.data = <const uint8_t *><const char *>found.data
        step.data_size = len(found.data)
        if found.digits:
            step.limit_low = 10 ** found.digits & (2**64 - 1)
            step.limit_high = 10 ** found.digits >> 64
        return 0

    def decode(self, values, Py_ssize_t skip):
        """See decode_reference.Decoder.decode."""
        cdef int64_t rows = len(values)
        cdef int64_t start = values.offset
        cdef const uint8_t *valid = NULL
        cdef const int32_t *offsets
        cdef const uint8_t *data = NULL
        cdef int64_t row = 0
        cdef int fault = OK
        cdef Cur c
        if values.type != _pa.binary():
            raise TypeError(f"a binary column is decoded, not one of type {values.type}")
        bad = {}
        if rows == 0:
            return _pa.array([], self.program.columns[0].arrow), bad
        buffers = values.buffers()
        if buffers[0] is not None and values.null_count:
            valid = <const uint8_t *><uintptr_t>buffers[0].address
        offsets = <const int32_t *><uintptr_t>buffers[1].address + start
        if buffers[2] is not None:
            data = <const uint8_t *><uintptr_t>buffers[2].address
        c.cols = self.cols
        self.clear()
        while row < rows:
            with nogil:
                while row < rows:
                    fault = OK
                    if valid != NULL and not valid[(start + row) >> 3] >> ((start + row) & 7) & 1:
                        if put_null(self.cols, self.cols):
                            fault = NO_MEMORY
                            break
                        row += 1
                        continue
                    c.data.p = data + offsets[row] + skip
                    c.data.end = data + offsets[row + 1]
                    c.failed = -1
                    if c.data.p > c.data.end:
                        fault = ENDS_EARLY
                        c.failed = 0
                    else:
                        fault = run(&c, self.steps, 0)
                    if fault:
                        truncate(self.cols, self.cols, row)
                        if put_null(self.cols, self.cols):
                            fault = NO_MEMORY
                        break
                    row += 1
            if fault == NO_MEMORY:
                self.clear()
                raise MemoryError
            if fault:
                bad[row] = self.program.describe(fault, c.failed)
                row += 1
        return self.finished(0), bad

    cdef void clear(self):
        truncate(self.cols, self.cols, 0)

    cdef object finished(self, int number):
        cdef Col *col = self.cols + number
        cdef int64_t length = col.length
        cdef int64_t nulls = col.nulls
        arrow = self.program.columns[number].arrow
        children = [self.finished(col.children[i]) for i in range(col.count)]
        validity = packed(&col.valid) if nulls else None
        col.length = col.nulls = col.valid.used = 0
        if col.storage == AS_NULL:
            return _pa.nulls(length)
        if col.storage == AS_STRUCT:
            return _pa.Array.from_buffers(arrow, length, [validity], nulls, children=children)
        if col.storage == AS_LIST or col.storage == AS_MAP:
            if col.storage == AS_MAP:
                entries = _pa.struct([arrow.key_field, arrow.item_field])
                children = [_pa.Array.from_buffers(entries, len(children[0]), [None], 0, children=children)]
            return _pa.Array.from_buffers(arrow, length, [validity, ends_taken(col)], nulls, children=children)
        if col.storage == AS_BINARY:
            return _pa.Array.from_buffers(arrow, length, [validity, ends_taken(col), taken(&col.data)], nulls)
        if col.storage == AS_BOOL:
            bits = packed(&col.values)
            col.values.used = 0
            return _pa.Array.from_buffers(arrow, length, [validity, bits], nulls)
        return _pa.Array.from_buffers(arrow, length, [validity, taken(&col.values)], nulls)
