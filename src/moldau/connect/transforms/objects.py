"""Object columns: the fields of struct arrays, taken apart, changed and put together again.

An `ObjectColumn` has the fields of all rows of a key or value column. With a schema every field has its own schema. A
schemaless object has fields that are present, null or missing in each row: see `record_batch.py`; here, the rows where
a field is null are its `nulls`, and a row where its array is null without that is a row without the field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.errors import RowError, Stage
from moldau.connect.record_batch import MIXED_NUMBERS, ValueColumn, is_null_mark, null_mark, writes_whole_numbers
from moldau.connect.schemas import Field, Schema, SchemaType, arrow_type
from moldau.connect.transforms.rows import common_type, fitted

STAGE: Final = Stage.TRANSFORMATION


def fail(bad: pa.BooleanArray | None, reason: str, rows: int) -> None:
    """Raise a RowError for the rows where `bad` is true, if there are any. None: all rows."""
    if bad is None:
        numbers: Iterable[int] = range(rows)
    else:
        numbers = pc.indices_nonzero(bad).to_pylist()
    reasons = dict.fromkeys(numbers, reason)
    if reasons:
        raise RowError(reasons, STAGE)


class TypesDiffer(Exception):
    """A field that would have two types in one batch: the caller divides the batch where `mask` changes."""

    def __init__(self, mask: pa.BooleanArray) -> None:
        super().__init__()
        self.mask = mask


@dataclass(frozen=True)
class FieldColumn:
    """One field of all rows of an object column."""

    array: pa.Array
    schema: Schema | None = None
    nulls: pa.BooleanArray | None = None
    """Schemaless: the rows where the field is there and null. None: no row. Never null."""
    mixed: bool = False
    """Schemaless: doubles of which the whole ones were integers; see `MIXED_NUMBERS` in record_batch.py."""

    def present(self) -> pa.BooleanArray:
        """Schemaless: the rows that have the field, also with null."""
        valid = self.array.is_valid()
        return valid if self.nulls is None else pc.or_(valid, self.nulls)


@dataclass(frozen=True)
class ObjectColumn:
    """The fields of all rows of a column of objects."""

    rows: int
    fields: Mapping[str, FieldColumn] = field(default_factory=dict)
    schema: Schema | None = None
    """The schema of the whole column. Its fields are replaced by those of `fields` when the column is put together."""
    valid: pa.BooleanArray | None = None
    """The rows that have an object; None: all."""

    @classmethod
    def of(cls, column: ValueColumn) -> ObjectColumn:
        """Take a column apart. The caller has checked that it holds objects."""
        array = column.array
        valid = array.is_valid() if array.null_count else None
        children = array.flatten() if array.null_count else [array.field(i) for i in range(array.type.num_fields)]
        if column.schema is not None:
            fields = {
                one.name: FieldColumn(child, one.schema)
                for one, child in zip(column.schema.fields, children, strict=True)
            }
        else:
            named = {one.name: child for one, child in zip(array.type, children, strict=True)}
            fields = {
                one.name: FieldColumn(
                    named[one.name], None, _mark(named.get(null_mark(one.name))), writes_whole_numbers(one)
                )
                for one in array.type
                if not is_null_mark(one.name)
            }
        return cls(len(array), fields, column.schema, valid)

    def with_fields(self, fields: Mapping[str, FieldColumn]) -> ObjectColumn:
        return replace(self, fields=fields)

    def with_field(self, name: str, changed: FieldColumn) -> ObjectColumn:
        """Replace the field in its place, or add it at the end."""
        return replace(self, fields={**self.fields, name: changed})

    def with_defaults(self, wanted: bool) -> ObjectColumn:
        """With a schema: null fields that have a default get it, as Kafka's structs give it to the reader."""
        if not wanted or self.schema is None:
            return self
        return self.with_fields({name: with_default(one, self.valid) for name, one in self.fields.items()})

    def with_null(self, name: str) -> ObjectColumn:
        """Schemaless: the field becomes null in the rows that do not have it."""
        one = self.fields.get(name)
        if one is None:
            return self.with_field(name, FieldColumn(pa.nulls(self.rows), nulls=self.all_valid()))
        missing = one.array.is_null()
        return self.with_field(
            name, replace(one, nulls=missing if self.valid is None else pc.and_(missing, self.valid))
        )

    def all_valid(self) -> pa.BooleanArray:
        return self.valid if self.valid is not None else pa.repeat(pa.scalar(True), self.rows)

    def check_required(self) -> None:
        """With a schema: refuse nulls in fields that are not optional, as Kafka's structs do when they are filled."""
        for name, one in self.fields.items():
            if one.schema is not None and not one.schema.optional and one.array.null_count:
                bad = one.array.is_null()
                if self.valid is not None:
                    bad = pc.and_(bad, self.valid)
                fail(bad, f"field {name} is not optional, but its value is null", self.rows)

    def column(self) -> ValueColumn:
        """Put the fields together."""
        if self.schema is None:
            mixed = {name for name, one in self.fields.items() if one.mixed and pa.types.is_float64(one.array.type)}
            return ValueColumn(struct_array(dict(self._children()), self.rows, self.valid, mixed))
        self.check_required()
        fields = tuple(Field(name, one.schema) for name, one in self.fields.items() if one.schema is not None)
        schema = replace(self.schema, fields=fields)
        kind = arrow_type(schema)
        arrays = [fitted(one.array, kind.field(i).type) for i, one in enumerate(self.fields.values())]
        return ValueColumn(_struct(kind, arrays, self.rows, self.valid), schema)

    def _children(self) -> Iterator[tuple[str, pa.Array]]:
        for name, one in self.fields.items():
            yield name, one.array
            if one.nulls is not None and pc.any(one.nulls).as_py():
                yield null_mark(name), one.nulls


