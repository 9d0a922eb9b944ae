"""Record batches of format 2: checking, decoding, encoding and compression. No files, no sockets.

The broker never decodes a batch into objects: `check_batch` walks over it, `stamp` writes its offset and leader epoch,
and the same bytes are stored and served. Objects (`BatchRecord`) are for clients, tools and tests. Columns of positions
(`walk`) are for code that handles many records at a time.

`reference.py` implements the format in readable Python, `_native.pyx` the same in Cython; `engine.py` picks one.
"""

from moldau.records.batch import crc_ok, peek_header, recompress, reseal, seal, set_timestamps, stamp
from moldau.records.batch_layout import (
    HEADER_SIZE,
    MAX_DECOMPRESSED,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    BatchInfo,
    BatchRecord,
    Codec,
    RecordColumns,
    TimestampType,
)
from moldau.records.codecs import compress, decompress
from moldau.records.control import ControlType, Marker, encode_marker, parse_marker
from moldau.records.crc import crc32c
from moldau.records.encode import encode_batch
from moldau.records.engine import NATIVE, RecordsBuilder, check_batch, decode_batch, walk
from moldau.records.errors import BatchError, BatchTooLarge, CorruptBatch, InvalidBatch, MissingKey, UnsupportedCodec

__all__ = [
    "HEADER_SIZE",
    "MAX_DECOMPRESSED",
    "NATIVE",
    "NO_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchError",
    "BatchHeader",
    "BatchInfo",
    "BatchRecord",
    "BatchTooLarge",
    "Codec",
    "ControlType",
    "CorruptBatch",
    "InvalidBatch",
    "Marker",
    "MissingKey",
    "RecordColumns",
    "RecordsBuilder",
    "TimestampType",
    "UnsupportedCodec",
    "check_batch",
    "compress",
    "crc32c",
    "crc_ok",
    "decode_batch",
    "decompress",
    "encode_batch",
    "encode_marker",
    "parse_marker",
    "peek_header",
    "recompress",
    "reseal",
    "seal",
    "set_timestamps",
    "stamp",
    "walk",
]
