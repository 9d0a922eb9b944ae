"""Murmur2 hash of keys: with Kafka's variant, all clients choose the same partition for a key."""

from typing import Final

from moldau.records.batch_layout import Bytes

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_32_BITS: Final = 0xFFFFFFFF


def murmur2(data: Bytes) -> int:
    """The hash as an unsigned 32-bit number."""
    size = len(data)
    hashed = (_SEED ^ size) & _32_BITS
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _32_BITS
        word ^= word >> 24
        hashed = (hashed * _M & _32_BITS) ^ (word * _M & _32_BITS)
    if size != whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _32_BITS
    hashed ^= hashed >> 13
    hashed = hashed * _M & _32_BITS
    return hashed ^ hashed >> 15
