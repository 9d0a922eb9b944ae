"""What a topic asks of a batch beyond its format: timestamps, size, codec. The unhurried half of `Log.append`.

The fast half compares a few numbers; only a batch that is unusual comes here, to be refused with a reason or changed
into what the topic stores. And what a leader has accepted before: that is checked for damage and order alone.
"""

from __future__ import annotations

from typing import NoReturn

from moldau.log.config import LogConfig
from moldau.log.errors import LogError, RejectedBatch
from moldau.records import (
    HEADER_SIZE,
    BatchError,
    BatchHeader,
    BatchInfo,
    CorruptBatch,
    TimestampType,
    UnsupportedCodec,
    crc_ok,
    peek_header,
    recompress,
    set_timestamps,
    walk,
)
from moldau.wire.errors import ErrorCode

MAX_RECORD_ERRORS = 1000
"""A response that names more records than this helps nobody."""


def stamped_headers(data: memoryview, end_offset: int, where: str) -> list[BatchHeader]:
    """The headers of the whole batches in what a leader sent: none of them damaged, each behind the one before, the
    first not before `end_offset`. What is cut off at the end is left out."""
    at, total = 0, len(data)
    found: list[BatchHeader] = []
    while total - at >= HEADER_SIZE:
        try:
            header = peek_header(data, at)
        except CorruptBatch as error:
            refuse(error, where)
        if header.size > total - at:
            break
        if header.magic != 2 or not crc_ok(data, at, header.size):
            raise RejectedBatch(ErrorCode.CORRUPT_MESSAGE, f"offset {header.base_offset} of {where} is corrupt")
        if header.base_offset < end_offset or header.last_offset_delta < 0:
            message = f"offset {header.base_offset} where {where} goes on at {end_offset}"
            raise LogError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        end_offset = header.last_offset + 1
        at += header.size
        found.append(header)
    return found


def refuse(error: BatchError, where: str) -> NoReturn:
    """Turns what `check_batch` found into what the client is told."""
    if isinstance(error, CorruptBatch):
        code = ErrorCode.CORRUPT_MESSAGE
    elif isinstance(error, UnsupportedCodec):
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    else:
        code = ErrorCode.INVALID_RECORD
    records = [] if error.record_index is None else [(error.record_index, str(error))]
    raise RejectedBatch(code, f"{error} (in {where})", records) from None


def check_size(size: int, config: LogConfig, where: str) -> None:
    if size > config.max_message_bytes:
        raise RejectedBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes for {where} is above max.message.bytes, {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise RejectedBatch(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes for {where} is above segment.bytes, {config.segment_bytes}",
        )


def check_single(size: int, given: int, where: str) -> None:
    """A produce request carries exactly one batch a partition."""
    if size != given:
        raise RejectedBatch(
            ErrorCode.INVALID_RECORD,
            f"{given - size} bytes follow the batch for {where}: a request carries one batch a partition",
        )


def check_timestamps(data: memoryview, info: BatchInfo, config: LogConfig, now_ms: int, where: str) -> None:
    """RejectedBatch with the records that are too old or too far in the future, or a type that is the broker's."""
    if config.append_time:
        if info.timestamp_type == TimestampType.LOG_APPEND_TIME:
            raise RejectedBatch(
                ErrorCode.INVALID_TIMESTAMP, f"a producer cannot set the timestamp type LogAppendTime (in {where})"
            )
        return
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    if info.min_record_timestamp >= earliest and info.max_record_timestamp <= latest:
        return
    columns = walk(data, 0)
    wrong = [
        (index, f"timestamp {timestamp} is outside of {earliest} to {latest}")
        for index, timestamp in enumerate(columns.timestamp)
        if timestamp != -1 and not earliest <= timestamp <= latest
    ]
    if wrong:
        raise RejectedBatch(
            ErrorCode.INVALID_TIMESTAMP,
            f"{len(wrong)} records for {where} have a timestamp that the topic does not accept",
            wrong[:MAX_RECORD_ERRORS],
        )


def normalise(data: memoryview, info: BatchInfo, config: LogConfig, now_ms: int) -> tuple[memoryview, int]:
    """The batch as the topic stores it, and its largest timestamp: codec, timestamp type and claims put right."""
    codec = config.codec
    # Control batches stay as they are written: compressing one record helps nobody, and tools expect them plain.
    if codec is not None and codec != info.codec_id and not info.is_control:
        try:
            data = memoryview(recompress(data, 0, codec, config.compression_level))
        except BatchError as error:
            raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"could not be recompressed: {error}") from error
    wanted = TimestampType.LOG_APPEND_TIME if config.append_time else TimestampType.CREATE_TIME
    max_timestamp = now_ms if config.append_time else info.max_record_timestamp
    if info.timestamp_type != wanted or info.max_timestamp != max_timestamp:
        set_timestamps(data, 0, len(data), wanted, max_timestamp)
    return data, max_timestamp
