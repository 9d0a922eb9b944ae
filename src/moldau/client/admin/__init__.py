"""Admin client: topics, replicas, settings, groups and their offsets, data directories, transactions, cluster."""

from moldau.client.admin.acls import allow, deny
from moldau.client.admin.admin import Admin
from moldau.client.admin.cluster import ClusterDescription, Features, VersionRange
from moldau.client.admin.configs import (
    Append,
    ConfigChange,
    ConfigEntry,
    ConfigKind,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    Subtract,
)
from moldau.client.admin.delegation_tokens import IssuedToken
from moldau.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from moldau.client.admin.log_dirs import LogDir, ReplicaInfo
from moldau.client.admin.offsets import UP_TO_THE_END, ListedOffset, OffsetSpec
from moldau.client.admin.outcome import SomeFailed
from moldau.client.admin.quotas import ANY_NAME
from moldau.client.admin.replicas import ElectionType, OngoingReassignment
from moldau.client.admin.resets import (
    ByDuration,
    Reset,
    ResetOffset,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTimestamp,
)
from moldau.client.admin.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from moldau.client.admin.transactions import (
    AbortSpec,
    OpenTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from moldau.client.admin.users import UserScramDeletion, UserScramUpsertion
from moldau.security.acls import AclEntry, AclFilter, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.credentials import ScramMechanism
from moldau.security.quota_entities import DEFAULT, QuotaEntity
from moldau.security.resources import Operation, Principal, ResourceType

__all__ = [
    "ANY_NAME",
    "DEFAULT",
    "UP_TO_THE_END",
    "AbortSpec",
    "AclEntry",
    "AclFilter",
    "AclRule",
    "Admin",
    "Append",
    "ByDuration",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigKind",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "CreatedTopic",
    "ElectionType",
    "Features",
    "GroupDescription",
    "GroupListing",
    "IssuedToken",
    "ListedOffset",
    "LogDir",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "OngoingReassignment",
    "OpenTransaction",
    "Operation",
    "PartitionDescription",
    "PatternType",
    "Permission",
    "Principal",
    "ProducerState",
    "QuotaEntity",
    "ReplicaInfo",
    "Reset",
    "ResetOffset",
    "ResourcePattern",
    "ResourceType",
    "ScramMechanism",
    "ShiftBy",
    "SomeFailed",
    "Subtract",
    "ToCurrent",
    "ToEarliest",
    "ToLatest",
    "ToOffset",
    "ToOffsets",
    "ToTimestamp",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "UserScramDeletion",
    "UserScramUpsertion",
    "VersionRange",
    "allow",
    "deny",
]
