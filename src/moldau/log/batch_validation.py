"""Batch validation against topic settings: timestamps, size and codec. The slow path of `Log.append`.

The fast path compares a few numbers. Only an unusual batch comes here: it is refused with a reason, or changed to the
form that the topic stores. Batches that a leader has already accepted are checked only for damage and order.
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
    MissingKey,
    TimestampType,
    UnsupportedCodec,
    crc_ok,
    peek_header,
    recompress,
    set_timestamps,
    walk,
)
from moldau.wire.errors import ErrorCode

MAX_RECORD_ERRORS = 10_000
"""The largest number of records that one response names: librdkafka's default limit of records per batch."""


def stamped_headers(data: memoryview, end_offset: int, where: str) -> list[BatchHeader]:
    """The headers of the complete batches in a leader's response.

    Raises if a batch is damaged, or if offsets do not increase from `end_offset`. An incomplete batch at the end is
    ignored.
    """
    at, total = 0, len(data)
    found: list[BatchHeader] = []
    while total - at >= HEADER_SIZE:
        try:
            header = peek_header(data, at)
        except CorruptBatch as error:
            refuse(error, data, where)
        if header.size > total - at:
            break
        if header.magic != 2 or not crc_ok(data, at, header.size):
            raise RejectedBatch(ErrorCode.CORRUPT_MESSAGE, f"offset {header.base_offset} of {where} is corrupt")
        if header.base_offset < end_offset or header.last_offset_delta < 0:
            message = f"offset {header.base_offset}, but {where} continues at {end_offset}"
            raise LogError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        end_offset = header.last_offset + 1
        at += header.size
        found.append(header)
    return found


def refuse(error: BatchError, data: memoryview, where: str) -> NoReturn:
    """Convert an error of `check_batch` to the error for the client."""
    if isinstance(error, MissingKey):
        _refuse_missing_keys(data, where)
    if isinstance(error, CorruptBatch):
        code = ErrorCode.CORRUPT_MESSAGE
    elif isinstance(error, UnsupportedCodec):
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    else:
        code = ErrorCode.INVALID_RECORD
    records = [] if error.record_index is None else [(error.record_index, str(error))]
    raise RejectedBatch(code, f"{error} (in {where})", records) from None


def _refuse_missing_keys(data: memoryview, where: str) -> NoReturn:
    """Name every record without a key: clients report only the named records as invalid."""
    try:
        columns = walk(data, 0)
    except BatchError as error:
        refuse(error, data, where)
    wrong = [index for index, size in enumerate(columns.key_size) if size < 0]
    rule = "a compacted topic accepts only records with a key"
    raise RejectedBatch(
        ErrorCode.INVALID_RECORD,
        f"{len(wrong)} of {len(columns)} records for {where} have no key: {rule}",
        [(index, f"record {index} has no key: {rule}") for index in wrong[:MAX_RECORD_ERRORS]],
    )


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
    """Refuse more than one batch: a produce request has exactly one batch per partition."""
    if size != given:
        raise RejectedBatch(
            ErrorCode.INVALID_RECORD,
            f"{given - size} bytes follow the batch for {where}: a request must have one batch per partition",
        )


def check_timestamps(data: memoryview, info: BatchInfo, config: LogConfig, now_ms: int, where: str) -> None:
    """Refuse records that are too old or too far in the future, and a timestamp type that only the broker may set."""
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
    times = walk(data, 0).timestamp
    wrong = [index for index, time in enumerate(times) if time != -1 and not earliest <= time <= latest]
    if wrong:
        raise RejectedBatch(
            ErrorCode.INVALID_TIMESTAMP,
            f"{len(wrong)} records for {where} have a timestamp that the topic does not accept",
            [
                (index, f"timestamp {times[index]} is outside of {earliest} to {latest}")
                for index in wrong[:MAX_RECORD_ERRORS]
            ],
        )


def normalise(data: memoryview, info: BatchInfo, config: LogConfig, now_ms: int) -> tuple[memoryview, int]:
    """The batch as the topic stores it, and its largest timestamp: corrects codec, timestamp type and header fields."""
    codec = config.codec
    # Control batches are not recompressed: compressing one record saves nothing, and tools expect them uncompressed.
    if codec is not None and codec != info.codec_id and not info.is_control:
        try:
            data = memoryview(recompress(data, 0, codec, config.compression_level))
        except BatchError as error:
            raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a batch could not be recompressed: {error}") from error
    wanted = TimestampType.LOG_APPEND_TIME if config.append_time else TimestampType.CREATE_TIME
    max_timestamp = now_ms if config.append_time else info.max_record_timestamp
    if info.timestamp_type != wanted or info.max_timestamp != max_timestamp:
        set_timestamps(data, 0, len(data), wanted, max_timestamp)
    return data, max_timestamp
