"""CRC32C with the processor's instruction."""

from moldau.records.batch_layout import Bytes

AVAILABLE: bool

def crc32c(data: Bytes, value: int = 0) -> int: ...
