"""Record decoder selection: the native decoder if it was built, unless MOLDAU_PURE=1 selects the reference."""

from typing import TYPE_CHECKING

from moldau.records.native_modules import native_or_reference

if TYPE_CHECKING:
    from moldau.client.consumer.decode_reference import BatchRecords, Record
else:
    _chosen = native_or_reference("moldau.client.consumer._decode", "moldau.client.consumer.decode_reference")
    BatchRecords = _chosen.BatchRecords
    Record = _chosen.Record

__all__ = ["BatchRecords", "Record"]
