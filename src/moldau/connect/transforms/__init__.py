"""Single-message transforms: Kafka Connect's transforms by their class names, over columns of Arrow.

`chain` reads `transforms`, `transforms.X.type`, `transforms.X.predicate` and the settings of each transform from the
configuration of a connector. `Chain.apply` changes a batch.

Why not Spark SQL expressions: a task of a connector reads, converts, transforms and writes a record in one Python stage
over Arrow. An expression would send every record into the JVM and back, and the data of schemaless topics has no
schema that a plan could be made of. Arrow's compute functions are column expressions, on the columns that the
converter has just made.
"""

from __future__ import annotations

from moldau.connect.transforms.base import Predicate, Transform
from moldau.connect.transforms.chain import Chain, TransformStep, chain

__all__ = ["Chain", "Predicate", "Transform", "TransformStep", "chain"]
