# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decoding of JSON texts into Arrow arrays in C: the native version of json_reference.py."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memset

from moldau.connect._json_buffer cimport Buffer, put, release
from moldau.connect._json_decimals cimport decimal_of_number, decode_bytes
from moldau.connect._json_nodes cimport (
    ANY,
    BOOL,
    BYTES,
    DECIMAL,
    INT,
    LIST,
    MAP,
    OBJECT,
    REAL,
    TEXT,
    VALID,
    Node,
    finish,
    new_node,
    pad,
    put_end,
    put_null,
    put_state,
    put_text,
    reset,
    set_kind,
    to_reals,
    truncate,
    typed_node,
)
from moldau.connect._json_scan cimport (
    BAD,
    CONFLICT,
    OK,
    Cursor,
    Number,
    Span,
    bad,
    expect_literal,
    number_value,
    scan_name,
    scan_number,
    scan_string,
    skip_space,
    skip_value,
)

import pyarrow as pa

from moldau.connect.json_layout import EXACT_INTEGERS, MAX_FIELDS, MAX_SPLITS, describe

cdef const char* NO_ENVELOPE = (
    b"no object with the fields schema and payload and no others; "
    b"for JSON without schemas set schemas.enable=false in the converter's settings"
)
cdef int _max_fields = MAX_FIELDS
cdef int64_t _exact = EXACT_INTEGERS


