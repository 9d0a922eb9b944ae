"""HoistField: the whole key or value becomes the only field of a new object."""

from __future__ import annotations

from moldau.connect.config_def import NO_DEFAULT, ConfigDef
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import Schema, SchemaType
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.objects import FieldColumn, ObjectColumn
from moldau.connect.transforms.settings import text


class HoistField(PartTransform):
    """Wraps keys or values in an object."""

    config_def = ConfigDef([text("field", "Name of the field that gets the whole key or value.", NO_DEFAULT)])

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        if column.schema is None:
            nulls = column.array.is_null() if column.array.null_count else None
            only = FieldColumn(column.array, nulls=nulls)
            return ObjectColumn(len(column), {self.config["field"]: only}).column()
        only = FieldColumn(column.array, column.schema)
        return ObjectColumn(len(column), {self.config["field"]: only}, Schema(SchemaType.STRUCT)).column()


class HoistFieldKey(HoistField):
    part = "key"


class HoistFieldValue(HoistField):
    part = "value"
