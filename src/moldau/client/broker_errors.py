"""A class for each error code that an application may want to catch, with what it means and what to do about it.

Import them from `moldau.client.errors`; codes without a class of their own come as plain `BrokerError`.
"""

from __future__ import annotations

from typing import ClassVar

from moldau.client.own_errors import MoldauError
from moldau.wire.errors import ErrorCode

__all__ = [
    "CLASS_OF",
    "COORDINATOR_MOVED",
    "STALE_METADATA",
    "BrokerError",
    "ClusterAuthorizationFailed",
    "CommitFailed",
    "ConcurrentTransactions",
    "CoordinatorLoadInProgress",
    "CoordinatorNotAvailable",
    "CorruptRecord",
    "DuplicateSequence",
    "ErrorCode",
    "FencedInstanceId",
    "FencedLeaderEpoch",
    "FencedMemberEpoch",
    "GroupAuthorizationFailed",
    "GroupIdNotFound",
    "GroupMaxSizeReached",
    "GroupNotEmpty",
    "GroupSubscribedToTopic",
    "IllegalGeneration",
    "InconsistentGroupProtocol",
    "InvalidConfig",
    "InvalidGroupId",
    "InvalidPartitions",
    "InvalidProducerEpoch",
    "InvalidProducerIdMapping",
    "InvalidRecord",
    "InvalidRegularExpression",
    "InvalidReplicaAssignment",
    "InvalidReplicationFactor",
    "InvalidRequest",
    "InvalidSessionTimeout",
    "InvalidTimestamp",
    "InvalidTopic",
    "InvalidTransactionTimeout",
    "InvalidTxnState",
    "KafkaStorageFailed",
    "LeaderNotAvailable",
    "LogDirNotFound",
    "NoOffsetForPartition",
    "NotController",
    "NotCoordinator",
    "NotEnoughReplicas",
    "NotEnoughReplicasAfterAppend",
    "NotLeaderOrFollower",
    "OffsetMetadataTooLarge",
    "OffsetNotAvailable",
    "OffsetOutOfRange",
    "OutOfOrderSequence",
    "PolicyViolation",
    "ProducerFenced",
    "RebalanceInProgress",
    "RecordBatchTooLarge",
    "RecordTooLarge",
    "RequestTimedOut",
    "StaleMemberEpoch",
    "ThrottlingQuotaExceeded",
    "TopicAlreadyExists",
    "TopicAuthorizationFailed",
    "TopicDeletionDisabled",
    "TransactionAbortable",
    "TransactionCoordinatorFenced",
    "TransactionalIdAuthorizationFailed",
    "TransactionalIdNotFound",
    "UnknownLeaderEpoch",
    "UnknownMemberId",
    "UnknownProducerId",
    "UnknownServerError",
    "UnknownTopicId",
    "UnknownTopicOrPartition",
    "UnreleasedInstanceId",
    "UnstableOffsetCommit",
    "UnsupportedAssignor",
    "UnsupportedCompression",
    "UnsupportedForMessageFormat",
    "UnsupportedVersion",
    "error_for",
]

Code = ErrorCode


class BrokerError(MoldauError):
    """The broker answered with an error code."""

    CODE: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    """The code that a subclass stands for."""

    SAYS: ClassVar[str] = ""
    """What the code means and what to do, for the message."""

    def __init__(self, message: str, code: ErrorCode | None = None, detail: str | None = None) -> None:
        super().__init__(message)
        self.code = type(self).CODE if code is None else code
        self.detail = detail
        """The broker's own words, where it sent some."""
        self.retriable = self.code.retriable

    def __init_subclass__(cls, code: ErrorCode | None = None, says: str = "") -> None:
        cls.SAYS = says or cls.SAYS
        if code is not None:
            cls.CODE = code
            CLASS_OF[code] = cls


CLASS_OF: dict[ErrorCode, type[BrokerError]] = {}
"""The class for each code that has one of its own."""

# Topics and partitions ------------------------------------------------------------------------------------------------


