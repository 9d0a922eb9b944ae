"""InsertField: topic, partition, offset, timestamp or a fixed text as fields of keys or values.

A field name ends in `!` for a required field, in `?` (or nothing) for an optional one. A partition or timestamp that
a record does not have is not inserted. Offsets exist in sink connectors only. Records whose key or value is null pass
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from moldau.connect.config_def import ConfigDef, ConfigError
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import TIMESTAMP, Schema, SchemaType, arrow_type
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.objects import FieldColumn, ObjectColumn, copied_schema, fail, objects, present_or
from moldau.connect.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, text

_SUFFIX: Final = " End it with ! for a required field, with ? for an optional one (the default)."
_PURPOSE: Final = "field insertion"
_SCHEMAS: Final = {
    "topic.field": Schema(SchemaType.STRING),
    "partition.field": Schema(SchemaType.INT32),
    "offset.field": Schema(SchemaType.INT64),
    "timestamp.field": Schema(SchemaType.INT64, name=TIMESTAMP, version=1),
    "static.field": Schema(SchemaType.STRING),
}


@dataclass(frozen=True)
class _Insertion:
    setting: str
    name: str
    optional: bool


class InsertField(PartTransform):
    """Adds fields with what is known about the record."""

    keeps_null = True
    config_def = ConfigDef(
        [
            text("topic.field", "Field name for the topic." + _SUFFIX, None),
            text("partition.field", "Field name for the partition." + _SUFFIX, None),
            text("offset.field", "Field name for the offset, in sink connectors only." + _SUFFIX, None),
            text("timestamp.field", "Field name for the timestamp of the record." + _SUFFIX, None),
            text("static.field", "Field name for `static.value`." + _SUFFIX, None),
            text("static.value", "The value of `static.field`.", None),
            REPLACE_NULL_KEY,
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.insertions = [
            _Insertion(setting, name[:-1] if name[-1:] in ("!", "?") else name, not name.endswith("!"))
            for setting in _SCHEMAS
            if (name := config[setting]) is not None
        ]

        if not self.insertions:
            raise ConfigError(f"No field insertion configured: set one of {', '.join(_SCHEMAS)}")
        if config["static.field"] is not None and config["static.value"] is None:
            raise ConfigError("No value specified for static field: set static.value")

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        found = objects(column, _PURPOSE, nulls=True)
        values = dict(self._values(batch, found.all_valid()))
        if found.schema is None:
            return self._without_schema(found, values)
        fields = dict(found.with_defaults(self.config[REPLACE_NULL]).fields)
        for one in self.insertions:
            if one.name in fields:
                fail(None, f"Cannot create field because of field name duplication {one.name}", found.rows)
            schema = replace(_SCHEMAS[one.setting], optional=one.optional)
            fields[one.name] = FieldColumn(values[one.setting].cast(arrow_type(schema)), schema)
        return replace(found, fields=fields, schema=copied_schema(found.schema)).column()

    def _without_schema(self, found: ObjectColumn, values: Mapping[str, pa.Array]) -> ValueColumn:
        for one in self.insertions:
            inserted = FieldColumn(values[one.setting])
            existing = found.fields.get(one.name)
            if existing is not None:
                inserted = present_or(inserted, existing, one.name)
            found = found.with_field(one.name, inserted)
        return found.column()

    def _values(self, batch: ConnectBatch, rows: pa.BooleanArray) -> Iterator[tuple[str, pa.Array]]:
        for one in self.insertions:
            if one.setting == "topic.field":
                yield one.setting, batch.topic
            elif one.setting == "partition.field":
                yield one.setting, batch.partition
            elif one.setting == "offset.field":
                yield one.setting, _offsets(batch, rows)
            elif one.setting == "timestamp.field":
                yield one.setting, batch.timestamp
            else:
                static = self.config["static.value"]
                yield one.setting, pa.repeat(pa.scalar(static, pa.string()), batch.num_rows)


def _offsets(batch: ConnectBatch, rows: pa.BooleanArray) -> pa.Array:
    if batch.origin is None or "offset" not in batch.origin.schema.names:
        fail(rows, f"Only records of sink connectors supported for [{_PURPOSE}] of offsets", batch.num_rows)
        return pa.nulls(batch.num_rows, pa.int64())
    return batch.origin.column("offset")


class InsertFieldKey(InsertField):
    part = "key"


class InsertFieldValue(InsertField):
    part = "value"
