"""Which decoder runs: the native one where it was built, unless MOLDAU_PURE=1 asks for the reference."""

from typing import TYPE_CHECKING

from moldau.records.crc import PURE

if TYPE_CHECKING or PURE:
    from moldau.client.consumer.decode_reference import BatchRecords, Record
else:
    try:
        from moldau.client.consumer._decode import BatchRecords, Record
    except ImportError:  # installed without a compiler
        from moldau.client.consumer.decode_reference import BatchRecords, Record

__all__ = ["BatchRecords", "Record"]