class UnknownTopicOrPartition(
    BrokerError,
    code=Code.UNKNOWN_TOPIC_OR_PARTITION,
    says="the broker knows no such topic or partition; check the name, or create the topic",
): ...


class UnknownTopicId(
    BrokerError,
    code=Code.UNKNOWN_TOPIC_ID,
    says="the topic was deleted, or deleted and created again; look it up again by its name",
): ...


class TopicAlreadyExists(
    BrokerError,
    code=Code.TOPIC_ALREADY_EXISTS,
    says="a topic of this name is there already; use it, or choose another name",
): ...


class InvalidTopic(
    BrokerError,
    code=Code.INVALID_TOPIC_EXCEPTION,
    says="not a legal topic name: 1 to 249 letters, digits, dots, dashes and underscores",
): ...


class TopicDeletionDisabled(
    BrokerError, code=Code.TOPIC_DELETION_DISABLED, says="the brokers run with delete.topic.enable=false"
): ...


class InvalidPartitions(
    BrokerError, code=Code.INVALID_PARTITIONS, says="that many partitions are not possible; a topic can only grow"
): ...


class InvalidReplicationFactor(
    BrokerError,
    code=Code.INVALID_REPLICATION_FACTOR,
    says="there are not that many brokers; ask for fewer replicas, or leave the number out",
): ...


class InvalidReplicaAssignment(
    BrokerError, code=Code.INVALID_REPLICA_ASSIGNMENT, says="the replicas do not fit the cluster's brokers"
): ...


class InvalidConfig(BrokerError, code=Code.INVALID_CONFIG, says="a setting that the broker does not take"): ...


class PolicyViolation(BrokerError, code=Code.POLICY_VIOLATION, says="the cluster's policy forbids it"): ...


class InvalidRequest(
    BrokerError, code=Code.INVALID_REQUEST, says="the broker finds the request contradictory or incomplete"
): ...


class LeaderNotAvailable(
    BrokerError, code=Code.LEADER_NOT_AVAILABLE, says="the partition has no leader at the moment; try again"
): ...


class NotLeaderOrFollower(
    BrokerError, code=Code.NOT_LEADER_OR_FOLLOWER, says="the partition has moved to another broker; try again"
): ...


class FencedLeaderEpoch(
    BrokerError, code=Code.FENCED_LEADER_EPOCH, says="the partition has a newer leader than the client knew; try again"
): ...


class UnknownLeaderEpoch(
    BrokerError, code=Code.UNKNOWN_LEADER_EPOCH, says="the broker has not heard of that leader yet; try again"
): ...


class NotController(BrokerError, code=Code.NOT_CONTROLLER, says="another broker is the controller now; try again"): ...


class KafkaStorageFailed(
    BrokerError, code=Code.KAFKA_STORAGE_ERROR, says="a disk of the broker has failed; try again, another may take over"
): ...


class LogDirNotFound(
    BrokerError, code=Code.LOG_DIR_NOT_FOUND, says="the broker has no such data directory; describe_log_dirs lists them"
): ...


# Records --------------------------------------------------------------------------------------------------------------


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


class OffsetNotAvailable(
    BrokerError, code=Code.OFFSET_NOT_AVAILABLE, says="a new leader does not know its end yet; try again"
): ...


# Groups ---------------------------------------------------------------------------------------------------------------


class CommitFailed(
    BrokerError,
    says="the group has given the partitions to others: poll was not called for max.poll.interval.ms, or the session "
    "ended; what was read since the last commit will be read again",
): ...


class IllegalGeneration(
    BrokerError, code=Code.ILLEGAL_GENERATION, says="the group has gone on to a newer generation without this member"
): ...


class UnknownMemberId(
    BrokerError, code=Code.UNKNOWN_MEMBER_ID, says="the group has no such member, or has given it up"
): ...


class RebalanceInProgress(
    BrokerError, code=Code.REBALANCE_IN_PROGRESS, says="the group is being rebalanced; call poll, then try again"
): ...


class FencedInstanceId(
    BrokerError,
    code=Code.FENCED_INSTANCE_ID,
    says="another consumer has joined with the same group.instance.id; each needs one of its own",
): ...


