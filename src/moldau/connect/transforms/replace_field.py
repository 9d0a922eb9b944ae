"""ReplaceField: fields of keys or values removed, kept or renamed.

With a schema the new struct is not optional and has no default, as in Kafka. Records whose key or value is null pass
unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moldau.connect.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.transforms.base import PartTransform
from moldau.connect.transforms.objects import FieldColumn, copied_schema, objects, present_or
from moldau.connect.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY


def _pairs(name: str, mappings: list[str]) -> dict[str, str]:
    found = {}
    for mapping in mappings:
        old, colon, new = mapping.partition(":")
        if not colon or not new or ":" in new:
            raise ConfigError(f"Invalid value {mappings} for configuration {name}: Invalid rename mapping: {mapping}")
        found[old] = new
    return found


def _check_pairs(name: str, value: Any) -> str | None:
    try:
        _pairs(name, value)
    except ConfigError as error:
        return str(error)
    return None


class ReplaceField(PartTransform):
    """Removes, keeps or renames fields."""

    keeps_null = True
    config_def = ConfigDef(
        [
            ConfigKey("exclude", ConfigType.LIST, "Fields to remove. Wins over `include`.", []),
            ConfigKey("include", ConfigType.LIST, "Fields to keep; if given, all others are removed.", []),
            ConfigKey("renames", ConfigType.LIST, "New names, as old:new pairs.", [], validator=_check_pairs),
            REPLACE_NULL_KEY,
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.exclude = frozenset(config["exclude"])
        self.include = frozenset(config["include"])
        self.renames = _pairs("renames", config["renames"])

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        found = objects(column, "field replacement", nulls=True)
        kept = found.with_defaults(self.config[REPLACE_NULL]).fields
        fields: dict[str, FieldColumn] = {}
        for name, one in kept.items():
            if name in self.exclude or (self.include and name not in self.include):
                continue
            new = self.renames.get(name, name)
            if new in fields:
                one = present_or(one, fields.pop(new), new)
            fields[new] = one
        return replace(found, fields=fields, schema=copied_schema(found.schema)).column()


class ReplaceFieldKey(ReplaceField):
    part = "key"


class ReplaceFieldValue(ReplaceField):
    part = "value"
