"""kafka-python with all codecs, imported without the deprecation warnings that it causes.

Its codecs come from the optional modules `snappy`, `lz4.frame` and `zstandard`, which are not installed here. cramjam,
a dependency of Moldau, replaces them. The framing around the compressed bytes, about which brokers and clients
disagree, stays kafka-python's.
"""

from __future__ import annotations

import io
import warnings
from types import SimpleNamespace
from typing import Any, Self

import cramjam

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    import kafka.errors as errors
    import kafka.record.default_records
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        AlterConfigOp,
        ConfigResource,
        KafkaAdminClient,
        OffsetSpec,
        ResourcePattern,
        ResourceType,
    )
    from kafka.net.sasl.oauth import AbstractTokenProvider
    from kafka.net.selector import NetworkSelector

__all__ = [
    "ACL",
    "ACLFilter",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "AbstractTokenProvider",
    "AlterConfigOp",
    "ConfigResource",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "NetworkSelector",
    "OffsetSpec",
    "ResourcePattern",
    "ResourceType",
    "TopicPartition",
    "errors",
]


class _ZstdCompressor:
    def compress(self, data: bytes) -> bytes:
        return bytes(cramjam.zstd.compress(data))


class _ZstdReader:
    def __init__(self, source: io.BytesIO) -> None:
        self._source = source

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def read(self) -> bytes:
        return bytes(cramjam.zstd.decompress(self._source.read()))


class _ZstdDecompressor:
    def stream_reader(self, source: io.BytesIO, read_across_frames: bool) -> _ZstdReader:
        assert read_across_frames
        return _ZstdReader(source)


def _lz4_compress(data: bytes) -> bytes:
    compressor = cramjam.lz4.Compressor(block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def _lz4_decompress(data: bytes) -> bytes:
    return bytes(cramjam.lz4.decompress(data))


def _give_codecs() -> None:
    """Add only missing codecs: if the real modules are installed, the tests use them."""
    codecs: Any = kafka.codec
    if codecs.snappy is None:
        codecs.snappy = SimpleNamespace(
            compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
            decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
        )
    if codecs.zstd is None:
        codecs.zstd = SimpleNamespace(ZstdCompressor=_ZstdCompressor, ZstdDecompressor=_ZstdDecompressor)
    if not codecs.has_lz4():
        codecs.lz4 = SimpleNamespace(compress=_lz4_compress, decompress=_lz4_decompress)
        # Names that other modules of kafka-python have already imported.
        for module in (codecs, kafka.record.default_records):
            module.lz4_encode, module.lz4_decode = _lz4_compress, _lz4_decompress


_give_codecs()