class UnreleasedInstanceId(
    BrokerError,
    code=Code.UNRELEASED_INSTANCE_ID,
    says="a living member holds this group.instance.id; each needs one of its own",
): ...


class FencedMemberEpoch(
    BrokerError, code=Code.FENCED_MEMBER_EPOCH, says="the group has given this member up; it has to join again"
): ...


class StaleMemberEpoch(
    BrokerError, code=Code.STALE_MEMBER_EPOCH, says="the member has a newer epoch; try again after the next poll"
): ...


class InconsistentGroupProtocol(
    BrokerError,
    code=Code.INCONSISTENT_GROUP_PROTOCOL,
    says="the group's members share no assignor with this one, or the group is of another kind; "
    "see partition.assignment.strategy and group.protocol",
): ...


class UnsupportedAssignor(
    BrokerError,
    code=Code.UNSUPPORTED_ASSIGNOR,
    says="the broker does not have the assignor of group.remote.assignor",
): ...


class InvalidSessionTimeout(
    BrokerError,
    code=Code.INVALID_SESSION_TIMEOUT,
    says="session.timeout.ms is outside of what the broker allows "
    "(group.min.session.timeout.ms to group.max.session.timeout.ms)",
): ...


class InvalidGroupId(BrokerError, code=Code.INVALID_GROUP_ID, says="not a legal group.id; it may not be empty"): ...


class GroupIdNotFound(BrokerError, code=Code.GROUP_ID_NOT_FOUND, says="there is no such group"): ...


class GroupNotEmpty(BrokerError, code=Code.NON_EMPTY_GROUP, says="the group has members; stop them first"): ...


class GroupSubscribedToTopic(
    BrokerError, code=Code.GROUP_SUBSCRIBED_TO_TOPIC, says="the group's members read this topic; stop them first"
): ...


class GroupMaxSizeReached(
    BrokerError, code=Code.GROUP_MAX_SIZE_REACHED, says="the group has as many members as the broker allows"
): ...


class InvalidRegularExpression(
    BrokerError, code=Code.INVALID_REGULAR_EXPRESSION, says="the broker cannot read the pattern; it takes RE2's syntax"
): ...


class OffsetMetadataTooLarge(
    BrokerError,
    code=Code.OFFSET_METADATA_TOO_LARGE,
    says="the text that goes with the offset is longer than offset.metadata.max.bytes",
): ...


class UnstableOffsetCommit(
    BrokerError, code=Code.UNSTABLE_OFFSET_COMMIT, says="a transaction over these offsets is open; try again"
): ...


class CoordinatorNotAvailable(
    BrokerError, code=Code.COORDINATOR_NOT_AVAILABLE, says="no broker coordinates it at the moment; try again"
): ...


class CoordinatorLoadInProgress(
    BrokerError, code=Code.COORDINATOR_LOAD_IN_PROGRESS, says="the coordinator is still loading; try again"
): ...


class NotCoordinator(BrokerError, code=Code.NOT_COORDINATOR, says="another broker coordinates it now; try again"): ...


# Producers and transactions -------------------------------------------------------------------------------------------


class ProducerFenced(
    BrokerError,
    code=Code.PRODUCER_FENCED,
    says="a newer producer has started with the same transactional.id; this one must be closed",
): ...


class InvalidProducerEpoch(
    BrokerError,
    code=Code.INVALID_PRODUCER_EPOCH,
    says="the producer's epoch is over: a newer producer has taken its place, or its transaction timed out",
): ...


class OutOfOrderSequence(
    BrokerError,
    code=Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    says="a batch before this one is missing; the broker refuses to store a gap",
): ...


class DuplicateSequence(BrokerError, code=Code.DUPLICATE_SEQUENCE_NUMBER, says="the batch was stored before"): ...


class UnknownProducerId(
    BrokerError, code=Code.UNKNOWN_PRODUCER_ID, says="the broker has forgotten this producer; its records have expired"
): ...


class InvalidTxnState(
    BrokerError, code=Code.INVALID_TXN_STATE, says="the transaction is in a state in which this cannot be done"
): ...


