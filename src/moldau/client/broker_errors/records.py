"""Broker errors about records: refused, written by too few replicas, or not found."""

from __future__ import annotations

from moldau.client.broker_errors.base import BrokerError
from moldau.client.data_types import TopicPartition
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
    says="larger than max.message.bytes of the topic; raise it, or send smaller records",
): ...


class RecordBatchTooLarge(
    BrokerError,
    code=Code.RECORD_LIST_TOO_LARGE,
    says="the batch is larger than segment.bytes of the topic; lower batch.size, or raise segment.bytes",
): ...


class InvalidRecord(
    BrokerError,
    code=Code.INVALID_RECORD,
    says="the topic does not accept this record; for example, records of a compacted topic need keys",
): ...


class CorruptRecord(
    BrokerError, code=Code.CORRUPT_MESSAGE, says="the checksum is wrong: the data was damaged in transit or on disk"
): ...


class InvalidTimestamp(
    BrokerError,
    code=Code.INVALID_TIMESTAMP,
    says="the timestamp is too far from the broker's clock; see message.timestamp.before.max.ms and "
    "message.timestamp.after.max.ms of the topic",
): ...


class UnsupportedCompression(
    BrokerError, code=Code.UNSUPPORTED_COMPRESSION_TYPE, says="the broker does not support this compression.type"
): ...


class UnsupportedForMessageFormat(
    BrokerError, code=Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, says="the message format of the topic is too old"
): ...


class NotEnoughReplicas(
    BrokerError,
    code=Code.NOT_ENOUGH_REPLICAS,
    says="fewer replicas are in sync than min.insync.replicas requires; try again when followers have caught up",
): ...


class NotEnoughReplicasAfterAppend(
    BrokerError,
    code=Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    says="written, but by fewer replicas than min.insync.replicas requires; without idempotence a retry may write "
    "the records twice",
): ...


class OffsetOutOfRange(
    BrokerError,
    code=Code.OFFSET_OUT_OF_RANGE,
    says="the offset is before the first or after the last record; call seek, or set auto.offset.reset",
): ...


class NoOffsetForPartition(OffsetOutOfRange):
    """No offset is committed for the partition, and auto.offset.reset is none. Call seek, or change the setting."""


class LogTruncated(OffsetOutOfRange):
    """Records that were read are no longer in the partition, and auto.offset.reset is none.

    A replica without these records became the leader in an unclean election. Seek to `truncated_to` to continue.
    """

    def __init__(self, message: str, partition: TopicPartition, position: int, truncated_to: int) -> None:
        super().__init__(message, Code.OFFSET_OUT_OF_RANGE)
        self.partition = partition
        self.position = position
        """The consumer's position: the offset after the last record that it has read."""
        self.truncated_to = truncated_to
        """The first offset at which the log differs from what the consumer has read."""


class OffsetNotAvailable(
    BrokerError,
    code=Code.OFFSET_NOT_AVAILABLE,
    says="the new leader does not know its high watermark yet; try again",
): ...
