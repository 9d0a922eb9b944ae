# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Columns that grow while rows of JSON are read, and their Arrow arrays.

A tree of nodes mirrors the fields of the rows that were read. A node appends one entry per value; a field that is
missing in some rows is filled up when it appears again, so that a row costs only what it contains. Every container
appends its own entry before those of its children: `truncate` therefore undoes a row that was read in part.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from moldau.connect._json_buffer cimport Buffer, put_zeros, release

import pyarrow as pa

from moldau.connect import schemas as _schemas
from moldau.connect.json_layout import EXACT_INTEGERS, MAX_DEPTH
from moldau.connect.record_batch import MIXED_NUMBERS, null_mark

cdef int _max_depth = MAX_DEPTH
cdef int64_t _exact = EXACT_INTEGERS


_TYPED = {
    "boolean": BOOL, "int8": INT, "int16": INT, "int32": INT, "int64": INT, "float": REAL, "double": REAL,
    "string": TEXT, "bytes": BYTES, "array": LIST, "map": MAP, "struct": OBJECT,
}


cdef class Node:
    def __cinit__(self):
        self.children = []
        self.by_name = {}

    def __dealloc__(self):
        release(&self.states)
        release(&self.values)
        release(&self.data)


cdef Node new_node(bytes name, int depth):
    cdef Node node = Node()
    node.name = name
    node.depth = depth
    if depth > _max_depth:
        node.kind = ANY
    return node


cdef Node typed_node(schema, bytes name, bint replace_null):
    """The node of a schema."""
    cdef Node node = Node()
    node.typed = True
    node.name = name
    node.arrow = _schemas.arrow_type(schema)
    node.default = schema.default if replace_null else None
    node.required = not schema.optional and node.default is None
    node.kind = _TYPED[schema.type.value]
    if schema.name == _schemas.DECIMAL:
        node.kind = DECIMAL
        node.scale = node.arrow.scale
        node.precision = node.arrow.precision
    elif schema.name in (_schemas.DATE, _schemas.TIME, _schemas.TIMESTAMP):
        node.kind = INT
        node.integral_only = True
        node.time_of_day = schema.name == _schemas.TIME
    elif node.kind == LIST:
        node.item = typed_node(schema.value_schema, None, replace_null)
    elif node.kind == MAP:
        node.key = typed_node(schema.key_schema, None, replace_null)
        node.item = typed_node(schema.value_schema, None, replace_null)
        node.text_keys = schema.key_schema.type.value == "string"
    elif node.kind == OBJECT:
        for field in schema.fields:
            child = typed_node(field.schema, field.name.encode(), replace_null)
            node.by_name[child.name] = len(node.children)
            node.children.append(child)
    return node


# -- appending and undoing -----------------------------------------------------------------------------------------------


cdef int put_ends(Node node, Py_ssize_t end, Py_ssize_t times) except -1:
    cdef Py_ssize_t i
    for i in range(times):
        put_end(node, end)
    return 0


cdef int fill(Node node, Py_ssize_t times) except -1:
    """Values for entries without one."""
    if node.kind == BOOL or node.kind == INT or node.kind == REAL:
        put_zeros(&node.values, 8 * times)
    elif node.kind == TEXT or node.kind == BYTES or node.kind == ANY:
        put_ends(node, node.data.size, times)
    elif node.kind == LIST or node.kind == MAP:
        put_ends(node, 0 if node.item is None else node.item.length, times)
    elif node.kind == DECIMAL:
        put_zeros(&node.values, 16 * times)
    return 0


cdef inline Py_ssize_t end_of(Node node, Py_ssize_t entries) noexcept:
    """Where the data of the first entries ends."""
    return (<int32_t*>node.values.data)[entries - 1] if entries else 0


cdef int truncate(Node node, Py_ssize_t length) except -1:
    cdef Py_ssize_t i
    if node.length <= length:
        return 0
    for i in range(length, node.length):
        if node.states.data[i] == VALID:
            node.valid -= 1
        elif node.states.data[i] == NULL_VALUE:
            node.nulls -= 1
    node.length = length
    node.states.size = length
    if node.kind == BOOL or node.kind == INT or node.kind == REAL:
        node.values.size = 8 * length
    elif node.kind == DECIMAL:
        node.values.size = 16 * length
    elif node.kind == TEXT or node.kind == BYTES or node.kind == ANY:
        node.values.size = 4 * length
        node.data.size = end_of(node, length)
    elif node.kind == LIST or node.kind == MAP:
        node.values.size = 4 * length
        truncate(node.item, end_of(node, length))
        if node.key is not None:
            truncate(node.key, end_of(node, length))
    elif node.kind == OBJECT:
        for child in node.children:
            truncate(<Node>child, length)
    return 0


cdef int set_kind(Node node, int kind) except -1:
    """Choose the type of a node that has no values yet."""
    node.kind = kind
    node.mixed = False
    node.values.size = 0
    node.data.size = 0
    if kind == LIST:
        if node.item is None:
            node.item = new_node(None, node.depth + 1)
        truncate(node.item, 0)
    for child in node.children:
        truncate(<Node>child, 0)
    return fill(node, node.length)


cdef int reset(Node node) except -1:
    """Forget all entries, not what is known about conflicts."""
    truncate(node, 0)
    if node.kind != ANY:
        set_kind(node, UNSET)
    if node.item is not None:
        reset(node.item)
    for child in node.children:
        reset(<Node>child)
    return 0