cdef class Parser:
    cdef Cursor c
    cdef Buffer scratch
    cdef Node culprit

    def __dealloc__(self):
        release(&self.scratch)

    cdef int conflict(self, Node node) noexcept:
        self.culprit = node
        return CONFLICT

    cdef int want(self, Node node, int kind) except -1:
        if node.kind == kind:
            return OK
        if node.typed:
            return bad(&self.c, b"value does not have the type of the schema")
        if node.valid == 0:
            set_kind(node, kind)
            return OK
        return self.conflict(node)

    cdef int value(self, Node node, Py_ssize_t at) except -1:
        """Append the value at the cursor to a node, as its entry `at`."""
        cdef Cursor* c = &self.c
        cdef const char* first
        cdef Span span
        cdef char one
        pad(node, at)
        if c.p >= c.end:
            return bad(c, b"unexpected end of the text")
        one = c.p[0]
        if one == 110:
            if expect_literal(c, b"null", 4) != OK:
                return BAD
            if node.required:
                return bad(c, b"null for a required value")
            return put_null(node)
        if node.kind == ANY:
            first = c.p
            if skip_value(c, &self.scratch, node.depth) != OK:
                return BAD
            return put_text(node, first, c.p - first)
        if one == 34:
            if scan_string(c, &self.scratch, &span) != OK:
                return BAD
            if node.kind == BYTES or node.kind == DECIMAL:
                return decode_bytes(c, node, span)
            if node.kind != TEXT and (result := self.want(node, TEXT)) != OK:
                return result
            return put_text(node, span.data, span.size)
        if one == 123:
            return self.entries(node) if node.kind == MAP else self.fields(node, at)
        if one == 91:
            return self.pairs(node) if node.kind == MAP else self.elements(node)
        if one == 116 or one == 102:
            return self.truth(node, one == 116)
        return self.number(node)

    cdef int truth(self, Node node, bint value) except -1:
        cdef int64_t slot = value
        cdef int result = expect_literal(&self.c, b"true", 4) if value else expect_literal(&self.c, b"false", 5)
        if result == OK:
            result = self.want(node, BOOL)
        if result != OK:
            return result
        put(&node.values, <char*>&slot, 8)
        return put_state(node, VALID)

    cdef int number(self, Node node) except -1:
        cdef Number number
        cdef double real
        cdef int result
        if scan_number(&self.c, &number) != OK:
            return BAD
        if node.kind == DECIMAL:
            return decimal_of_number(&self.c, node, &number)
        if node.typed:
            return self.typed_number(node, &number)
        if number.integral:
            if node.kind != REAL or node.valid == 0:
                if (result := self.want(node, INT)) != OK:
                    return result
                put(&node.values, <char*>&number.integer, 8)
                return put_state(node, VALID)
            if not number.exact or not -_exact <= number.integer <= _exact:
                return self.conflict(node)
            node.mixed = True
            real = <double>number.integer
        else:
            if node.kind == INT and node.valid:
                if not to_reals(node):
                    return self.conflict(node)
            elif (result := self.want(node, REAL)) != OK:
                return result
            real = number_value(&number)
        put(&node.values, <char*>&real, 8)
        return put_state(node, VALID)

    cdef int typed_number(self, Node node, Number* number) except -1:
        """A number for a schema of numbers. Integers keep their low bits, fractions are cut, as in Kafka."""
        cdef double real
        cdef int64_t integer = number.integer
        if node.kind == REAL:
            real = number_value(number)
            put(&node.values, <char*>&real, 8)
            return put_state(node, VALID)
        if node.kind != INT or (node.integral_only and not number.integral):
            return bad(&self.c, b"value does not have the type of the schema")
        if not number.integral:
            real = number_value(number)
            if not -9.2e18 < real < 9.2e18:
                return bad(&self.c, b"number is too large for the schema")
            integer = <int64_t>real
        if node.time_of_day and not 0 <= integer < 86400000:
            return bad(&self.c, b"time is not within a day")
        if node.integral_only and node.arrow.bit_width == 32 and not -2147483648 <= integer <= 2147483647:
            return bad(&self.c, b"number is too large for the schema")
        put(&node.values, <char*>&integer, 8)
        return put_state(node, VALID)

    cdef int fields(self, Node node, Py_ssize_t at) except -1:
        """The object at the cursor."""
        cdef Cursor* c = &self.c
        cdef Span span
        cdef Node child
        cdef int result
        if (result := self.want(node, OBJECT)) != OK:
            return result
        put_state(node, VALID)
        node.guess = 0
        c.p += 1
        skip_space(c)
        if c.p < c.end and c.p[0] == 125:
            c.p += 1
            return self.complete(node, at)
        while True:
            if scan_name(c, &self.scratch, &span) != OK:
                return BAD
            child = find(node, span)
            if child is not None:
                if child.length > at:  # the last of two fields of the same name counts
                    truncate(child, at)
                result = self.value(child, at)
            elif node.typed:
                result = skip_value(c, &self.scratch, node.depth)
            else:
                result = self.conflict(node)
            if result != OK:
                return result
            skip_space(c)
            if c.p >= c.end:
                return bad(c, b"unexpected end of the text")
            if c.p[0] == 125:
                c.p += 1
                return self.complete(node, at)
            if c.p[0] != 44:
                return bad(c, b"expected a comma or the end of the object")
            c.p += 1
            skip_space(c)

    cdef int complete(self, Node node, Py_ssize_t at) except -1:
        """Every required field of a struct is there."""
        cdef Node child
        if node.typed:
            for one in node.children:
                child = <Node>one
                if child.required and child.length <= at:
                    return bad(&self.c, b"a required field is missing")
        return OK

    cdef int elements(self, Node node) except -1:
        """The array at the cursor."""
        cdef Cursor* c = &self.c
        cdef int result
        cdef Py_ssize_t last = node.length
        if (result := self.want(node, LIST)) != OK:
            return result
        put_end(node, node.item.length)
        put_state(node, VALID)
        c.p += 1
        skip_space(c)
        if c.p < c.end and c.p[0] == 93:
            c.p += 1
            return OK
        while True:
            if (result := self.value(node.item, node.item.length)) != OK:
                return result
            skip_space(c)
            if c.p >= c.end:
                return bad(c, b"unexpected end of the text")
            if c.p[0] == 93:
                break
            if c.p[0] != 44:
                return bad(c, b"expected a comma or the end of the array")
            c.p += 1
            skip_space(c)
        c.p += 1
        (<int32_t*>node.values.data)[last] = <int32_t>node.item.length
        return OK

    cdef int entries(self, Node node) except -1:
        """The object at the cursor, as a map with strings as keys."""
        cdef Cursor* c = &self.c
        cdef Span span
        cdef int result
        cdef Py_ssize_t last = node.length
        if not node.text_keys:
            return bad(c, b"value does not have the type of the schema")
        put_end(node, node.item.length)
        put_state(node, VALID)
        c.p += 1
        skip_space(c)
        while c.p < c.end and c.p[0] != 125:
            if scan_name(c, &self.scratch, &span) != OK:
                return BAD
            put_text(node.key, span.data, span.size)
            if (result := self.value(node.item, node.item.length)) != OK:
                return result
            skip_space(c)
            if c.p < c.end and c.p[0] == 44:
                c.p += 1
                skip_space(c)
                if c.p < c.end and c.p[0] == 125:
                    return bad(c, b"expected the name of a field in double quotes")
            elif c.p >= c.end or c.p[0] != 125:
                return bad(c, b"expected a comma or the end of the object")
        if c.p >= c.end:
            return bad(c, b"unexpected end of the text")
        c.p += 1
        (<int32_t*>node.values.data)[last] = <int32_t>node.item.length
        return bad(c, b"two entries of a map have the same key") if has_equal_keys(node, last) else OK

    cdef int pairs(self, Node node) except -1:
        """The array of arrays at the cursor, as a map whose keys are no strings."""
        cdef Cursor* c = &self.c
        cdef int result
        cdef Py_ssize_t last = node.length
        if node.text_keys:
            return bad(c, b"value does not have the type of the schema")
        put_end(node, node.item.length)
        put_state(node, VALID)
        result = self.after(91)
        while result == OK and c.p < c.end and c.p[0] != 93:
            if (result := self.after(91)) != OK or (result := self.value(node.key, node.key.length)) != OK:
                return result
            skip_space(c)
            if (result := self.after(44)) != OK or (result := self.value(node.item, node.item.length)) != OK:
                return result
            skip_space(c)
            if (result := self.after(93)) != OK:
                return result
            if c.p < c.end and c.p[0] != 93 and (result := self.after(44)) == OK and (c.p >= c.end or c.p[0] == 93):
                return bad(c, b"expected an array with a key and a value")
        if result == OK:
            result = self.after(93)
        (<int32_t*>node.values.data)[last] = <int32_t>node.item.length
        return result

    cdef int after(self, char expected) noexcept:
        if self.c.p >= self.c.end or self.c.p[0] != expected:
            return bad(&self.c, b"expected an array with a key and a value")
        self.c.p += 1
        skip_space(&self.c)
        return OK

    cdef int row(self, Node root, Py_ssize_t at, const char* data, Py_ssize_t size) except -1:
        cdef int result
        self.c.start = self.c.p = data
        self.c.end = data + size
        if size >= 3 and memcmp(data, b"\xef\xbb\xbf", 3) == 0:  # a byte order mark
            self.c.p += 3
        skip_space(&self.c)
        if self.c.p == self.c.end and not root.required:  # Kafka takes an empty text for null
            pad(root, at)
            return put_null(root)
        result = self.value(root, at)
        if result == OK:
            skip_space(&self.c)
            if self.c.p < self.c.end:
                return bad(&self.c, b"text after the end of the value")
        return result

    cdef int envelope(self, Span text, Span* schema, Span* payload) except -1:
        """The schema and the payload of a row, as texts."""
        cdef Cursor* c = &self.c
        cdef Span name
        cdef Span* found
        cdef const char* first
        c.start = c.p = text.data
        c.end = text.data + text.size
        schema.data = payload.data = NULL
        skip_space(c)
        if c.p >= c.end or c.p[0] != 123:
            return bad(c, NO_ENVELOPE)
        c.p += 1
        skip_space(c)
        while True:
            if scan_name(c, &self.scratch, &name) != OK:
                return bad(c, NO_ENVELOPE) if c.p < c.end and c.p[0] == 125 else BAD
            found = NULL
            if name.size == 6 and memcmp(name.data, b"schema", 6) == 0:
                found = schema
            elif name.size == 7 and memcmp(name.data, b"payload", 7) == 0:
                found = payload
            first = c.p
            if skip_value(c, &self.scratch, 1) != OK:
                return BAD
            if found == NULL:
                return bad(c, NO_ENVELOPE)
            found.data = first
            found.size = c.p - first
            skip_space(c)
            if c.p < c.end and c.p[0] == 125:
                break
            if c.p >= c.end or c.p[0] != 44:
                return bad(c, b"expected a comma or the end of the object")
            c.p += 1
            skip_space(c)
        c.p += 1
        skip_space(c)
        if c.p < c.end:
            return bad(c, b"text after the end of the value")
        return OK if schema.data != NULL and payload.data != NULL else bad(c, NO_ENVELOPE)

    cdef object reason(self):
        return describe(self.c.reason.decode(), self.c.p - self.c.start)