def _mark(marks: pa.Array | None) -> pa.BooleanArray | None:
    return None if marks is None else pc.fill_null(marks, False)


def struct_array(
    children: Mapping[str, pa.Array], rows: int, valid: pa.BooleanArray | None = None, mixed: Collection[str] = ()
) -> pa.StructArray:
    """A struct array of these children; rows where `valid` is false are null. `mixed`: see `FieldColumn.mixed`."""
    kind = pa.struct(
        [
            pa.field(name, child.type, metadata=MIXED_NUMBERS if name in mixed else None)
            for name, child in children.items()
        ]
    )
    return _struct(kind, list(children.values()), rows, valid)


def _struct(kind: pa.StructType, arrays: list[pa.Array], rows: int, valid: pa.BooleanArray | None) -> pa.StructArray:
    # From buffers: the constructor of Arrow refuses null children of required fields in rows that are null themselves.
    bits = None if valid is None else pc.and_(valid, valid).buffers()[1]
    return pa.StructArray.from_buffers(kind, rows, [bits], children=arrays)


def default_scalar(schema: Schema) -> pa.Scalar:
    return pa.scalar(schema.default, arrow_type(schema))


def with_default(one: FieldColumn, valid: pa.BooleanArray | None) -> FieldColumn:
    """The field with its default instead of null. Rows without an object keep null."""
    if one.schema is None or one.schema.default is None or not one.array.null_count:
        return one
    default = default_scalar(one.schema)
    wanted = one.array.is_null() if valid is None else pc.and_(one.array.is_null(), valid)
    return replace(one, array=filled(one.array, wanted, default))


def filled(array: pa.Array, rows: pa.BooleanArray, value: pa.Scalar) -> pa.Array:
    """The array with one value in these rows. Works for every type, also nested ones."""
    source = pa.concat_arrays([array, fitted(pa.repeat(value, 1), array.type)])
    numbers = pa.array(range(len(array)), pa.int64())
    return source.take(pc.if_else(rows, pa.scalar(len(array), pa.int64()), numbers))


def is_object(column: ValueColumn) -> bool:
    """The column holds structs (with a schema) or objects (schemaless)."""
    if column.schema is not None:
        return column.schema.type is SchemaType.STRUCT
    return bool(pa.types.is_struct(column.array.type))


def objects(column: ValueColumn, purpose: str, *, nulls: bool) -> ObjectColumn:
    """Take a column apart; rows that hold something else, and with `nulls=False` null rows, raise RowError."""
    if not is_object(column):
        what = "Struct objects" if column.schema is not None else "Map objects in absence of schema"
        bad = column.array.is_valid() if nulls else None
        fail(bad, f"Only {what} supported for [{purpose}], found: {type_name(column)}", len(column))
        return ObjectColumn(len(column), {}, column.schema, column.array.is_valid())
    if not nulls and column.array.null_count:
        fail(column.array.is_null(), f"Only objects supported for [{purpose}], found: null", len(column))
    return ObjectColumn.of(column)


def type_name(column: ValueColumn) -> str:
    """The type of a column for messages."""
    return column.schema.type.value if column.schema is not None else str(column.array.type)


def copied_schema(schema: Schema | None) -> Schema | None:
    """A schema with name, version, doc and parameters of another one. It is required and has no default."""
    return None if schema is None else replace(schema, optional=False, default=None)


def present_or(first: FieldColumn, second: FieldColumn, name: str) -> FieldColumn:
    """The first field where a row has it, otherwise the second one."""
    if first.schema is not None:
        fail(None, f"Cannot create field because of field name duplication {name}", len(first.array))
    present = first.present()
    if pc.all(present).as_py():
        return first
    if not pc.any(present).as_py():
        return second
    kind = common_type(first.array.type, second.array.type)
    if kind is None:
        raise TypesDiffer(present)
    false = pa.scalar(False)
    nulls = pc.if_else(present, first.nulls or false, second.nulls or false)
    return FieldColumn(pc.if_else(present, fitted(first.array, kind), fitted(second.array, kind)), nulls=nulls)
