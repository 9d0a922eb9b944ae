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

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import pyarrow as pa

from moldau import __version__
from moldau.connect.config_def import ConfigDef
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from moldau.connect.transforms.objects import TypesDiffer
from moldau.connect.transforms.rows import each_run

Part = Literal["key", "value"]


class Transform(ABC):
    """A change of records: of their keys, values, headers, topics, partitions or timestamps."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = __version__

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config` has every setting of `config_def` with its value. Raises ConfigError where they do not fit."""
        self.config = config

    @abstractmethod
    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        """The changed records, in order. Several batches where the rows no longer have one schema, none where all rows
        are dropped. A row that cannot be changed raises RowError."""


class Predicate(ABC):
    """A condition on records: a transform with a predicate is applied only to the rows where it holds."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = __version__

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    @abstractmethod
    def test(self, batch: ConnectBatch) -> pa.BooleanArray:
        """True for every row where the condition holds; never null."""


class PartTransform(Transform):
    """A transform of keys or of values. Its two classes in Kafka Connect end in `$Key` and `$Value`."""

    part: ClassVar[Part] = "value"
    keeps_null: ClassVar[bool] = False
    """A record whose key or value is null passes unchanged, with its old schema."""

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        column = batch.key if self.part == "key" else batch.value
        if self.keeps_null and column.array.null_count:
            if column.array.null_count == len(column):
                return [batch]
            if column.schema is not None:
                return each_run(batch, column.array.is_null(), lambda part, null: [part] if null else self.apply(part))
        try:
            changed = self.change(column, batch)
        except TypesDiffer as found:
            return each_run(batch, found.mask, lambda part, _: self.apply(part))
        return [replace(batch, key=changed) if self.part == "key" else replace(batch, value=changed)]

    @abstractmethod
    def change(self, column: ValueColumn, batch: ConnectBatch) -> ValueColumn:
        """The changed column. `batch` is for what else the records have."""