cdef bint has_equal_keys(Node node, Py_ssize_t entry) except -1:
    """Whether two keys of a map are the same text."""
    cdef const int32_t* ends = <const int32_t*>node.values.data
    cdef Py_ssize_t first = ends[entry - 1] if entry else 0
    cdef Py_ssize_t count = ends[entry] - first, i, begin
    cdef const int32_t* keys = <const int32_t*>node.key.values.data
    if count < 2:
        return False
    seen = set()
    for i in range(first, first + count):
        begin = keys[i - 1] if i else 0
        seen.add(PyBytes_FromStringAndSize(node.key.data.data + begin, keys[i] - begin))
    return len(seen) < count


cdef Node find(Node node, Span span):
    """The child for a field; None if a schemaless object cannot have it, or the schema does not know it."""
    cdef Node child
    cdef Py_ssize_t count = len(node.children)
    cdef bytes name
    if node.guess < count:  # most rows have their fields in the same order
        child = <Node>node.children[node.guess]
        if len(child.name) == span.size and memcmp(<char*>child.name, span.data, span.size) == 0:
            node.guess += 1
            return child
    name = PyBytes_FromStringAndSize(span.data, span.size)
    found = node.by_name.get(name)
    if found is not None:
        node.guess = <int>found + 1
        return <Node>node.children[<int>found]
    if node.typed or count >= _max_fields or name[:1] == b"\0":
        return None
    child = new_node(name, node.depth + 1)
    node.by_name[name] = count
    node.children.append(child)
    node.guess = <int>count + 1
    return child




