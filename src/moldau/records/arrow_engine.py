"""Choice of the Arrow codec: native if built, the reference if not or if MOLDAU_PURE=1 is set."""

from typing import TYPE_CHECKING

from moldau.records.native_modules import native_or_reference

if TYPE_CHECKING:
    from moldau.records.arrow_encode_reference import RowEncoder, check_rows, choose_partitions
    from moldau.records.arrow_reference import BatchCursor, RowCollector
else:
    _chosen = native_or_reference("moldau.records._arrow", "moldau.records.arrow_reference")
    BatchCursor = _chosen.BatchCursor
    RowCollector = _chosen.RowCollector
    _chosen = native_or_reference("moldau.records._arrow_encode", "moldau.records.arrow_encode_reference")
    RowEncoder = _chosen.RowEncoder
    check_rows = _chosen.check_rows
    choose_partitions = _chosen.choose_partitions

__all__ = ["BatchCursor", "RowCollector", "RowEncoder", "check_rows", "choose_partitions"]