cdef bint to_reals(Node node) noexcept:
    """Turn integers into doubles, if each of them is exact as a double."""
    cdef int64_t* integers = <int64_t*>node.values.data
    cdef double* reals = <double*>node.values.data
    cdef Py_ssize_t i
    for i in range(node.length):
        if not -_exact <= integers[i] <= _exact:
            return False
    for i in range(node.length):
        reals[i] = <double>integers[i]
    node.kind = REAL
    node.mixed = True
    return True


# -- Arrow ---------------------------------------------------------------------------------------------------------------


cdef object as_buffer(const char* data, size_t size):
    return pa.py_buffer(PyBytes_FromStringAndSize(data, size))


cdef object bits_of(Node node, char state):
    """A bitmap of the entries in a state."""
    cdef Py_ssize_t i
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, (node.length + 7) // 8)
    cdef uint8_t* bits = <uint8_t*>PyBytes_AS_STRING(packed)
    memset(bits, 0, len(packed))
    for i in range(node.length):
        bits[i >> 3] |= (node.states.data[i] == state) << (i & 7)
    return pa.py_buffer(packed)


cdef object booleans(Node node):
    cdef Py_ssize_t i
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, (node.length + 7) // 8)
    cdef uint8_t* bits = <uint8_t*>PyBytes_AS_STRING(packed)
    cdef int64_t* slots = <int64_t*>node.values.data
    memset(bits, 0, len(packed))
    for i in range(node.length):
        bits[i >> 3] |= slots[i] << (i & 7)
    return pa.py_buffer(packed)


cdef object narrowed(Node node, int width):
    """Slots of 8 bytes as numbers of fewer bytes; integers keep their low bits."""
    cdef Py_ssize_t i
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, width * node.length)
    cdef char* out = PyBytes_AS_STRING(packed)
    cdef int64_t* slots = <int64_t*>node.values.data
    for i in range(node.length):
        if node.kind == REAL:
            (<float*>out)[i] = <float>(<double*>slots)[i]
        elif width == 4:
            (<int32_t*>out)[i] = <int32_t>slots[i]
        elif width == 2:
            (<int16_t*>out)[i] = <int16_t>slots[i]
        else:
            (<int8_t*>out)[i] = <int8_t>slots[i]
    return pa.py_buffer(packed)


cdef object offsets_of(Node node):
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, 4 * (node.length + 1))
    cdef int32_t* out = <int32_t*>PyBytes_AS_STRING(packed)
    out[0] = 0
    if node.length:
        memcpy(out + 1, node.values.data, 4 * node.length)
    return pa.py_buffer(packed)


cdef object finish(Node node):
    """The Arrow array of all entries."""
    cdef int kind = node.kind if node.valid or node.typed else UNSET
    validity = bits_of(node, VALID) if node.valid < node.length else None
    arrow = node.arrow
    if kind == UNSET:
        return pa.nulls(node.length)
    if kind == OBJECT:
        return finish_object(node, validity)
    if kind == LIST or kind == MAP:
        return finish_list(node, validity)
    if kind == ANY:
        text = pa.Array.from_buffers(
            pa.string(), node.length, [validity, offsets_of(node), as_buffer(node.data.data, node.data.size)]
        )
        return pa.ExtensionArray.from_storage(pa.json_(), text)
    if kind == TEXT or kind == BYTES:
        arrow = arrow or pa.string()
        buffers = [validity, offsets_of(node), as_buffer(node.data.data, node.data.size)]
    elif kind == BOOL:
        arrow = pa.bool_()
        buffers = [validity, booleans(node)]
    else:
        if arrow is None:
            arrow = pa.int64() if kind == INT else pa.float64()
        width = arrow.bit_width // 8
        data = as_buffer(node.values.data, node.values.size) if width >= 8 else narrowed(node, width)
        buffers = [validity, data]
    array = pa.Array.from_buffers(arrow, node.length, buffers)
    if node.default is not None and validity is not None:
        array = array.fill_null(pa.scalar(node.default, arrow))
    return array


cdef object finish_list(Node node, validity):
    item = finish(node.item)
    if node.kind == MAP:
        entries = pa.struct([node.arrow.key_field, node.arrow.item_field])
        item = pa.Array.from_buffers(entries, len(item), [None], children=[finish(node.key), item])
        arrow = node.arrow
    else:
        arrow = node.arrow or pa.list_(field_of("item", node.item, item.type))
    return pa.Array.from_buffers(arrow, node.length, [validity, offsets_of(node)], children=[item])


cdef object finish_object(Node node, validity):
    cdef Node child
    fields = []
    arrays = []
    for one in node.children:
        child = <Node>one
        if not node.typed and child.valid == 0 and child.nulls == 0:
            continue
        pad(child, node.length)
        name = child.name.decode()
        array = finish(child)
        arrays.append(array)
        fields.append(field_of(name, child, array.type))
        if child.nulls and not node.typed:
            marks = [None, bits_of(child, NULL_VALUE)]
            arrays.append(pa.Array.from_buffers(pa.bool_(), node.length, marks))
            fields.append(pa.field(null_mark(name), pa.bool_()))
    arrow = node.arrow or pa.struct(fields)
    return pa.Array.from_buffers(arrow, node.length, [validity], children=arrays)


cdef object field_of(str name, Node node, arrow):
    metadata = MIXED_NUMBERS if node.mixed and node.kind == REAL else None
    return pa.field(name, arrow, metadata=metadata)
