"""ValueToKey: fields of the value become the key.

Without a schema, a field that the value does not have is null in the key, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.record_batch import ConnectBatch
from moldau.connect.schemas import Schema, SchemaType
from moldau.connect.transforms.base import Transform
from moldau.connect.transforms.objects import ObjectColumn, fail, objects
from moldau.connect.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, empty_list_refused


class ValueToKey(Transform):
    """Replaces the key by an object with fields of the value."""

    config_def = ConfigDef(
        [
            ConfigKey(
                "fields",
                ConfigType.LIST,
                "Fields of the value that form the key.",
                importance=Importance.HIGH,
                validator=empty_list_refused,
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.names: list[str] = config["fields"]

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        found = objects(batch.value, "copying fields from value to key", nulls=False)
        if found.schema is None:
            for name in self.names:
                found = found.with_null(name)
            key = ObjectColumn(found.rows, {name: found.fields[name] for name in self.names})
            return [replace(batch, key=key.column())]
        for number, name in enumerate(self.names):
            if name not in found.fields:
                fail(None, f"Field does not exist: {name}", found.rows)
            if name in self.names[:number]:
                fail(None, f"Cannot create field because of field name duplication {name}", found.rows)
        found = found.with_defaults(self.config[REPLACE_NULL])
        fields = {name: found.fields[name] for name in self.names}
        return [replace(batch, key=ObjectColumn(found.rows, fields, Schema(SchemaType.STRUCT)).column())]
