"""DropHeaders: headers removed by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.record_batch import ConnectBatch
from moldau.connect.transforms.base import Transform
from moldau.connect.transforms.settings import empty_list_refused


class DropHeaders(Transform):
    """Removes all headers with the given names."""

    config_def = ConfigDef(
        [
            ConfigKey(
                "headers",
                ConfigType.LIST,
                "Names of the headers to remove.",
                importance=Importance.HIGH,
                validator=empty_list_refused,
            )
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.names = frozenset(config["headers"])

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        return [replace(batch, headers=tuple(one for one in batch.headers if one.name not in self.names))]
