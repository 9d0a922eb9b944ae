"""Drop: the key or value becomes null (Confluent's transform of that name).

`schema.behavior` says what becomes of its schema.
"""

from __future__ import annotations

import pyarrow as pa

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, one_of
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import arrow_type
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.objects import fail


class Drop(PartTransform):
    """Removes keys or values."""

    config_def = ConfigDef(
        [
            ConfigKey(
                "schema.behavior",
                ConfigType.STRING,
                "`nullify` removes the schema, `retain` keeps it as it is, `validate` keeps it and refuses one that is "
                "not optional, `force_optional` makes it optional.",
                "nullify",
                validator=one_of("nullify", "retain", "validate", "force_optional"),
                recommended=("nullify", "retain", "validate", "force_optional"),
            )
        ]
    )

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        schema, behavior = column.schema, self.config["schema.behavior"]
        if schema is None or behavior == "nullify":
            return ValueColumn.nothing(len(column))
        if behavior == "validate" and not schema.optional:
            fail(None, f"The schema of the {self.part} is not optional, but schema.behavior is validate", len(column))
        if behavior == "force_optional":
            schema = schema.as_optional()
        return ValueColumn(pa.nulls(len(column), arrow_type(schema)), schema)


class DropKey(Drop):
    part = "key"


class DropValue(Drop):
    part = "value"
