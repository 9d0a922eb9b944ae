"""Flatten: fields of nested objects become fields of the outermost one, with joined names.

Arrays stay as they are, maps of a schema are refused, null passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.config_def import ConfigDef
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import Schema, SchemaType, arrow_type
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.objects import (
    FieldColumn,
    ObjectColumn,
    copied_schema,
    fail,
    objects,
    present_or,
    with_default,
)
from moldau.connect.transforms.settings import text

_PURPOSE: Final = "flattening"


class Flatten(PartTransform):
    """Makes one level of fields of all levels."""

    keeps_null = True
    config_def = ConfigDef([text("delimiter", "Text between the joined names.", ".")])

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        found = objects(column, _PURPOSE, nulls=True)
        fields: dict[str, FieldColumn] = {}
        if found.schema is None:
            for name, one in self._without_schema(found, ""):
                fields[name] = present_or(one, fields[name], name) if name in fields else one
        else:
            for name, one in self._with_schema(found, found.schema.optional, found.schema.default, ""):
                if name in fields:
                    fail(None, f"Cannot create field because of field name duplication {name}", found.rows)
                fields[name] = one
        return replace(found, fields=fields, schema=copied_schema(found.schema)).column()

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.config['delimiter']}{name}" if prefix else name

    def _without_schema(self, found: ObjectColumn, prefix: str) -> Iterator[tuple[str, FieldColumn]]:
        for name, one in found.fields.items():
            full = self._name(prefix, name)
            if not pa.types.is_struct(one.array.type):
                yield full, one
                continue
            if one.nulls is not None and pc.any(one.nulls).as_py():
                yield full, FieldColumn(pa.nulls(found.rows), nulls=one.nulls)
            yield from self._without_schema(ObjectColumn.of(ValueColumn(one.array)), full)

    def _with_schema(
        self, found: ObjectColumn, optional: bool, default: Any, prefix: str
    ) -> Iterator[tuple[str, FieldColumn]]:
        """`optional` and `default` come from the objects around: a part of an optional struct is optional."""
        for name, one in found.fields.items():
            assert one.schema is not None
            full = self._name(prefix, name)
            inner_optional = optional or one.schema.optional
            inner_default = one.schema.default
            if inner_default is None and default is not None:
                inner_default = default.get(name)
            if one.schema.type is SchemaType.STRUCT:
                inner = ObjectColumn.of(ValueColumn(with_default(one, found.valid).array, one.schema))
                yield from self._with_schema(inner, inner_optional, inner_default, full)
            elif one.schema.type is SchemaType.MAP:
                fail(None, f"Flatten transformation does not support MAP with schemas (for field {full}).", found.rows)
            else:
                filled = with_default(one, found.valid)
                schema: Schema = replace(one.schema, optional=inner_optional, default=inner_default)
                yield full, FieldColumn(filled.array.cast(arrow_type(schema)), schema)


class FlattenKey(Flatten):
    part = "key"


class FlattenValue(Flatten):
    part = "value"
