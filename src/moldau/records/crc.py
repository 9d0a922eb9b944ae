"""CRC32C: the processor's instruction where our own extension reaches it, else the `crc32c` package.

Measured, in µs, on views of a bytearray, which is what a broker has:

                    1 KB    16 KB   1 MB
    extension       0.12    0.70    43
    crc32c          0.17    0.84    38
    google-crc32c   takes nothing but `bytes` (0.24, 0.85, 45 with these)

They are level, and `check_batch` has the instruction inside its own call. But importing the package takes 29 ms,
most of them for the standard library's importlib.metadata: a tenth of a broker's start.
"""

import os
from typing import TYPE_CHECKING, Final

from moldau.records.model import Bytes

# MOLDAU_PURE=1 asks for plain Python wherever there is a choice.
PURE: Final = os.environ.get("MOLDAU_PURE", "0") not in ("", "0")

if TYPE_CHECKING:

    def crc32c(data: Bytes, value: int = 0) -> int:
        """The checksum of `data`, or of what gave `value` with `data` after it."""
        raise AssertionError

else:
    try:
        from moldau.records._crc import AVAILABLE, crc32c

        if PURE or not AVAILABLE:
            from crc32c import crc32c
    except ImportError:  # installed without a compiler
        from crc32c import crc32c

__all__ = ["PURE", "crc32c"]
