# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Encoding of Arrow columns into Avro data in C: the native version of encode_reference.py.

The nodes of a plan become an array of structs with the addresses of Arrow's buffers. The loop over rows runs without the
GIL and writes into one growing buffer; a row that fails halfway is cut off again.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from moldau.schemas.avro_columns._arrow_memory cimport packed, taken
from moldau.schemas.avro_columns._growing_columns cimport Growing, room_for

import pyarrow as _pa

from moldau.schemas.avro_columns.encode_plan import EncodeFault, EncodeOp

cdef enum:
    OP_NULL = 0
    OP_BOOL = 1
    OP_INT = 2
    OP_LONG = 3
    OP_FLOAT = 4
    OP_DOUBLE = 5
    OP_BYTES = 6
    OP_FIXED = 7
    OP_ENUM = 8
    OP_DECIMAL = 9
    OP_FIXED_DECIMAL = 10
    OP_RECORD = 11
    OP_ARRAY = 12
    OP_MAP = 13
    OP_UNION = 14
    OP_CONSTANT = 15

cdef enum:
    OK = 0
    NO_VALUE = 1
    NO_SYMBOL = 2
    NO_BRANCH = 3
    MANY_BRANCHES = 4
    LARGE_DECIMAL = 5
    COLUMN_FULL = 6
    NO_MEMORY = 100

# The numbers above are those of the enums in Python. A change on one side only fails here, at import.
assert [one.name for one in EncodeOp] == [
    "NULL", "BOOL", "INT", "LONG", "FLOAT", "DOUBLE", "BYTES", "FIXED", "ENUM", "DECIMAL", "FIXED_DECIMAL", "RECORD",
    "ARRAY", "MAP", "UNION", "CONSTANT",
]
assert EncodeFault.COLUMN_FULL == COLUMN_FULL


cdef struct Node:
    int op
    int number
    int count  # of children
    Node **children
    const uint8_t *valid  # NULL: no entry is null
    int64_t start  # the array's offset, for bitmaps
    const uint8_t *values  # moved by the array's offset, except bitmaps
    const uint8_t *data
    int64_t size
    int64_t *branches
    int branch_count
    int64_t null_branch


cdef struct Out:
    Growing buffer
    int failed


cdef inline bint is_valid(Node *node, int64_t at) noexcept nogil:
    at += node.start
    return node.valid == NULL or node.valid[at >> 3] >> (at & 7) & 1


cdef inline int put_varint(Growing *out, int64_t number) noexcept nogil:
    cdef uint64_t left = <uint64_t>number << 1 ^ <uint64_t>(number >> 63)
    cdef uint8_t *p
    if room_for(out, 10):
        return NO_MEMORY
    p = out.data + out.used
    while left > 0x7F:
        p[0] = <uint8_t>(left | 0x80)
        p += 1
        left >>= 7
    p[0] = <uint8_t>left
    out.used = p + 1 - out.data
    return OK


cdef inline int put_data(Growing *out, const void *data, int64_t size) noexcept nogil:
    if size == 0:
        return OK
    if out.used + size > INT32_MAX:
        return COLUMN_FULL
    if room_for(out, size):
        return NO_MEMORY
    memcpy(out.data + out.used, data, size)
    out.used += size
    return OK


cdef int put_decimal(Growing *out, Node *node, const uint8_t *value) noexcept nogil:
    """16 bytes, little-endian, as the fewest big-endian bytes, or as many as the fixed type has."""
    cdef uint8_t turned[16]
    cdef uint8_t sign = 0xFF if value[15] & 0x80 else 0
    cdef int first = 0
    cdef int i
    for i in range(16):
        turned[i] = value[15 - i]
    while first < 15 and turned[first] == sign and (turned[first + 1] ^ sign) & 0x80 == 0:
        first += 1
    if node.op == OP_DECIMAL:
        if put_varint(out, 16 - first):
            return NO_MEMORY
        return put_data(out, turned + first, 16 - first)
    if node.size < 16 - first:
        return LARGE_DECIMAL
    if room_for(out, node.size):
        return NO_MEMORY
    memset(out.data + out.used, sign, node.size)
    memcpy(out.data + out.used + node.size - (16 - first), turned + first, 16 - first)
    out.used += node.size
    return OK


