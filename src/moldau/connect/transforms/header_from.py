"""HeaderFrom: fields of keys or values moved or copied into headers.

Without a schema, a field that the object does not have gives a header with null, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, one_of
from moldau.connect.record_batch import ConnectBatch, HeaderColumn, ValueColumn
from moldau.connect.transforms.base import Part, Transform
from moldau.connect.transforms.objects import ObjectColumn, copied_schema, fail, objects
from moldau.connect.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, empty_list_refused


class HeaderFrom(Transform):
    """Adds headers with the values of fields."""

    part: ClassVar[Part] = "value"

    config_def = ConfigDef(
        [
            ConfigKey(
                "fields",
                ConfigType.LIST,
                "Fields whose values become headers.",
                importance=Importance.HIGH,
                validator=empty_list_refused,
            ),
            ConfigKey(
                "headers",
                ConfigType.LIST,
                "Names of the headers, in the order of `fields`.",
                importance=Importance.HIGH,
                validator=empty_list_refused,
            ),
            ConfigKey(
                "operation",
                ConfigType.STRING,
                "`move` removes the fields from the key or value, `copy` keeps them.",
                importance=Importance.HIGH,
                validator=one_of("move", "copy"),
                recommended=("move", "copy"),
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.names: list[str] = config["fields"]
        self.headers: list[str] = config["headers"]
        if len(self.names) != len(self.headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        column = batch.key if self.part == "key" else batch.value
        found = objects(column, f"header {self.config['operation']}", nulls=False)
        filled = found.with_defaults(self.config[REPLACE_NULL])
        headers = tuple(
            HeaderColumn(header, self._values(filled, name))
            for name, header in zip(self.names, self.headers, strict=True)
        )
        batch = replace(batch, headers=batch.headers + headers)
        if self.config["operation"] == "copy":
            return [batch]
        fields = {name: one for name, one in filled.fields.items() if name not in self.names}
        changed = replace(filled, fields=fields, schema=copied_schema(filled.schema)).column()
        return [replace(batch, key=changed) if self.part == "key" else replace(batch, value=changed)]

    @staticmethod
    def _values(found: ObjectColumn, name: str) -> ValueColumn:
        one = found.fields.get(name)
        if one is not None:
            if one.schema is not None and not one.schema.optional:
                fail(one.array.is_null(), f"header of field {name}: null requires an optional schema", found.rows)
            return ValueColumn(one.array, one.schema)
        if found.schema is not None:
            fail(None, f"Field does not exist: {name}", found.rows)
        return ValueColumn(pa.nulls(found.rows))


class HeaderFromKey(HeaderFrom):
    part = "key"


class HeaderFromValue(HeaderFrom):
    part = "value"
