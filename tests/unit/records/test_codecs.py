"""Compression: every framing of Kafka's clients, damaged data, and decompression bombs."""

import gzip
import struct
import subprocess
import sys
import textwrap
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.records import (
    BatchRecord,
    BatchTooLarge,
    Codec,
    InvalidBatch,
    check_batch,
    compress,
    decode_batch,
    decompress,
    encode_batch,
    recompress,
    walk,
)
from moldau.records.codecs import MAX_BLOCKS, MAX_GZIP_MEMBERS

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
LINES = b"".join(b'{"id": %d, "name": "user-%d"}\n' % (i, i * 7919 % 1000) for i in range(20_000))  # several blocks

LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")  # independent blocks of 64 KB and nothing else, as Java writes it
LZ4_HEADER_WITH_SIZE_11 = bytes.fromhex("04224d18 68 40 0b00000000000000 58")
LZ4_END = bytes(4)
ZSTD_HEADER = bytes.fromhex("28b52ffd 00 58")  # a window of 2 MB, no content size, no checksum
XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def lz4_stored(data: bytes) -> bytes:
    return struct.pack("<I", len(data) | 0x80000000) + data


def zstd_block(kind: int, size: int, data: bytes, last: bool = False) -> bytes:
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3] + data


def refused(codec: Codec, data: bytes, words: str) -> None:
    with pytest.raises(InvalidBatch, match=words):
        decompress(codec, data)


@pytest.mark.parametrize("codec", Codec)
@given(data=st.binary(max_size=2000) | st.integers(0, 300).map(lambda n: b"0123456789" * 100 * n))
def test_compressed_data_is_decompressed_unchanged(codec: Codec, data: bytes) -> None:
    packed = compress(codec, memoryview(bytearray(data)))
    assert bytes(decompress(codec, packed)) == data
    assert bytes(decompress(codec, memoryview(bytearray(packed)), len(data))) == data


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 9), (Codec.ZSTD, 1), (Codec.ZSTD, 9)]
)
def test_levels_are_honoured(codec: Codec, level: int) -> None:
    packed = compress(codec, LINES, level)
    assert bytes(decompress(codec, packed)) == LINES
    assert len(packed) != len(compress(codec, LINES))


# -- framings


def test_snappy_is_written_in_javas_framing_and_read_bare_too() -> None:
    packed = compress(Codec.SNAPPY, LINES)
    assert packed.startswith(XERIAL_HEADER)
    sizes = []
    at = len(XERIAL_HEADER)
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        sizes.append(cramjam.snappy.decompress_raw_len(packed[at + 4 : at + 4 + size]))
        at += 4 + size
    assert max(sizes) == 32 * 1024
    assert sum(sizes) == len(LINES)
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(LINES)))) == LINES


def test_lz4_is_written_in_independent_blocks_as_java_needs_it() -> None:
    packed = compress(Codec.LZ4, LINES)
    assert packed.startswith(LZ4_HEADER[:4])
    assert packed[4] & 0x24 == 0x20  # independent, no content checksum


def test_lz4_frames_of_other_writers_are_read() -> None:
    hello = lz4_stored(b"hello world")
    assert bytes(decompress(Codec.LZ4, LZ4_HEADER + hello + LZ4_END)) == b"hello world"
    assert bytes(decompress(Codec.LZ4, LZ4_HEADER_WITH_SIZE_11 + hello + LZ4_END)) == b"hello world"
    assert bytes(decompress(Codec.LZ4, LZ4_HEADER + hello + hello + LZ4_END)) == b"hello world" * 2
    assert bytes(decompress(Codec.LZ4, LZ4_HEADER + LZ4_END)) == b""


def test_zstd_frames_of_other_writers_are_read() -> None:
    streaming = cramjam.zstd.Compressor()
    streaming.compress(LINES)
    unsized = bytes(streaming.finish())
    assert bytes(decompress(Codec.ZSTD, unsized)) == LINES
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    assert bytes(decompress(Codec.ZSTD, skippable + unsized + compress(Codec.ZSTD, b"more"))) == LINES + b"more"
    repeated = ZSTD_HEADER + zstd_block(1, 1000, b"x") + zstd_block(0, 3, b"abc", last=True)
    assert bytes(decompress(Codec.ZSTD, repeated)) == b"x" * 1000 + b"abc"


