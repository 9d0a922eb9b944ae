"""CRC32C in all implementations."""

import crc32c as package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records import BatchRecord, crc32c, crc_ok, encode_batch, reseal

try:
    from moldau.records import _crc
except ImportError:
    _crc = None  # type: ignore[assignment]

IMPLEMENTATIONS = [pytest.param(crc32c, id="chosen"), pytest.param(package.crc32c, id="package")]
if _crc is not None and _crc.AVAILABLE:
    IMPLEMENTATIONS.append(pytest.param(_crc.crc32c, id="extension"))

# RFC 3720, appendix B.4, and the check value of the CRC catalogue
VECTORS = [
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(reversed(range(32))), 0x113FDB5C),
    (b"", 0),
]
# Lengths around those at which the extension changes its step: 8, 3 * 128, 3 * 1024
lengths = st.integers(0, 70) | st.integers(370, 1200) | st.integers(3050, 3100) | st.integers(6100, 20_000)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(("data", "checksum"), VECTORS)
def test_published_values_are_computed(implementation, data: bytes, checksum: int) -> None:  # type: ignore[no-untyped-def]
    assert implementation(data) == checksum


@given(length=lengths, seed=st.binary(min_size=1, max_size=31), cut=st.integers(0, 20_000), start=st.integers(0, 9))
def test_results_equal_the_packages_for_any_length_position_and_continuation(
    length: int, seed: bytes, cut: int, start: int
) -> None:
    data = (seed * (length // len(seed) + 1))[:length]
    expected = package.crc32c(data)
    assert crc32c(memoryview(bytearray(start) + data)[start:]) == expected
    assert crc32c(bytearray(data[cut:]), crc32c(data[:cut])) == expected


def test_a_checksum_is_computed_only_for_a_possible_batch() -> None:
    batch = encode_batch([BatchRecord(0, 1, b"k", b"v")])
    padded = b"xx" + batch + b"yy"
    assert crc_ok(padded, 2, len(batch))
    assert not crc_ok(padded, 1, len(batch))
    assert not crc_ok(padded, 2, len(batch) + 3)
    assert not crc_ok(padded, -1, len(batch))
    assert not crc_ok(padded, 2, 60)


def test_a_changed_batch_is_resealed_in_place() -> None:
    batch = bytearray(b"xx" + encode_batch([BatchRecord(0, 1, b"k", b"v")]))
    batch[-2] ^= 1
    assert not crc_ok(batch, 2, len(batch) - 2)
    reseal(batch, 2, len(batch) - 2)
    assert crc_ok(batch, 2, len(batch) - 2)
