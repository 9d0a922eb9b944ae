"""Which implementation runs: the native one where it was built, unless MOLDAU_PURE=1 asks for the reference."""

from typing import TYPE_CHECKING, Final

from moldau.records import NATIVE as _RECORDS_ARE_NATIVE

if TYPE_CHECKING:
    from moldau.log.clean.reference import SLOT_BYTES, OffsetMap, sift, skip_run

    NATIVE: Final[bool] = False
elif not _RECORDS_ARE_NATIVE:
    from moldau.log.clean.reference import SLOT_BYTES, OffsetMap, sift, skip_run

    NATIVE = False
else:
    try:
        from moldau.log.clean._native import SLOT_BYTES, OffsetMap, sift, skip_run

        NATIVE = True
    except ImportError:  # installed without a compiler
        from moldau.log.clean.reference import SLOT_BYTES, OffsetMap, sift, skip_run

        NATIVE = False

__all__ = ["NATIVE", "SLOT_BYTES", "OffsetMap", "sift", "skip_run"]
