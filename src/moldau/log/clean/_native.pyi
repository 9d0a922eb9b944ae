"""Types of the native compaction loops: those of the reference."""

from moldau.log.clean.reference import OffsetMap as OffsetMap
from moldau.log.clean.reference import sift as sift
from moldau.log.clean.reference import skip_run as skip_run

SLOT_BYTES: int

def siphash128(key: bytes, data: bytes) -> bytes: ...