cdef int write(Out *out, Node *node, int64_t at) noexcept nogil:
    cdef int fault = write_entry(out, node, at)
    if fault and out.failed < 0:
        out.failed = node.number
    return fault


cdef int write_entry(Out *out, Node *node, int64_t at) noexcept nogil:
    cdef Growing *buffer = &out.buffer
    if node.op == OP_CONSTANT:
        return put_data(buffer, node.data, node.size)
    if node.op == OP_NULL or not is_valid(node, at):
        if node.null_branch >= 0:
            return put_varint(buffer, node.null_branch)
        return OK if node.op == OP_NULL else NO_VALUE
    if node.op == OP_UNION:
        return write_branch(out, node, at)
    if node.branch_count and put_varint(buffer, node.branches[0]):
        return NO_MEMORY
    return write_value(out, node, at)


cdef int write_branch(Out *out, Node *node, int64_t at) noexcept nogil:
    cdef int found = -1
    cdef int i
    for i in range(node.count):
        if is_valid(node.children[i], at):
            if found >= 0:
                return MANY_BRANCHES
            found = i
    if found < 0:
        return NO_BRANCH if node.null_branch < 0 else put_varint(&out.buffer, node.null_branch)
    if put_varint(&out.buffer, node.branches[found]):
        return NO_MEMORY
    return write(out, node.children[found], at)


cdef int write_value(Out *out, Node *node, int64_t at) noexcept nogil:
    cdef Growing *buffer = &out.buffer
    cdef int32_t first, stop
    cdef int64_t number
    cdef int op = node.op
    cdef int fault
    cdef int i
    if op == OP_BYTES:
        first = (<const int32_t *>node.values)[at]
        stop = (<const int32_t *>node.values)[at + 1]
        if put_varint(buffer, stop - first):
            return NO_MEMORY
        return put_data(buffer, node.data + first, stop - first)
    elif op == OP_LONG:
        return put_varint(buffer, (<const int64_t *>node.values)[at])
    elif op == OP_INT:
        return put_varint(buffer, (<const int32_t *>node.values)[at])
    elif op == OP_DOUBLE:
        return put_data(buffer, node.values + 8 * at, 8)
    elif op == OP_RECORD:
        for i in range(node.count):
            fault = write(out, node.children[i], at)
            if fault:
                return fault
        return COLUMN_FULL if buffer.used > INT32_MAX else OK
    elif op == OP_BOOL:
        number = node.start + at
        if room_for(buffer, 1):
            return NO_MEMORY
        buffer.data[buffer.used] = node.values[number >> 3] >> (number & 7) & 1
        buffer.used += 1
        return OK
    elif op == OP_FLOAT:
        return put_data(buffer, node.values + 4 * at, 4)
    elif op == OP_FIXED:
        return put_data(buffer, node.values + node.size * at, node.size)
    elif op == OP_ENUM:
        number = (<const int32_t *>node.values)[at]
        return NO_SYMBOL if number < 0 else put_varint(buffer, number)
    elif op == OP_DECIMAL or op == OP_FIXED_DECIMAL:
        return put_decimal(buffer, node, node.values + 16 * at)
    return write_items(out, node, at)


cdef int write_items(Out *out, Node *node, int64_t at) noexcept nogil:
    cdef int32_t first = (<const int32_t *>node.values)[at]
    cdef int32_t stop = (<const int32_t *>node.values)[at + 1]
    cdef int32_t item
    cdef int fault
    cdef int i
    if stop > first:
        if put_varint(&out.buffer, stop - first):
            return NO_MEMORY
        for item in range(first, stop):
            for i in range(node.count):
                fault = write(out, node.children[i], item)
                if fault:
                    return fault
    return put_varint(&out.buffer, 0)


