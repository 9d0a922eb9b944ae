"""Single-message transforms: Kafka Connect's transforms by their class names, over columns of Arrow.

`chain` reads `transforms`, `transforms.X.type`, `transforms.X.predicate` and the settings of each transform from the
configuration of a connector. `Chain.apply` changes a batch.

Why not Spark SQL expressions: a task of a connector reads, converts, transforms and writes a record in one Python stage
over Arrow. An expression would send every record into the JVM and back, and the data of schemaless topics has no
schema that a plan could be made of. Arrow's compute functions are column expressions, on the columns that the
converter has just made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.connect.record_batch import ConnectBatch
from moldau.connect.transforms.base import Predicate, Transform

__all__ = ["Chain", "Step", "chain"]


@dataclass(frozen=True)
class Step:
    """One transform of a chain, with the predicate that selects its rows."""

    name: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        raise NotImplementedError


@dataclass(frozen=True)
class Chain:
    """The transforms of a connector, in their order."""

    steps: tuple[Step, ...] = ()

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        """The changed batches, in the order of the rows; empty where all were dropped. A bad row raises RowError."""
        batches = [batch]
        for step in self.steps:
            batches = [changed for one in batches if one.num_rows for changed in step.apply(one)]
        return [one for one in batches if one.num_rows]


def chain(config: Mapping[str, Any]) -> Chain:
    """The chain of a connector's configuration; ConfigError names every mistake."""
    if not config.get("transforms"):
        return Chain()
    raise NotImplementedError
