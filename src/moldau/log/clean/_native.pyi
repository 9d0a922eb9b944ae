"""The native twin has the reference's names and types."""

from moldau.log.clean.reference import OffsetMap as OffsetMap
from moldau.log.clean.reference import sift as sift

SLOT_BYTES: int

def siphash128(key: bytes, data: bytes) -> bytes: ...
