"""Choice of the accumulator: the native one if it was built, unless MOLDAU_PURE=1 selects the readable one."""

from typing import TYPE_CHECKING

from moldau.records.native_modules import native_or_reference

if TYPE_CHECKING:
    from moldau.client.producer.accumulator import Accumulator, Batch, PartitionQueue, RecordFuture
else:
    _chosen = native_or_reference("moldau.client.producer._accumulator", "moldau.client.producer.accumulator")
    Accumulator = _chosen.Accumulator
    Batch = _chosen.Batch
    PartitionQueue = _chosen.PartitionQueue
    RecordFuture = _chosen.RecordFuture

__all__ = ["Accumulator", "Batch", "PartitionQueue", "RecordFuture"]
