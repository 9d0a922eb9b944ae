"""Table of all APIs of the protocol with their known versions: ApiKey, Api and APIS.

A broker serves at most these versions, and fewer while a handler is missing.

Generated from definitions/; change those, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from types import MappingProxyType
from typing import Final, NamedTuple

from moldau.wire.message import Request, Response


class ApiKey(IntEnum):
    """The number of an API in a request header."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Api(NamedTuple):
    """The name of an API, its versions, and the module of its messages."""

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    flexible_from: int | None
    latest_unstable: bool
    module: str

    @property
    def max_stable_version(self) -> int:
        """The highest version that is stable in Apache Kafka."""
        return self.max_version - self.latest_unstable

    def request_type(self) -> type[Request]:
        """The class of its request; imports the module on first use."""
        found: type[Request] = getattr(import_module(self.module), self.name + "Request")
        return found

    def response_type(self) -> type[Response]:
        """The class of its response; imports the module on first use."""
        found: type[Response] = getattr(import_module(self.module), self.name + "Response")
        return found


_MESSAGES = "moldau.wire.messages."

APIS: Final[Mapping[ApiKey, Api]] = MappingProxyType(
    {
        api.key: api
        for api in (
            Api(ApiKey.PRODUCE, "Produce", 0, 13, 9, False, _MESSAGES + "produce"),
            Api(ApiKey.FETCH, "Fetch", 4, 18, 12, False, _MESSAGES + "fetch"),
            Api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, 6, False, _MESSAGES + "list_offsets"),
            Api(ApiKey.METADATA, "Metadata", 0, 13, 9, False, _MESSAGES + "metadata"),
            Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, 8, False, _MESSAGES + "offset_commit"),
            Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, 6, False, _MESSAGES + "offset_fetch"),
            Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3, False, _MESSAGES + "find_coordinator"),
            Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6, False, _MESSAGES + "join_group"),
            Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4, False, _MESSAGES + "heartbeat"),
            Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4, False, _MESSAGES + "leave_group"),
            Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4, False, _MESSAGES + "sync_group"),
            Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5, False, _MESSAGES + "describe_groups"),
            Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3, False, _MESSAGES + "list_groups"),
            Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, None, False, _MESSAGES + "sasl_handshake"),
            Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3, False, _MESSAGES + "api_versions"),
            Api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, 5, False, _MESSAGES + "create_topics"),
            Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, 4, False, _MESSAGES + "delete_topics"),
            Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2, False, _MESSAGES + "delete_records"),
            Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 6, 2, True, _MESSAGES + "init_producer_id"),
            Api(
                ApiKey.OFFSET_FOR_LEADER_EPOCH,
                "OffsetForLeaderEpoch",
                2,
                4,
                4,
                False,
                _MESSAGES + "offset_for_leader_epoch",
            ),
            Api(
                ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3, False, _MESSAGES + "add_partitions_to_txn"
            ),
            Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3, False, _MESSAGES + "add_offsets_to_txn"),
            Api(ApiKey.END_TXN, "EndTxn", 0, 5, 3, False, _MESSAGES + "end_txn"),
            Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1, False, _MESSAGES + "write_txn_markers"),
            Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, 3, False, _MESSAGES + "txn_offset_commit"),
            Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2, False, _MESSAGES + "describe_acls"),
            Api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, 2, False, _MESSAGES + "create_acls"),
            Api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, 2, False, _MESSAGES + "delete_acls"),
            Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4, False, _MESSAGES + "describe_configs"),
            Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2, False, _MESSAGES + "alter_configs"),
            Api(
                ApiKey.ALTER_REPLICA_LOG_DIRS,
                "AlterReplicaLogDirs",
                1,
                2,
                2,
                False,
                _MESSAGES + "alter_replica_log_dirs",
            ),
            Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2, False, _MESSAGES + "describe_log_dirs"),
            Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2, False, _MESSAGES + "sasl_authenticate"),
            Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2, False, _MESSAGES + "create_partitions"),
            Api(
                ApiKey.CREATE_DELEGATION_TOKEN,
                "CreateDelegationToken",
                1,
                3,
                2,
                False,
                _MESSAGES + "create_delegation_token",
            ),
            Api(
                ApiKey.RENEW_DELEGATION_TOKEN,
                "RenewDelegationToken",
                1,
                2,
                2,
                False,
                _MESSAGES + "renew_delegation_token",
            ),
            Api(
                ApiKey.EXPIRE_DELEGATION_TOKEN,
                "ExpireDelegationToken",
                1,
                2,
                2,
                False,
                _MESSAGES + "expire_delegation_token",
            ),
            Api(
                ApiKey.DESCRIBE_DELEGATION_TOKEN,
                "DescribeDelegationToken",
                1,
                3,
                2,
                False,
                _MESSAGES + "describe_delegation_token",
            ),
            Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2, False, _MESSAGES + "delete_groups"),
            Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2, False, _MESSAGES + "elect_leaders"),
            Api(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                "IncrementalAlterConfigs",
                0,
                1,
                1,
                False,
                _MESSAGES + "incremental_alter_configs",
            ),
            Api(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                "AlterPartitionReassignments",
                0,
                1,
                0,
                False,
                _MESSAGES + "alter_partition_reassignments",
            ),
            Api(
                ApiKey.LIST_PARTITION_REASSIGNMENTS,
                "ListPartitionReassignments",
                0,
                0,
                0,
                False,
                _MESSAGES + "list_partition_reassignments",
            ),
            Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, None, False, _MESSAGES + "offset_delete"),
            Api(
                ApiKey.DESCRIBE_CLIENT_QUOTAS,
                "DescribeClientQuotas",
                0,
                1,
                1,
                False,
                _MESSAGES + "describe_client_quotas",
            ),
            Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1, False, _MESSAGES + "alter_client_quotas"),
            Api(
                ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
                "DescribeUserScramCredentials",
                0,
                0,
                0,
                False,
                _MESSAGES + "describe_user_scram_credentials",
            ),
            Api(
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
                "AlterUserScramCredentials",
                0,
                0,
                0,
                False,
                _MESSAGES + "alter_user_scram_credentials",
            ),
            Api(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, 0, False, _MESSAGES + "describe_quorum"),
            Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, 0, False, _MESSAGES + "update_features"),
            Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0, False, _MESSAGES + "describe_cluster"),
            Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0, False, _MESSAGES + "describe_producers"),
            Api(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", 0, 0, 0, False, _MESSAGES + "unregister_broker"),
            Api(
                ApiKey.DESCRIBE_TRANSACTIONS,
                "DescribeTransactions",
                0,
                0,
                0,
                False,
                _MESSAGES + "describe_transactions",
            ),
            Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0, False, _MESSAGES + "list_transactions"),
            Api(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                "ConsumerGroupHeartbeat",
                0,
                1,
                0,
                False,
                _MESSAGES + "consumer_group_heartbeat",
            ),
            Api(
                ApiKey.CONSUMER_GROUP_DESCRIBE,
                "ConsumerGroupDescribe",
                0,
                1,
                0,
                False,
                _MESSAGES + "consumer_group_describe",
            ),
            Api(
                ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
                "GetTelemetrySubscriptions",
                0,
                0,
                0,
                False,
                _MESSAGES + "get_telemetry_subscriptions",
            ),
            Api(ApiKey.PUSH_TELEMETRY, "PushTelemetry", 0, 0, 0, False, _MESSAGES + "push_telemetry"),
            Api(
                ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0, False, _MESSAGES + "list_config_resources"
            ),
            Api(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                "DescribeTopicPartitions",
                0,
                0,
                0,
                False,
                _MESSAGES + "describe_topic_partitions",
            ),
            Api(
                ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, 0, False, _MESSAGES + "share_group_heartbeat"
            ),
            Api(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, 0, False, _MESSAGES + "share_group_describe"),
            Api(ApiKey.SHARE_FETCH, "ShareFetch", 1, 2, 0, False, _MESSAGES + "share_fetch"),
            Api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 2, 0, False, _MESSAGES + "share_acknowledge"),
            Api(
                ApiKey.STREAMS_GROUP_HEARTBEAT,
                "StreamsGroupHeartbeat",
                0,
                0,
                0,
                False,
                _MESSAGES + "streams_group_heartbeat",
            ),
            Api(
                ApiKey.STREAMS_GROUP_DESCRIBE,
                "StreamsGroupDescribe",
                0,
                0,
                0,
                False,
                _MESSAGES + "streams_group_describe",
            ),
            Api(
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                "DescribeShareGroupOffsets",
                0,
                1,
                0,
                False,
                _MESSAGES + "describe_share_group_offsets",
            ),
            Api(
                ApiKey.ALTER_SHARE_GROUP_OFFSETS,
                "AlterShareGroupOffsets",
                0,
                0,
                0,
                False,
                _MESSAGES + "alter_share_group_offsets",
            ),
            Api(
                ApiKey.DELETE_SHARE_GROUP_OFFSETS,
                "DeleteShareGroupOffsets",
                0,
                0,
                0,
                False,
                _MESSAGES + "delete_share_group_offsets",
            ),
        )
    }
)