# -- entry points --------------------------------------------------------------------------------------------------------


cdef class Rows:
    """The texts of a binary array."""

    cdef object array
    cdef const int32_t* offsets
    cdef const char* data
    cdef const uint8_t* validity
    cdef Py_ssize_t first, count

    def __init__(self, array):
        validity, offsets, data = array.buffers()
        self.array = array
        self.first = array.offset
        self.count = len(array)
        self.validity = NULL if validity is None else <const uint8_t*><uintptr_t>validity.address
        self.offsets = NULL if offsets is None else <const int32_t*><uintptr_t>offsets.address
        self.data = NULL if data is None else <const char*><uintptr_t>data.address

    cdef bint is_null(self, Py_ssize_t row) noexcept:
        cdef Py_ssize_t at = self.first + row
        return self.validity != NULL and not (self.validity[at >> 3] >> (at & 7)) & 1

    cdef Span span(self, Py_ssize_t row) noexcept:
        cdef Span span
        cdef Py_ssize_t at = self.first + row
        span.data = self.data + self.offsets[at]
        span.size = self.offsets[at + 1] - self.offsets[at]
        return span


def decode(array, int max_splits=MAX_SPLITS):
    """The runs of rows that fit one Arrow type, and the reasons of bad rows by their number."""
    cdef Rows rows = Rows(array)
    cdef Parser parser = Parser()
    cdef Node root = new_node(None, 0)
    cdef Py_ssize_t row = 0
    cdef Span span
    cdef int result
    runs = []
    errors = {}
    while row < rows.count:
        if rows.is_null(row):
            put_null(root)
            row += 1
            continue
        span = rows.span(row)
        first = root.length
        result = parser.row(root, first, span.data, span.size)
        if result == OK:
            row += 1
            continue
        truncate(root, first)
        if result == BAD:
            errors[row] = parser.reason()
            put_null(root)  # the caller drops all runs if there is a bad row
            row += 1
            continue
        if first:
            runs.append(finish(root))
        parser.culprit.conflicts += 1
        restart(root, parser.culprit, not first or parser.culprit.conflicts > max_splits)
    runs.append(finish(root))
    return runs, errors


cdef int restart(Node root, Node culprit, bint as_text) except -1:
    """Begin a new run at a row that does not fit the last one. What differs too often is kept as JSON text."""
    reset(root)
    if as_text:
        set_kind(culprit, ANY)
    culprit.children = []
    culprit.by_name = {}
    return 0


def decode_typed(array, schema, bint replace_null):
    """The Arrow array of values of a schema, and the reasons of bad rows by their number."""
    cdef Rows rows = Rows(array)
    cdef Parser parser = Parser()
    cdef Node root = typed_node(schema, None, replace_null)
    cdef Py_ssize_t row
    cdef Span span
    errors = {}
    for row in range(rows.count):
        if rows.is_null(row):
            put_null(root)
            continue
        span = rows.span(row)
        if parser.row(root, row, span.data, span.size) != OK:
            errors[row] = parser.reason()
            truncate(root, row)
            put_null(root)
    return finish(root), errors


def split_envelopes(array):
    """The payloads of all rows, the schema texts of runs of rows as (first row, text), and the reasons of bad rows.

    A row that is null belongs to the run before it.
    """
    cdef Rows rows = Rows(array)
    cdef Parser parser = Parser()
    cdef Span schema, payload, last
    cdef Buffer data, ends
    cdef Py_ssize_t row
    cdef int32_t end = 0
    cdef int result
    memset(&data, 0, sizeof(Buffer))
    memset(&ends, 0, sizeof(Buffer))
    last.data = NULL
    last.size = -1
    runs = []
    errors = {}
    missing = []
    try:
        put(&ends, <char*>&end, 4)
        for row in range(rows.count):
            payload.size = 0
            if rows.is_null(row):
                missing.append(row)
            else:
                result = parser.envelope(rows.span(row), &schema, &payload)
                if result != OK:
                    errors[row] = parser.reason()
                    payload.size = 0
                elif schema.size != last.size or memcmp(schema.data, last.data, schema.size) != 0:
                    runs.append((row if runs else 0, PyBytes_FromStringAndSize(schema.data, schema.size)))
                    last = schema
            put(&data, payload.data, payload.size)
            end = <int32_t>data.size
            put(&ends, <char*>&end, 4)
        buffers = [
            pa.py_buffer(PyBytes_FromStringAndSize(ends.data, ends.size)),
            pa.py_buffer(PyBytes_FromStringAndSize(data.data, data.size)),
        ]
    finally:
        release(&data)
        release(&ends)
    validity = array.is_valid().buffers()[1] if missing else None
    payloads = pa.Array.from_buffers(pa.binary(), rows.count, [validity, *buffers])
    return payloads, runs, errors