def test_concatenated_gzip_is_read_up_to_a_bound() -> None:
    member = gzip.compress(b"abc")
    assert bytes(decompress(Codec.GZIP, member * MAX_GZIP_MEMBERS)) == b"abc" * MAX_GZIP_MEMBERS
    refused(Codec.GZIP, member * (MAX_GZIP_MEMBERS + 1), "members")


# -- damage


@pytest.mark.parametrize("codec", COMPRESSED)
def test_truncated_data_is_damage_or_shorter_valid_data(codec: Codec) -> None:
    data = LINES[:70_000]
    packed = compress(codec, data)
    for size in [*range(min(64, len(packed))), *range(64, len(packed), 997), len(packed) - 1]:
        try:
            out = bytes(decompress(codec, packed[:size]))
        except InvalidBatch:
            continue
        # Java's snappy framing has no end mark; missing records are detected by their count.
        assert codec is Codec.SNAPPY
        assert len(out) < len(data)
        assert data.startswith(out)


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.data())
def test_changed_bytes_are_damage_or_other_data_never_anything_else(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, LINES[:5000]))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        out = decompress(codec, packed, 1 << 20)
    except InvalidBatch:
        return
    assert len(out) <= 1 << 20


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.binary(max_size=200))
def test_noise_is_damage(codec: Codec, data: bytes) -> None:
    magic = {
        Codec.GZIP: b"\x1f\x8b\x08\x00",
        Codec.SNAPPY: XERIAL_HEADER,
        Codec.LZ4: LZ4_HEADER,
        Codec.ZSTD: ZSTD_HEADER,
    }
    for noise in (data, magic[codec] + data):
        try:
            decompress(codec, noise, 1 << 20)
        except InvalidBatch:
            pass


def test_data_that_javas_reader_cannot_read_is_refused() -> None:
    hello = lz4_stored(b"hello world")
    refused(Codec.LZ4, bytes.fromhex("04224d18 40 40 c0") + hello + LZ4_END, "depend on one another")
    refused(Codec.LZ4, bytes.fromhex("04224d18 61 40 00") + hello + LZ4_END, "dictionary")
    refused(Codec.LZ4, bytes.fromhex("04224d18 60 30 00") + hello + LZ4_END, "block size code 3")
    refused(Codec.LZ4, LZ4_HEADER + hello, "cut off")
    refused(Codec.LZ4, LZ4_HEADER + hello + LZ4_END + b"?", "the frame ends at byte")
    # Java would stop after the first frame
    refused(Codec.LZ4, (LZ4_HEADER + hello + LZ4_END) * 2, "the frame ends at byte")
    refused(Codec.LZ4, struct.pack("<II", 0x184D2A50, 0) + LZ4_HEADER + LZ4_END, "no LZ4 frame")
    refused(Codec.LZ4, LZ4_HEADER + struct.pack("<I", 65_537) + bytes(65_537) + LZ4_END, "does not fit")


