"""JSON texts to Arrow arrays and back, for whole columns: native code if built, the reference otherwise.

Schemaless data follows record_batch.py: missing fields are null children, fields that are null have a mark. A run of
adjacent rows becomes one array; a row that does not fit the types before it begins a new one. Values without a common
Arrow type within one row, deep values, and objects with very many field names stay JSON text (`pa.json_()`).

Numbers follow Kafka's JsonConverter: whole numbers are int64 (of larger ones the low 64 bits remain), others are
doubles. A column with both holds doubles, marked so that whole numbers are written as they came.

Stricter than Kafka's JsonConverter, which ignores text after the end of a value, and which reads a value of the wrong
type as 0, false or null: both make the row a bad one here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from moldau.connect import json_reference
from moldau.connect.errors import RowError
from moldau.connect.record_batch import fitted
from moldau.connect.schemas import DECIMAL, MAX_PRECISION, Schema, SchemaType, arrow_type, schema_of
from moldau.records.native_modules import native_or_reference

if TYPE_CHECKING:
    _decoder = json_reference
    _encoder = json_reference
else:
    _decoder = native_or_reference("moldau.connect._json_decode", "moldau.connect.json_reference")
    _encoder = native_or_reference("moldau.connect._json_encode", "moldau.connect.json_reference")

NO_VALUE: Final = "null for a required value"

_NESTED: Final = (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)


def decode(texts: pa.Array) -> list[pa.Array]:
    """Schemaless values of JSON texts (binary or string; null: no value), as runs of rows. Raises RowError."""
    runs, errors = _decoder.decode(_binary(texts))
    if errors:
        raise RowError(errors)
    return runs


def without_json_text(array: pa.Array) -> list[pa.Array]:
    """Schemaless values whose fields changed their types too often (`MAX_SPLITS`), in runs of one type.

    For code that works on the fields, such as transforms: there every row has to have its types. The runs may be short.
    """
    kind = array.type
    parts = [one.type for one in kind] if pa.types.is_struct(kind) else [kind]
    if not any(isinstance(one, pa.BaseExtensionType) for one in parts):
        return [array]
    return _decoder.decode(encode(array), len(array))[0]


def decode_as(texts: pa.Array, schema: Schema, *, replace_null: bool = True) -> pa.Array:
    """Values of a schema. `replace_null`: nulls become the schema's default, if it has one. Raises RowError."""
    decoder = _decoder if _is_native(schema, replace_null) else json_reference
    found, errors = decoder.decode_typed(_binary(texts), schema, replace_null)
    if errors:
        raise RowError(errors)
    return found


def split_envelopes(texts: pa.Array) -> tuple[pa.Array, list[tuple[int, bytes]], dict[int, str]]:
    """The payload texts of all rows, the schema texts with the rows at which they begin, and the reasons of bad rows.

    A bad row belongs to the run before it, with an empty payload.
    """
    return _decoder.split_envelopes(_binary(texts))


def encode(
    array: pa.Array,
    schema: Schema | None = None,
    *,
    numeric_decimals: bool = False,
    replace_null: bool = True,
    prefix: bytes = b"",
    suffix: bytes = b"",
) -> pa.Array:
    """JSON texts (binary) of schemaless values, or of values of a schema; null rows stay null. Raises RowError."""
    if schema is None:
        array = _plain(array)
    else:
        array = with_defaults(fitted(array, schema), schema) if replace_null else fitted(array, schema)
    encoder = json_reference if _has_wide_decimal(array.type) else _encoder
    texts, bad = encoder.encode(array, schema, numeric_decimals, prefix, suffix)
    if bad:
        raise RowError(dict.fromkeys(bad, NO_VALUE))
    return texts


def _binary(texts: pa.Array) -> pa.Array:
    return texts if texts.type == pa.binary() else texts.cast(pa.binary())


def _is_native(schema: Schema, replace_null: bool) -> bool:
    """Whether the native decoder knows everything in a schema."""
    if schema.name == DECIMAL and arrow_type(schema).precision > MAX_PRECISION:
        return False
    if schema.default is not None and replace_null and schema.type in _NESTED:
        return False
    inner = [one.schema for one in schema.fields] + [schema.key_schema, schema.value_schema]
    return all(_is_native(one, replace_null) for one in inner if one is not None)


# -- preparation of arrays ---------------------------------------------------------------------------------------------


def _has_wide_decimal(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_wide_decimal(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_decimal256(kind))


def _plain(array: pa.Array) -> pa.Array:
    """Schemaless data of any Arrow types, in those that the encoder knows."""
    wanted = _plain_type(array.type)
    return array if wanted is array.type or wanted.equals(array.type) else array.cast(wanted, safe=False)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_null(kind):
        return kind if isinstance(kind, pa.JsonType) or pa.types.is_null(kind) else _plain_type(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_plain_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_nested(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    return arrow_type(schema_of(kind))


def with_defaults(array: pa.Array, schema: Schema, *, inner: bool = False) -> pa.Array:
    """The same values with the schema's defaults for nulls. A null row stays null unless it is a part of a value."""
    if not _has_default(schema):
        return array
    if array.null_count and schema.default is not None and inner:
        if schema.type in _NESTED:
            array = pa.array([schema.default if one is None else one for one in array.to_pylist()], array.type)
        else:
            array = array.fill_null(pa.scalar(schema.default, array.type))
    if schema.type is SchemaType.STRUCT:
        children = [with_defaults(array.field(i), one.schema, inner=True) for i, one in enumerate(schema.fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=mask)
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        return _with_values(array, with_defaults(array.values, schema.value_schema, inner=True))
    if schema.type is SchemaType.MAP:
        assert schema.value_schema is not None
        items = with_defaults(array.items, schema.value_schema, inner=True)
        entries = pa.StructArray.from_arrays([array.keys, items], fields=[array.type.key_field, array.type.item_field])
        return _with_values(array, entries)
    return array


def _with_values(array: pa.Array, values: pa.Array) -> pa.Array:
    """A list or map array with other elements at the same places."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(array.type, len(array), [validity, offsets], offset=array.offset, children=[values])


def _has_default(schema: Schema) -> bool:
    inner = [one.schema for one in schema.fields] + [schema.key_schema, schema.value_schema]
    return schema.default is not None or any(_has_default(one) for one in inner if one is not None)
