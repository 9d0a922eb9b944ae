"""Broker errors about topics, partitions, replicas and leaders."""

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
    says="the topic or partition does not exist; check the name, or create the topic",
): ...


class UnknownTopicId(
    BrokerError,
    code=Code.UNKNOWN_TOPIC_ID,
    says="the topic was deleted, or deleted and created again; look it up again by its name",
): ...


class TopicAlreadyExists(
    BrokerError,
    code=Code.TOPIC_ALREADY_EXISTS,
    says="a topic with this name exists; use it, or choose another name",
): ...


class InvalidTopic(
    BrokerError,
    code=Code.INVALID_TOPIC_EXCEPTION,
    says="not a valid topic name; use 1 to 249 letters, digits, dots, dashes and underscores",
): ...


class TopicDeletionDisabled(
    BrokerError,
    code=Code.TOPIC_DELETION_DISABLED,
    says="topics cannot be deleted, because the brokers have delete.topic.enable=false",
): ...


class InvalidPartitions(
    BrokerError,
    code=Code.INVALID_PARTITIONS,
    says="this number of partitions is not possible; partitions can be added, but not removed",
): ...


class InvalidReplicationFactor(
    BrokerError,
    code=Code.INVALID_REPLICATION_FACTOR,
    says="the cluster has fewer brokers; lower the replication factor, or leave it out",
): ...


class InvalidReplicaAssignment(
    BrokerError,
    code=Code.INVALID_REPLICA_ASSIGNMENT,
    says="the assignment names brokers that do not exist, or names a broker twice",
): ...


class InvalidConfig(BrokerError, code=Code.INVALID_CONFIG, says="the broker does not accept the setting"): ...


class PolicyViolation(BrokerError, code=Code.POLICY_VIOLATION, says="a policy of the cluster forbids it"): ...


class InvalidRequest(BrokerError, code=Code.INVALID_REQUEST, says="the request is contradictory or incomplete"): ...


class LeaderNotAvailable(
    BrokerError, code=Code.LEADER_NOT_AVAILABLE, says="the partition has no leader at the moment; try again"
): ...


class NotLeaderOrFollower(
    BrokerError, code=Code.NOT_LEADER_OR_FOLLOWER, says="another broker leads the partition now; try again"
): ...


class FencedLeaderEpoch(
    BrokerError, code=Code.FENCED_LEADER_EPOCH, says="the partition has a newer leader epoch; try again"
): ...


class UnknownLeaderEpoch(
    BrokerError, code=Code.UNKNOWN_LEADER_EPOCH, says="the broker does not know this leader epoch yet; try again"
): ...


class PreferredLeaderNotAvailable(
    BrokerError,
    code=Code.PREFERRED_LEADER_NOT_AVAILABLE,
    says="the preferred leader is offline or not in sync; try again when it has caught up",
): ...


class EligibleLeadersNotAvailable(
    BrokerError,
    code=Code.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    says="no replica that may become leader is online; start one of them, or run an unclean election, which may lose "
    "records",
): ...


class NoReassignmentInProgress(
    BrokerError, code=Code.NO_REASSIGNMENT_IN_PROGRESS, says="the partition is not being reassigned"
): ...


class NotController(BrokerError, code=Code.NOT_CONTROLLER, says="another broker is the controller now; try again"): ...


class KafkaStorageFailed(
    BrokerError,
    code=Code.KAFKA_STORAGE_ERROR,
    says="a disk of the broker has failed; try again when another broker leads the partition",
): ...


class LogDirNotFound(
    BrokerError,
    code=Code.LOG_DIR_NOT_FOUND,
    says="the broker does not have this data directory; describe_log_dirs lists its directories",
): ...