def test_broken_framings_are_refused() -> None:
    refused(Codec.SNAPPY, XERIAL_HEADER[:12], "header is cut off")
    refused(Codec.SNAPPY, XERIAL_HEADER + b"\x00\x00", "length is cut off")
    for size in (-1, 0, 9):
        refused(Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", size) + b"12345678", f"a block of {size} bytes")
    refused(Codec.SNAPPY, b"", "decompressed")
    refused(Codec.ZSTD, b"", "decompressed")
    refused(Codec.ZSTD, b"notazstdframe", "no zstd frame at byte 0")
    refused(Codec.ZSTD, struct.pack("<II", 0x184D2A50, 100), "cut off")
    refused(Codec.ZSTD, ZSTD_HEADER + zstd_block(0, 5, b"abc", last=True), "cut off")
    refused(Codec.ZSTD, ZSTD_HEADER + zstd_block(0, 3, b"abc"), "cut off")
    refused(Codec.ZSTD, ZSTD_HEADER + zstd_block(3, 0, b"", last=True), "decompressed")
    refused(Codec.GZIP, gzip.compress(b"abc") + b"garbage", "decompressed")
    refused(Codec.GZIP, zlib.compress(b"abc"), "decompressed")


def test_frames_of_many_tiny_blocks_are_refused_early() -> None:
    crumbs = MAX_BLOCKS + 1
    refused(Codec.LZ4, LZ4_HEADER + lz4_stored(b"x") * crumbs + LZ4_END, "blocks")
    refused(Codec.ZSTD, ZSTD_HEADER + zstd_block(1, 0, b"x") * crumbs + zstd_block(0, 0, b"", last=True), "blocks")
    refused(Codec.ZSTD, (ZSTD_HEADER + zstd_block(0, 1, b"x", last=True)) * crumbs, "blocks")
    refused(Codec.SNAPPY, XERIAL_HEADER + (struct.pack(">i", 3) + b"\x01\x00x") * crumbs, "blocks")


# -- bombs


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_bound_is_exact(codec: Codec) -> None:
    size = 1 << 20
    packed = compress(codec, bytes(size))
    assert len(decompress(codec, packed, size)) == size
    with pytest.raises(BatchTooLarge, match=f"more than {size - 1} bytes"):
        decompress(codec, packed, size - 1)
    with pytest.raises(BatchTooLarge):
        decompress(codec, packed, 0)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_way_into_a_batch_is_bounded(codec: Codec) -> None:
    batch = encode_batch([BatchRecord(0, 0, b"k", bytes(1 << 20))], codec=codec)
    assert check_batch(batch, 0, max_decompressed=2 << 20).count == 1
    with pytest.raises(BatchTooLarge):
        check_batch(batch, 0, max_decompressed=1 << 20)
    with pytest.raises(BatchTooLarge):
        decode_batch(batch, max_decompressed=1 << 20)
    with pytest.raises(BatchTooLarge):
        walk(batch, max_decompressed=1 << 20)
    with pytest.raises(BatchTooLarge):
        recompress(batch, 0, Codec.NONE, max_decompressed=1 << 20)


def test_an_impossible_size_is_refused_before_memory_is_allocated() -> None:
    refused(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x", "cannot hold the 4294967295 they declare")
    one_byte_claims_exabytes = bytes.fromhex("28b52ffd e0 ffffffffffffff7f") + zstd_block(0, 1, b"x", last=True)
    refused(Codec.ZSTD, one_byte_claims_exabytes, "decompressed")


def test_bombs_cost_no_memory() -> None:
    """A quarter of a gigabyte in a few kilobytes, in four encodings; refused in a process whose memory hardly grows."""
    code = """
        import resource, struct, zlib, cramjam
        from moldau.records import BatchTooLarge, Codec, compress, decompress

        # Built so that building them costs little memory itself
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        chunk = bytes(1 << 20)
        gzip = b"".join(packer.compress(chunk) for _ in range(256)) + packer.flush()
        lz4_block = bytes(cramjam.lz4.compress_block(bytes(65536), store_size=False))
        lz4 = bytes.fromhex("04224d18604082") + (struct.pack("<I", len(lz4_block)) + lz4_block) * 4000 + bytes(4)
        zstd = bytes.fromhex("28b52ffd0088") + (struct.pack("<I", 131072 << 3 | 2)[:3] + b"x") * 2000
        zstd += struct.pack("<I", 1)[:3]  # and it asks for a window of 128 MB
        snappy_block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
        snappy = b"\\x82SNAPPY\\0\\0\\0\\0\\1\\0\\0\\0\\1" + (struct.pack(">i", len(snappy_block)) + snappy_block) * 256

        for codec in Codec:
            compress(codec, decompress(codec, compress(codec, chunk)))  # what the libraries allocate once
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for codec, bomb in ((Codec.GZIP, gzip), (Codec.LZ4, lz4), (Codec.ZSTD, zstd), (Codec.SNAPPY, snappy)):
            try:
                decompress(codec, bomb, 1 << 20)
            except BatchTooLarge:
                continue
            raise SystemExit(f"{codec.name} went through")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 16 * 1024, f"{grown} KB"
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
