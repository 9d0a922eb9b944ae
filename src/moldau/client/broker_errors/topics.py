"""Errors of brokers about topics, partitions and the brokers that have them: what each means, and what to do."""

from __future__ import annotations

from moldau.client.broker_errors.base import BrokerError
from moldau.wire.errors import ErrorCode as Code

__all__ = [
    "EligibleLeadersNotAvailable",
    "FencedLeaderEpoch",
    "InvalidConfig",
    "InvalidPartitions",
    "InvalidReplicaAssignment",
    "InvalidReplicationFactor",
    "InvalidRequest",
    "InvalidTopic",
    "KafkaStorageFailed",
    "LeaderNotAvailable",
    "LogDirNotFound",
    "NoReassignmentInProgress",
    "NotController",
    "NotLeaderOrFollower",
    "PolicyViolation",
    "PreferredLeaderNotAvailable",
    "TopicAlreadyExists",
    "TopicDeletionDisabled",
    "UnknownLeaderEpoch",
    "UnknownTopicId",
    "UnknownTopicOrPartition",
]


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


class PreferredLeaderNotAvailable(
    BrokerError,
    code=Code.PREFERRED_LEADER_NOT_AVAILABLE,
    says="the first replica is away or not in sync; try again when it has caught up",
): ...


class EligibleLeadersNotAvailable(
    BrokerError,
    code=Code.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    says="no replica that may lead is alive; bring one of them back, or hold an unclean election where one lives",
): ...


class NoReassignmentInProgress(
    BrokerError, code=Code.NO_REASSIGNMENT_IN_PROGRESS, says="the partition is not being reassigned"
): ...


class NotController(BrokerError, code=Code.NOT_CONTROLLER, says="another broker is the controller now; try again"): ...


class KafkaStorageFailed(
    BrokerError, code=Code.KAFKA_STORAGE_ERROR, says="a disk of the broker has failed; try again, another may take over"
): ...


class LogDirNotFound(
    BrokerError, code=Code.LOG_DIR_NOT_FOUND, says="the broker has no such data directory; describe_log_dirs lists them"
): ...
