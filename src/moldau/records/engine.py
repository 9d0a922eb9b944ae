"""Which implementation runs: the native one where it was built, unless MOLDAU_PURE=1 asks for the reference."""

from typing import TYPE_CHECKING, Final

from moldau.records.crc import PURE

if TYPE_CHECKING:
    from moldau.records.reference import RecordsBuilder, check_batch, decode_batch, walk

    NATIVE: Final[bool] = False
elif PURE:
    from moldau.records.reference import RecordsBuilder, check_batch, decode_batch, walk

    NATIVE = False
else:
    try:
        from moldau.records._native import RecordsBuilder, check_batch, decode_batch, walk

        NATIVE = True
    except ImportError:  # installed without a compiler
        from moldau.records.reference import RecordsBuilder, check_batch, decode_batch, walk

        NATIVE = False

__all__ = ["NATIVE", "RecordsBuilder", "check_batch", "decode_batch", "walk"]
