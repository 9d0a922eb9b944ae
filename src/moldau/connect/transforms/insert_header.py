"""InsertHeader: a header with a fixed value.

The value is read like a header by SimpleHeaderConverter: `5` is a number, `true` a boolean, `[1,2]` an array, other
text a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from moldau.connect.config_def import NO_DEFAULT, ConfigDef, Importance
from moldau.connect.converters import DEFAULT_HEADER_CONVERTER, header_converter
from moldau.connect.record_batch import ConnectBatch, HeaderColumn
from moldau.connect.transforms.base import Transform
from moldau.connect.transforms.settings import text


class InsertHeader(Transform):
    """Adds a header to every record."""

    config_def = ConfigDef(
        [
            text("header", "Name of the header.", NO_DEFAULT, Importance.HIGH),
            text("value.literal", "Value of the header, for all records.", NO_DEFAULT, Importance.HIGH),
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        literal = pa.array([config["value.literal"].encode()], pa.binary())
        (self.value,) = header_converter(DEFAULT_HEADER_CONVERTER, {}).to_batches(literal, "", config["header"])

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        first = pa.repeat(pa.scalar(0), batch.num_rows)
        values = replace(self.value, array=self.value.array.take(first))
        return [replace(batch, headers=(*batch.headers, HeaderColumn(self.config["header"], values)))]
