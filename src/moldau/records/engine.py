"""Which implementation runs: the native one where it was built, unless MOLDAU_PURE=1 asks for the reference."""

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.records.reference import RecordsBuilder, check_batch, decode_batch, walk

    NATIVE: Final[bool] = False
elif os.environ.get("MOLDAU_PURE", "0") not in ("", "0"):
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
