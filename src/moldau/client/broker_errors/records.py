"""Errors of brokers about records that were written, refused, or not found: what each means, and what to do."""

from __future__ import annotations

from moldau.client.broker_errors.base import BrokerError
from moldau.client.model import TopicPartition
from moldau.wire.errors import ErrorCode as Code

__all__ = [
    "CorruptRecord",
    "InvalidRecord",
    "InvalidTimestamp",
    "LogTruncated",
    "NoOffsetForPartition",
    "NotEnoughReplicas",
    "NotEnoughReplicasAfterAppend",
    "OffsetNotAvailable",
    "OffsetOutOfRange",
    "RecordBatchTooLarge",
    "RecordTooLarge",
    "UnsupportedCompression",
    "UnsupportedForMessageFormat",
]


class RecordTooLarge(
    BrokerError,
    code=Code.MESSAGE_TOO_LARGE,
    says="larger than max.message.bytes of the topic allows; raise it there, or send smaller records",
): ...


class RecordBatchTooLarge(
    BrokerError,
    code=Code.RECORD_LIST_TOO_LARGE,
    says="the batch is larger than a segment of the topic; lower batch.size, or raise segment.bytes",
): ...


class InvalidRecord(
    BrokerError,
    code=Code.INVALID_RECORD,
    says="the topic does not take this record; a compacted topic, for example, needs keys",
): ...


class CorruptRecord(
    BrokerError, code=Code.CORRUPT_MESSAGE, says="the bytes were damaged on the way or on disk; their checksum is wrong"
): ...


class InvalidTimestamp(
    BrokerError,
    code=Code.INVALID_TIMESTAMP,
    says="the timestamp is too far from the broker's clock; see message.timestamp.before.max.ms and after.max.ms",
): ...


class UnsupportedCompression(
    BrokerError, code=Code.UNSUPPORTED_COMPRESSION_TYPE, says="the broker cannot read this compression.type"
): ...


class UnsupportedForMessageFormat(
    BrokerError, code=Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, says="the topic's records are in a format that is too old"
): ...


class NotEnoughReplicas(
    BrokerError,
    code=Code.NOT_ENOUGH_REPLICAS,
    says="fewer replicas in sync than min.insync.replicas asks for; try again",
): ...


class NotEnoughReplicasAfterAppend(
    BrokerError,
    code=Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    says="written by fewer replicas than min.insync.replicas asks for; sent again it may be stored twice",
): ...


class OffsetOutOfRange(
    BrokerError,
    code=Code.OFFSET_OUT_OF_RANGE,
    says="the offset is before the first or after the last record; seek, or set auto.offset.reset",
): ...


class NoOffsetForPartition(OffsetOutOfRange):
    """Nothing is committed for the partition, and auto.offset.reset=none says not to guess."""


class LogTruncated(OffsetOutOfRange):
    """Records that were read are no longer in the partition: somebody without them was made its leader (an unclean
    election), and auto.offset.reset=none says not to guess where to go on."""

    def __init__(self, message: str, partition: TopicPartition, position: int, truncated_to: int) -> None:
        super().__init__(message, Code.OFFSET_OUT_OF_RANGE)
        self.partition = partition
        self.position = position
        """Where the consumer was: the record after the last one that it has read."""
        self.truncated_to = truncated_to
        """Up to here, the log still has what was read."""


class OffsetNotAvailable(
    BrokerError, code=Code.OFFSET_NOT_AVAILABLE, says="a new leader does not know its end yet; try again"
): ...
