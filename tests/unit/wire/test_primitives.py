"""Varints and other field types, at their limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.wire.errors import WireError
from moldau.wire.primitives import read_string, read_uvarint, uvarint, write_string


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (16_383, b"\xff\x7f"),
        (16_384, b"\x80\x80\x01"),
        ((1 << 32) - 1, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_a_varint_has_seven_bits_a_byte_the_lowest_first(value: int, encoded: bytes) -> None:
    assert uvarint(value) == encoded
    assert read_uvarint(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))


@given(st.integers(0, (1 << 32) - 1))
def test_every_varint_is_decoded_unchanged(value: int) -> None:
    encoded = uvarint(value)
    assert read_uvarint(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize("encoded", [b"\xff\xff\xff\xff\x10", b"\xff\xff\xff\xff\x8f\x00", b"\x80" * 6])
def test_a_varint_of_more_than_32_bits_is_refused(encoded: bytes) -> None:
    with pytest.raises(WireError, match="32 bits"):
        read_uvarint(encoded, 0)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 16_382, 16_383, 32_767])
@pytest.mark.parametrize("flexible", [False, True])
def test_strings_come_back_at_every_size_where_their_length_grows(size: int, flexible: bool) -> None:
    out: list[bytes] = []
    write_string(lambda part: out.append(bytes(part)), "x" * size, flexible)
    encoded = b"".join(out)
    for data in (encoded, memoryview(encoded)):
        assert read_string(data, 0, flexible) == ("x" * size, len(encoded))
