"""Unsigned varints and tagged fields, for the tuned codecs."""

from __future__ import annotations

from moldau.wire.errors import WireError

MAX_VARINT_BYTES = 5


def read_uvarint(buf: memoryview, pos: int) -> tuple[int, int]:
    """The value at `pos` and the position after it."""
    byte = buf[pos]
    pos += 1
    if byte < 0x80:
        return byte, pos
    value = byte & 0x7F
    for shift in range(7, 7 * MAX_VARINT_BYTES, 7):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise WireError("varint longer than five bytes")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(buf: memoryview, pos: int) -> int:
    """The position after a block of tagged fields, all of which are skipped."""
    count, pos = read_uvarint(buf, pos)
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > len(buf):
            raise WireError("tagged field passes the end of the frame")
    return pos
