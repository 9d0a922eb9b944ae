"""ExtractField: one field takes the place of the whole key or value.

Null passes. Without a schema, a field that an object does not have gives null; with a schema it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from moldau.connect.config_def import NO_DEFAULT, ConfigDef
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import SchemaType
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.field_path import SYNTAX, SYNTAX_KEY, field_path
from moldau.connect.transforms.objects import fail, objects, with_default
from moldau.connect.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, text

_PURPOSE: Final = "field extraction"
_NESTED: Final = "nested field access"


class ExtractField(PartTransform):
    """Replaces an object by one of its fields."""

    config_def = ConfigDef([text("field", "Field to extract.", NO_DEFAULT), REPLACE_NULL_KEY, SYNTAX_KEY])

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.path = field_path(config["field"], config[SYNTAX])

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        return self._without_schema(column) if column.schema is None else self._with_schema(column)

    def _without_schema(self, column: ValueColumn) -> ValueColumn:
        for level, name in enumerate(self.path):
            fields = objects(column, _NESTED if level else _PURPOSE, nulls=True).fields
            column = ValueColumn(fields[name].array if name in fields else pa.nulls(len(column)))
        return column

    def _with_schema(self, column: ValueColumn) -> ValueColumn:
        self._check_path(column)
        for level, name in enumerate(self.path):
            found = objects(column, _NESTED if level else _PURPOSE, nulls=True)
            one = found.fields[name]
            if level < len(self.path) - 1 or self.config[REPLACE_NULL]:
                one = with_default(one, found.valid)
            column = ValueColumn(one.array, one.schema)
        return column

    def _check_path(self, column: ValueColumn) -> None:
        schema = column.schema
        for name in self.path:
            field = schema.field(name) if schema is not None and schema.type is SchemaType.STRUCT else None
            if field is None:
                fail(None, f"Unknown field: {self.config['field']}", len(column))
                return
            schema = field.schema


class ExtractFieldKey(ExtractField):
    part = "key"


class ExtractFieldValue(ExtractField):
    part = "value"
