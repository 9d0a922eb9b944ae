"""Which Arrow codec runs: the native one where it was built, unless MOLDAU_PURE=1 asks for the reference."""

from typing import TYPE_CHECKING

from moldau.records.crc import PURE

if TYPE_CHECKING or PURE:
    from moldau.records.arrow_encode_reference import RowEncoder, check_rows, choose_partitions
    from moldau.records.arrow_reference import BatchCursor, RowCollector
else:
    try:
        from moldau.records._arrow import BatchCursor, RowCollector
        from moldau.records._arrow_encode import RowEncoder, check_rows, choose_partitions
    except ImportError:  # installed without a compiler
        from moldau.records.arrow_encode_reference import RowEncoder, check_rows, choose_partitions
        from moldau.records.arrow_reference import BatchCursor, RowCollector

__all__ = ["BatchCursor", "RowCollector", "RowEncoder", "check_rows", "choose_partitions"]
