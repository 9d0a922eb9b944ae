"""CRC32C, from the `crc32c` package.

Measured against `google-crc32c` on this batch path's sizes: 1 KB 0.25 and 0.24 µs, 16 KB 1.0 and 0.85 µs, 1 MB 38 and
45 µs. They are level; but google-crc32c takes nothing except `bytes`, and a broker checks views of its receive buffer.
"""

from crc32c import crc32c as _crc32c

from moldau.records.model import Bytes


def crc32c(data: Bytes, value: int = 0) -> int:
    """The checksum of `data`, or of what gave `value` with `data` after it."""
    checksum: int = _crc32c(data, value)
    return checksum
