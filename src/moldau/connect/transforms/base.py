"""Base classes of transforms and predicates: what one of one's own implements.

A transform changes batches of records. It is created once with its settings, in every Spark task that needs it, and
called with one batch after the other. It works on the columns of a batch with Arrow's compute functions, never on one
record at a time.

A transform of one's own is a class found by the entry point group `moldau.transforms`: the entry point's name is what
users write into `transforms.X.type`. A predicate is found by the group `moldau.predicates`.

    class Upper(Transform):
        config_def = ConfigDef([ConfigKey("suffix", ConfigType.STRING, "Text at the end of the topic.", "")])

        def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
            upper = pc.binary_join_element_wise(pc.utf8_upper(batch.topic), self.config["suffix"], "")
            return [replace(batch, topic=upper)]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import pyarrow as pa

from moldau import __version__
from moldau.connect.config_def import ConfigDef
from moldau.connect.record_batch import ConnectBatch, ValueColumn

Part = Literal["key", "value"]


class Transform:
    """A change of records: of their keys, values, headers, topics, partitions or timestamps."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = __version__

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config` has every setting of `config_def` with its value. Raises ConfigError where they do not fit."""
        self.config = config

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        """The changed records, in order. Several batches where the rows no longer have one schema, none where all rows
        are dropped. A row that cannot be changed raises RowError."""
        raise NotImplementedError


class Predicate:
    """A condition on records: a transform with a predicate is applied only to the rows where it holds."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = __version__

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def test(self, batch: ConnectBatch) -> pa.BooleanArray:
        """True for every row where the condition holds; never null."""
        raise NotImplementedError


class PartTransform(Transform):
    """A transform of keys or of values. Its two classes in Kafka Connect end in `$Key` and `$Value`."""

    part: ClassVar[Part] = "value"

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        column = batch.key if self.part == "key" else batch.value
        changed = self.change(column, batch)
        if changed is column:
            return [batch]
        return [replace(batch, key=changed) if self.part == "key" else replace(batch, value=changed)]

    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        """The changed column; `column` itself where nothing changes. `batch` is for what else the row has."""
        raise NotImplementedError