class InvalidProducerIdMapping(
    BrokerError,
    code=Code.INVALID_PRODUCER_ID_MAPPING,
    says="the producer id does not belong to this transactional.id (any more); it has expired or was taken over",
): ...


class InvalidTransactionTimeout(
    BrokerError,
    code=Code.INVALID_TRANSACTION_TIMEOUT,
    says="transaction.timeout.ms is larger than the broker's transaction.max.timeout.ms",
): ...


class ConcurrentTransactions(
    BrokerError, code=Code.CONCURRENT_TRANSACTIONS, says="the transaction before it is still being ended; try again"
): ...


class TransactionCoordinatorFenced(
    BrokerError, code=Code.TRANSACTION_COORDINATOR_FENCED, says="an old coordinator tried to end the transaction"
): ...


class TransactionAbortable(
    BrokerError, code=Code.TRANSACTION_ABORTABLE, says="the transaction must be aborted; then a new one may begin"
): ...


class TransactionalIdNotFound(
    BrokerError, code=Code.TRANSACTIONAL_ID_NOT_FOUND, says="the cluster knows no such transactional id"
): ...


# Permissions, limits and the rest -------------------------------------------------------------------------------------


class TopicAuthorizationFailed(
    BrokerError, code=Code.TOPIC_AUTHORIZATION_FAILED, says="not allowed for this topic; ask for the permission"
): ...


class GroupAuthorizationFailed(
    BrokerError, code=Code.GROUP_AUTHORIZATION_FAILED, says="not allowed for this group; ask for the permission"
): ...


class ClusterAuthorizationFailed(
    BrokerError, code=Code.CLUSTER_AUTHORIZATION_FAILED, says="not allowed on this cluster; ask for the permission"
): ...


class TransactionalIdAuthorizationFailed(
    BrokerError,
    code=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    says="not allowed for this transactional.id; ask for the permission",
): ...


class ThrottlingQuotaExceeded(
    BrokerError, code=Code.THROTTLING_QUOTA_EXCEEDED, says="a quota is used up; try again later"
): ...


class RequestTimedOut(
    BrokerError, code=Code.REQUEST_TIMED_OUT, says="the broker could not do it in time; try again"
): ...


class UnsupportedVersion(
    BrokerError, code=Code.UNSUPPORTED_VERSION, says="the broker is too old, or too new, for this request"
): ...


class UnknownServerError(
    BrokerError, code=Code.UNKNOWN_SERVER_ERROR, says="the broker failed and did not say why; its log will"
): ...


SAYS_OF = {
    Code.MEMBER_ID_REQUIRED: "the member has to join again with the id that it was given",
    Code.REASSIGNMENT_IN_PROGRESS: "the partitions are being moved; wait until that is done",
    Code.OPERATION_NOT_ATTEMPTED: "not tried, because another part of the same request failed",
    Code.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or all",
    Code.SECURITY_DISABLED: "the brokers run without an authorizer",
    Code.INVALID_UPDATE_VERSION: "the feature cannot be taken to that version",
    Code.FEATURE_UPDATE_FAILED: "the feature was not changed",
    Code.REBOOTSTRAP_REQUIRED: "the client has to start anew from bootstrap.servers",
}
"""What codes without a class of their own mean, where the name alone does not say it."""

STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Codes after which the client's picture of the cluster is to be refreshed before the next attempt."""

COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Codes after which the coordinator is to be looked up again."""


def error_for(code: int, what: str, detail: str | None = None) -> BrokerError:
    """The error for a code read from the wire. `what` was being done ("creating topic 'orders'"), `detail` is what the
    broker said about it.
    """
    known = ErrorCode.of(code)
    kind = CLASS_OF.get(known, BrokerError)
    says = kind.SAYS if kind is not BrokerError else SAYS_OF.get(known, "")
    # A broker's own sentence names the thing at fault; ours adds what to do.
    reason = "; ".join(part for part in (detail and detail.rstrip("."), says) if part) or "the broker refused it"
    name = known.name if known == code else f"code {code}"
    return kind(f"{what}: {reason} ({name})", known, detail)
