"""Record batches, format 2: checked, decoded, encoded, compressed. Bytes in, bytes out; no files, no sockets.

On the broker's path a batch is never taken apart into objects: `check_batch` walks it, `stamp` gives it its place, and
the same bytes are written and served. Objects (`Record`) are for clients, tools and tests; columns of positions
(`walk`) for whoever handles many records at a time.

`reference.py` is the format in readable Python, `_native.pyx` the same in Cython; `engine.py` picks one.
"""

from moldau.records.batch import crc_ok, peek_header, recompress, reseal, seal, set_timestamps, stamp
from moldau.records.codecs import compress, decompress
from moldau.records.control import ControlType, Marker, encode_marker, parse_marker
from moldau.records.crc import crc32c
from moldau.records.encode import encode_batch
from moldau.records.engine import NATIVE, RecordsBuilder, check_batch, decode_batch, walk
from moldau.records.errors import BatchError, BatchTooLarge, CorruptBatch, InvalidBatch, UnsupportedCodec
from moldau.records.model import (
    HEADER_SIZE,
    MAX_DECOMPRESSED,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    BatchInfo,
    Codec,
    Record,
    RecordColumns,
    TimestampType,
)

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
    "BatchTooLarge",
    "Codec",
    "ControlType",
    "CorruptBatch",
    "InvalidBatch",
    "Marker",
    "Record",
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
