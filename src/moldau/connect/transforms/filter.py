"""Filter: records dropped; which ones, says the predicate of the transform."""

from __future__ import annotations

from moldau.connect.record_batch import ConnectBatch
from moldau.connect.transforms.base import Transform


class Filter(Transform):
    """Drops all records. With a predicate: those where it holds."""

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        return []
