"""Readable encoder of Avro columns: the reference twin of `_encode.pyx`, which `columns.py` prefers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from moldau.records.arrow import require_pyarrow
from moldau.schemas.avro_columns.default_data import varint
from moldau.schemas.avro_columns.encode_plan import EncodeFault, EncodeNode, EncodeOp

if TYPE_CHECKING:
    import pyarrow as pa


def encode(root: EncodeNode, prefix: bytes) -> tuple[pa.Array, dict[int, str]]:
    """The Avro data of each row (binary) after a prefix, and the reasons of bad rows, which are null.

    A null row stays null.
    """
    rows: list[bytes | None] = []
    bad: dict[int, str] = {}
    writer = _RowWriter()
    for number in range(len(root.array)):
        if not root.array[number].is_valid and root.op is not EncodeOp.NULL:
            rows.append(None)
            continue
        try:
            rows.append(prefix + writer.written(root, number))
        except _BadRow as error:
            rows.append(None)
            bad[number] = error.node.describe(error.fault)
    return require_pyarrow().array(rows, require_pyarrow().binary()), bad


class _BadRow(Exception):
    def __init__(self, node: EncodeNode, fault: EncodeFault) -> None:
        self.node = node
        self.fault = fault


class _RowWriter:
    def written(self, node: EncodeNode, at: int) -> bytes:
        """The data of entry `at` of a column."""
        if node.op is EncodeOp.CONSTANT:
            return node.data
        is_null = node.op is EncodeOp.NULL or not node.array[at].is_valid
        if is_null:
            if node.null_branch >= 0:
                return varint(node.null_branch)
            if node.op is EncodeOp.NULL:
                return b""
            raise _BadRow(node, EncodeFault.NO_VALUE)
        if node.op is EncodeOp.UNION:
            return self._branch(node, at)
        branch = varint(node.value_branches[0]) if node.value_branches else b""
        return branch + self._value(node, at)

    def _branch(self, node: EncodeNode, at: int) -> bytes:
        set_ones = [i for i, one in enumerate(node.children) if one.array[at].is_valid]
        if not set_ones and node.null_branch >= 0:
            return varint(node.null_branch)
        if len(set_ones) != 1:
            raise _BadRow(node, EncodeFault.MANY_BRANCHES if set_ones else EncodeFault.NO_BRANCH)
        return varint(node.value_branches[set_ones[0]]) + self.written(node.children[set_ones[0]], at)

    def _value(self, node: EncodeNode, at: int) -> bytes:
        match node.op:
            case EncodeOp.RECORD:
                return b"".join(self.written(one, at) for one in node.children)
            case EncodeOp.ARRAY | EncodeOp.MAP:
                return self._items(node, at)
        value = node.array[at].as_py()
        match node.op:
            case EncodeOp.BOOL:
                return b"\1" if value else b"\0"
            case EncodeOp.INT | EncodeOp.LONG:
                return varint(value)
            case EncodeOp.FLOAT:
                return struct.pack("<f", value)
            case EncodeOp.DOUBLE:
                return struct.pack("<d", value)
            case EncodeOp.FIXED:
                return bytes(value)
            case EncodeOp.ENUM:
                if value < 0:
                    raise _BadRow(node, EncodeFault.NO_SYMBOL)
                return varint(value)
            case EncodeOp.DECIMAL | EncodeOp.FIXED_DECIMAL:
                return self._decimal(node, value)
        data = value.encode() if isinstance(value, str) else value
        return varint(len(data)) + data

    def _decimal(self, node: EncodeNode, value: Any) -> bytes:
        sign, digits, _ = value.as_tuple()  # Arrow's scale is the schema's
        unscaled = int("".join(map(str, digits)))
        unscaled = -unscaled if sign else unscaled
        if node.op is EncodeOp.FIXED_DECIMAL:
            try:
                return unscaled.to_bytes(node.size, "big", signed=True)
            except OverflowError:
                raise _BadRow(node, EncodeFault.LARGE_DECIMAL) from None
        bits = unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()
        data = unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
        return varint(len(data)) + data

    def _items(self, node: EncodeNode, at: int) -> bytes:
        first, stop = node.array.offsets[at].as_py(), node.array.offsets[at + 1].as_py()
        if first == stop:
            return b"\0"
        items = b"".join(self.written(one, i) for i in range(first, stop) for one in node.children)
        return varint(stop - first) + items + b"\0"