cdef class Plan:
    """The nodes of a plan, and the Python objects to which they point."""

    cdef list kept
    cdef list found
    cdef Node *nodes
    cdef int count

    def __cinit__(self, root):
        self.kept = []
        self.found = []
        collect(root, self.found)
        self.count = len(self.found)
        self.nodes = <Node *>calloc(self.count, sizeof(Node))
        if self.nodes == NULL:
            raise MemoryError
        numbers = {id(one): i for i, one in enumerate(self.found)}
        for i, one in enumerate(self.found):
            self.fill(self.nodes + <int>i, one, i, numbers)

    def __dealloc__(self):
        cdef int i
        if self.nodes != NULL:
            for i in range(self.count):
                free(self.nodes[i].children)
                free(self.nodes[i].branches)
        free(self.nodes)

    cdef int fill(self, Node *node, found, int number, numbers) except -1:
        node.op = found.op
        node.number = number
        node.size = found.size
        node.null_branch = found.null_branch
        node.count = len(found.children)
        node.branch_count = len(found.value_branches)
        node.children = <Node **>calloc(node.count + 1, sizeof(Node *))
        node.branches = <int64_t *>calloc(node.branch_count + 1, sizeof(int64_t))
        if node.children == NULL or node.branches == NULL:
            raise MemoryError
        for i, child in enumerate(found.children):
            node.children[i] = self.nodes + <int>numbers[id(child)]
        for i, branch in enumerate(found.value_branches):
            node.branches[i] = branch
        if found.op == OP_CONSTANT:
            self.kept.append(found.data)
            node.data = <const uint8_t *><const char *>found.data
            node.size = len(found.data)
        elif found.op != OP_NULL:
            self.point(node, found.array)
        return 0

    cdef int point(self, Node *node, array) except -1:
        cdef int width = 0
        buffers = array.buffers()
        self.kept.append(buffers)
        node.start = array.offset
        if buffers[0] is not None and array.null_count:
            node.valid = <const uint8_t *><uintptr_t>buffers[0].address
        if len(buffers) < 2 or buffers[1] is None:
            return 0
        node.values = <const uint8_t *><uintptr_t>buffers[1].address
        if node.op == OP_RECORD or node.op == OP_UNION:
            node.values = NULL
        elif node.op == OP_DECIMAL or node.op == OP_FIXED_DECIMAL:
            width = 16
        elif node.op == OP_FIXED:
            width = node.size
        elif node.op == OP_LONG or node.op == OP_DOUBLE:
            width = 8
        elif node.op != OP_BOOL:
            width = 4
        node.values += width * node.start
        if node.op == OP_BYTES and buffers[2] is not None:
            node.data = <const uint8_t *><uintptr_t>buffers[2].address
        return 0


cdef void collect(node, list found):
    found.append(node)
    for one in node.children:
        collect(one, found)


def encode(root, bytes prefix):
    """See encode_reference.encode."""
    cdef Plan plan = Plan(root)
    cdef int64_t rows = len(root.array)
    cdef int64_t row = 0
    cdef int64_t begin = 0
    cdef int64_t nulls = 0
    cdef Growing offsets, valid
    cdef Out out
    cdef const uint8_t *before = <const uint8_t *><const char *>prefix
    cdef int64_t before_size = len(prefix)
    cdef bint is_set
    cdef int fault = OK
    memset(&out, 0, sizeof(Out))
    memset(&offsets, 0, sizeof(Growing))
    memset(&valid, 0, sizeof(Growing))
    bad = {}
    try:
        if room_for(&offsets, 4 * (rows + 1)) or room_for(&valid, rows) or room_for(&out.buffer, 16 * rows):
            raise MemoryError
        (<int32_t *>offsets.data)[0] = 0
        while row < rows:
            with nogil:
                while row < rows:
                    fault = OK
                    begin = out.buffer.used
                    is_set = plan.nodes.op == OP_NULL or is_valid(plan.nodes, row)
                    if is_set:
                        out.failed = -1
                        fault = put_data(&out.buffer, before, before_size)
                        if fault:
                            out.failed = 0
                        else:
                            fault = write(&out, plan.nodes, row)
                        if fault == OK and out.buffer.used > INT32_MAX:
                            fault = COLUMN_FULL
                            out.failed = 0
                        if fault:
                            out.buffer.used = begin
                            is_set = False
                    nulls += not is_set
                    valid.data[row] = is_set
                    row += 1
                    (<int32_t *>offsets.data)[row] = <int32_t>out.buffer.used
                    if fault:
                        break
            if fault == NO_MEMORY:
                raise MemoryError
            if fault:
                bad[row - 1] = plan.found[out.failed].describe(fault)
        valid.used = rows
        offsets.used = 4 * (rows + 1)
        validity = packed(&valid) if nulls else None
        buffers = [validity, taken(&offsets), taken(&out.buffer)]
        return _pa.Array.from_buffers(_pa.binary(), rows, buffers, nulls), bad
    finally:
        free(offsets.data)
        free(valid.data)
        free(out.buffer.data)
