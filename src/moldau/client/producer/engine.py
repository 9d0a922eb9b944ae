"""Which accumulator runs: the native one where it was built, unless MOLDAU_PURE=1 asks for the readable one."""

from typing import TYPE_CHECKING, Final

from moldau.records.crc import PURE

if TYPE_CHECKING:
    from moldau.client.producer.accumulator import Accumulator, Batch, PartitionQueue, RecordFuture

    NATIVE: Final[bool] = False
elif PURE:
    from moldau.client.producer.accumulator import Accumulator, Batch, PartitionQueue, RecordFuture

    NATIVE = False
else:
    try:
        from moldau.client.producer._accumulator import Accumulator, Batch, PartitionQueue, RecordFuture

        NATIVE = True
    except ImportError:  # installed without a compiler
        from moldau.client.producer.accumulator import Accumulator, Batch, PartitionQueue, RecordFuture

        NATIVE = False

__all__ = ["NATIVE", "Accumulator", "Batch", "PartitionQueue", "RecordFuture"]
