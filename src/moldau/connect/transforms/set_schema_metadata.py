"""SetSchemaMetadata: name and version of the schema of keys or values.

Data without a schema is refused, unless it is null. Schemas other than structs are refused, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moldau.connect.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.schemas import SchemaType
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.objects import ObjectColumn, fail
from moldau.connect.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, text


class SetSchemaMetadata(PartTransform):
    """Sets name and version of a schema."""

    config_def = ConfigDef(
        [
            text("schema.name", "Name of the schema.", None, Importance.HIGH),
            ConfigKey("schema.version", ConfigType.INT, "Version of the schema.", None, Importance.HIGH),
            REPLACE_NULL_KEY,
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        if config["schema.name"] is None and config["schema.version"] is None:
            raise ConfigError("Neither schema name nor version configured: set schema.name or schema.version")

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        if column.schema is None:
            fail(column.array.is_valid(), "Schema required for [updating schema metadata]", len(column))
            return column
        if column.schema.type is not SchemaType.STRUCT:
            fail(None, f"Only schemas of structs can be renamed, found: {column.schema.type.name}", len(column))
        changes = {"name": self.config["schema.name"], "version": self.config["schema.version"]}
        schema = replace(column.schema, **{name: value for name, value in changes.items() if value is not None})
        found = replace(ObjectColumn.of(column), schema=schema)
        return found.with_defaults(self.config[REPLACE_NULL]).column()


class SetSchemaMetadataKey(SetSchemaMetadata):
    part = "key"


class SetSchemaMetadataValue(SetSchemaMetadata):
    part = "value"
