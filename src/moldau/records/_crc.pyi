"""CRC32C by the processor's instruction."""

from moldau.records.model import Bytes

AVAILABLE: bool

def crc32c(data: Bytes, value: int = 0) -> int: ...
