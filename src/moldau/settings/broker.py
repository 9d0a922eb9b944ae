"""Broker settings, with Kafka 4's names, and Moldau's own settings under `moldau.`.

Every setting declared here takes effect, or its `no_effect` says why it does not. `kafka_only.py` has the other
settings of Kafka: the broker accepts them and logs a warning.
"""

from __future__ import annotations

from functools import partial

from moldau.settings.authorization import AUTHORIZATION
from moldau.settings.cleaning import CLEANING
from moldau.settings.delegation_tokens import DELEGATION_TOKENS
from moldau.settings.elections import ELECTIONS
from moldau.settings.groups import GROUPS
from moldau.settings.listeners import SECURITY_PROTOCOLS
from moldau.settings.quotas import QUOTAS
from moldau.settings.replication import REPLICATION
from moldau.settings.sasl import OAUTHBEARER, SASL
from moldau.settings.schema_validation import REGISTRY_OF_BROKER
from moldau.settings.setting import INT_MAX, Scope, Setting, SettingError, SettingType, Value
from moldau.settings.table import SettingTable
from moldau.settings.tls import TLS
from moldau.settings.topic import TOPIC
from moldau.settings.transactions import TRANSACTIONS
from moldau.settings.zookeeper import ZOOKEEPER

BOOLEAN, STRING, INT, SHORT, LONG, LIST = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.SHORT,
    SettingType.LONG,
    SettingType.LIST,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
NO_NODE_ID = -1

ONE_LOOP = "one event loop serves all connections"
EVENTS_WAKE = "events wake waiting requests, so there is nothing to purge"
EMBEDDED_STORE = "metadata is stored in an embedded store or in ZooKeeper"
NO_SHARE_GROUPS = "Moldau has no share groups"

_dynamic = partial(Setting, scope=Scope.BROKER_DYNAMIC)


def connection_overrides(text: str) -> dict[str, int]:
    """Parse `HOST:COUNT,...` of `max.connections.per.ip.overrides`.

    The last colon separates host and count, because a host may be an IPv6 address.
    """
    name = "max.connections.per.ip.overrides"
    overrides: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = item.rpartition(":")
        if not host or not (count.isascii() and count.isdecimal()) or int(count[:11]) > INT_MAX:
            raise SettingError(name, f"{item!r} is not of the form HOST:COUNT")
        overrides[host.strip().strip("[]")] = int(count)
    return overrides


def _check_overrides(value: Value) -> str | None:
    try:
        connection_overrides(str(value))
    except SettingError as error:
        return error.reason
    return None


def _unlimited_or_positive(value: Value) -> str | None:
    return "0 is not allowed: use -1 (no limit), or 1 or more" if value == 0 else None


def _includes_broker(value: Value) -> str | None:
    return None if isinstance(value, tuple) and "broker" in value else "must include broker"


_IDENTITY = (
    Setting(
        "node.id",
        INT,
        NO_NODE_ID,
        "The id of this broker in its cluster. With -1, the broker uses the id that is stored in its data directory.",
        low=0,
        extra_value=NO_NODE_ID,
    ),
    Setting("broker.id", INT, NO_NODE_ID, "The older name of `node.id`.", low=0, extra_value=NO_NODE_ID),
    Setting("broker.rack", STRING, None, "The rack or availability zone of this broker."),
)

_LISTENERS = (
    Setting(
        "listeners",
        LIST,
        ("PLAINTEXT://:9092",),
        "The addresses to listen on, each `NAME://HOST:PORT`. Without a host, the broker listens on every interface.",
    ),
    Setting(
        "advertised.listeners",
        LIST,
        None,
        "The address of each listener that clients connect to. Without it, the addresses of `listeners`.",
    ),
    Setting(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name.",
    ),
    Setting("inter.broker.listener.name", STRING, None, "The name of the listener for connections between brokers."),
    Setting(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The security protocol of connections between brokers: they use the listener with this name. Not allowed "
        "together with `inter.broker.listener.name`.",
        choices=SECURITY_PROTOCOLS,
    ),
    Setting(
        "controller.listener.names",
        LIST,
        (),
        "The listeners of Kafka's controllers. Moldau does not open the listeners that are named here.",
    ),
)

_CONNECTIONS = (
    Setting(
        "socket.request.max.bytes",
        INT,
        100 << 20,
        "The largest size of a request, in bytes. The broker closes a connection that announces a larger one.",
        low=1,
    ),
    Setting(
        "queued.max.request.bytes",
        LONG,
        512 << 20,
        "The limit of all requests in memory, in bytes. When it is reached, the broker stops reading until it has "
        "answered some of them. A negative number means no limit.",
    ),
    Setting(
        "moldau.queued.max.response.bytes",
        LONG,
        512 << 20,
        "The limit of all responses that clients have not read yet, in bytes. Above it, a fetch gets only one "
        "batch, and only when its connection has no unsent data. A single connection may hold 16 MiB. A negative "
        "number means no limit.",
    ),
    Setting(
        "moldau.max.inflight.requests.per.connection",
        INT,
        100,
        "The limit of unanswered requests per connection. When it is reached, the broker stops reading from the "
        "connection.",
        low=1,
    ),
    _dynamic("max.connections", INT, INT_MAX, "The limit of open connections of this broker.", low=0),
    _dynamic("max.connections.per.ip", INT, INT_MAX, "The limit of open connections from one IP address.", low=0),
    _dynamic(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Limits for single addresses that replace `max.connections.per.ip`: `HOST:COUNT`, separated by commas.",
        check=_check_overrides,
    ),
    Setting(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "The time in milliseconds after which a connection without requests is closed. A negative number keeps it "
        "open.",
    ),
    Setting(
        "socket.listen.backlog.size",
        INT,
        50,
        "The limit of connections that wait to be accepted, per listening socket.",
        low=1,
    ),
    Setting(
        "socket.send.buffer.bytes",
        INT,
        102_400,
        "The size of a socket's send buffer, in bytes; -1 uses the default of the operating system.",
        low=1,
        extra_value=-1,
    ),
    Setting(
        "socket.receive.buffer.bytes",
        INT,
        102_400,
        "The size of a socket's receive buffer, in bytes; -1 uses the default of the operating system.",
        low=1,
        extra_value=-1,
    ),
)

_FETCHING = (
    Setting(
        "fetch.max.bytes",
        INT,
        55 << 20,
        "The largest size of a fetch response in bytes, even if the client asks for more. If the first batch is "
        "larger, it is still sent whole.",
        low=1024,
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "The number of fetch sessions in the broker's cache. A client without a session sends its full list of "
        "partitions with each fetch.",
        low=0,
    ),
    Setting(
        "max.request.partition.size.limit",
        INT,
        2000,
        "The largest number of partitions in one DescribeTopicPartitions response.",
        low=1,
    ),
)

_TOPICS = (
    Setting(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Whether the broker creates a topic when a client asks for it and it does not exist.",
    ),
    Setting("delete.topic.enable", BOOLEAN, True, "Whether clients may delete topics."),
    Setting(
        "num.partitions", INT, 1, "The number of partitions of a new topic, if the request does not give one.", low=1
    ),
    Setting(
        "default.replication.factor",
        INT,
        1,
        "The number of replicas per partition of a new topic, if the request does not give one.",
        low=1,
    ),
)

_STORAGE = (
    Setting("log.dirs", LIST, None, "The directories that store the partitions. Without it, `log.dir`."),
    Setting("log.dir", LIST, ("moldau-data",), "The directory that stores the partitions, if `log.dirs` is not set."),
    Setting(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "The number of threads per data directory that load logs at start and recover them after a crash.",
        low=1,
    ),
    Setting(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "The time in milliseconds between two checkpoints of the flushed offsets. Recovery after a crash starts at "
        "the last checkpoint.",
        low=0,
    ),
    Setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "The time in milliseconds between two checkpoints of the log start offsets, which keep deleted records "
        "deleted.",
        low=0,
        no_effect="they are written together with the flushed offsets",
    ),
    Setting(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        "The time in milliseconds between two searches for segments to delete.",
        low=1,
    ),
    Setting(
        "moldau.threads",
        INT,
        8,
        "The number of threads for work that would block the event loop: reads that miss the page cache, flushes "
        "and recovery.",
        low=1,
        high=256,
    ),
)


def _topic_default(name: str, topic_name: str, *, scope: Scope = Scope.BROKER_DYNAMIC) -> Setting:
    """The broker's default of a topic setting: the same declaration with another name and scope."""
    topic = TOPIC[topic_name]
    return Setting(
        name,
        topic.type,
        topic.default,
        f"The default of the topic setting `{topic_name}`.",
        scope=scope,
        low=topic.low,
        high=topic.high,
        extra_value=topic.extra_value,
        choices=topic.choices,
        check=topic.check,
        no_effect=topic.no_effect,
    )


def _topic_time(name: str, topic_name: str, default: int | None, unit_ms: int, *, low: int = 1) -> Setting:
    """The default of a topic setting in one of several units. If several of them are set, the one with the smallest
    unit counts."""
    unit = {1: "milliseconds", MINUTE_MS: "minutes", HOUR_MS: "hours"}[unit_ms]
    return Setting(
        name,
        LONG if unit_ms == 1 else INT,
        default,
        f"The default of the topic setting `{topic_name}`, in {unit}.",
        scope=Scope.BROKER_DYNAMIC if unit_ms == 1 else Scope.BROKER_READ_ONLY,
        low=low,
        check=_unlimited_or_positive if low < 0 else None,
        unit_ms=unit_ms,
    )


_TOPIC_DEFAULTS = (
    _topic_default("log.cleanup.policy", "cleanup.policy"),
    _topic_time("log.retention.ms", "retention.ms", None, 1, low=-1),
    _topic_time("log.retention.minutes", "retention.ms", None, MINUTE_MS, low=-1),
    _topic_time("log.retention.hours", "retention.ms", 168, HOUR_MS, low=-1),
    _topic_default("log.retention.bytes", "retention.bytes"),
    _topic_default("log.segment.delete.delay.ms", "file.delete.delay.ms"),
    _topic_default("log.cleaner.delete.retention.ms", "delete.retention.ms"),
    _topic_default("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio"),
    _topic_default("log.cleaner.min.compaction.lag.ms", "min.compaction.lag.ms"),
    _topic_default("log.cleaner.max.compaction.lag.ms", "max.compaction.lag.ms"),
    _topic_default("log.segment.bytes", "segment.bytes"),
    _topic_time("log.roll.ms", "segment.ms", None, 1),
    _topic_time("log.roll.hours", "segment.ms", 168, HOUR_MS),
    _topic_time("log.roll.jitter.ms", "segment.jitter.ms", None, 1, low=0),
    _topic_time("log.roll.jitter.hours", "segment.jitter.ms", 0, HOUR_MS, low=0),
    _topic_default("log.index.size.max.bytes", "segment.index.bytes"),
    _topic_default("log.index.interval.bytes", "index.interval.bytes"),
    _topic_default("log.preallocate", "preallocate"),
    _topic_default("message.max.bytes", "max.message.bytes"),
    _topic_default("compression.type", "compression.type"),
    _topic_default("compression.gzip.level", "compression.gzip.level"),
    _topic_default("compression.lz4.level", "compression.lz4.level"),
    _topic_default("compression.zstd.level", "compression.zstd.level"),
    _topic_default("log.message.timestamp.type", "message.timestamp.type"),
    _topic_default("log.message.timestamp.before.max.ms", "message.timestamp.before.max.ms"),
    _topic_default("log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms"),
    _topic_default("log.flush.interval.messages", "flush.messages"),
    _topic_time("log.flush.interval.ms", "flush.ms", None, 1, low=0),
    _topic_default("log.flush.scheduler.interval.ms", "flush.ms", scope=Scope.BROKER_READ_ONLY),
    _topic_default("min.insync.replicas", "min.insync.replicas"),
    _topic_default("unclean.leader.election.enable", "unclean.leader.election.enable"),
)

_METRICS = (
    Setting(
        "moldau.metrics.port",
        INT,
        -1,
        "The port of the HTTP page with metrics; -1 disables it.",
        low=-1,
        high=65535,
    ),
    Setting("moldau.metrics.host", STRING, "127.0.0.1", "The address that the HTTP page with metrics listens on."),
)

# Settings that are common in a `server.properties` for Kafka. If the broker refused them, people could not try their
# own file.
_NO_EFFECT = (
    Setting(
        "num.network.threads",
        INT,
        3,
        "The number of network threads in Kafka.",
        low=1,
        scope=Scope.BROKER_DYNAMIC,
        no_effect=ONE_LOOP,
    ),
    Setting(
        "num.io.threads",
        INT,
        8,
        "The number of request handler threads in Kafka.",
        low=1,
        scope=Scope.BROKER_DYNAMIC,
        no_effect=ONE_LOOP,
    ),
    Setting(
        "background.threads",
        INT,
        10,
        "The number of background threads in Kafka.",
        low=1,
        scope=Scope.BROKER_DYNAMIC,
        no_effect="use `moldau.threads`",
    ),
    Setting("queued.max.requests", INT, 500, "The length of the request queue in Kafka.", low=1, no_effect=ONE_LOOP),
    Setting(
        "fetch.purgatory.purge.interval.requests",
        INT,
        1000,
        "The number of requests between two purges of waiting fetches in Kafka.",
        no_effect=EVENTS_WAKE,
    ),
    Setting(
        "producer.purgatory.purge.interval.requests",
        INT,
        1000,
        "The number of requests between two purges of waiting produce requests in Kafka.",
        no_effect=EVENTS_WAKE,
    ),
    Setting(
        "delete.records.purgatory.purge.interval.requests",
        INT,
        1,
        "The number of requests between two purges of waiting DeleteRecords requests in Kafka.",
        no_effect=EVENTS_WAKE,
    ),
    Setting(
        "process.roles",
        LIST,
        ("broker",),
        "The roles of a process in Kafka.",
        choices=("broker", "controller"),
        check=_includes_broker,
        no_effect="every broker can be the controller",
    ),
    Setting("controller.quorum.voters", LIST, (), "The controllers of a Kafka cluster.", no_effect=EMBEDDED_STORE),
    Setting(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        "The addresses of the controllers of a Kafka cluster.",
        no_effect=EMBEDDED_STORE,
    ),
    Setting(
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        3,
        "The number of replicas of the share coordinator's topic.",
        low=1,
        no_effect=NO_SHARE_GROUPS,
    ),
    Setting(
        "share.coordinator.state.topic.min.isr",
        SHORT,
        2,
        "The number of in-sync replicas that the share coordinator's topic needs.",
        low=1,
        no_effect=NO_SHARE_GROUPS,
    ),
)

BROKER = SettingTable(
    "broker",
    {
        "Identity": _IDENTITY,
        "Cluster": ZOOKEEPER,
        "Elections": ELECTIONS,
        "Listeners": _LISTENERS,
        "Encryption (TLS)": TLS,
        "Logins (SASL)": SASL,
        "Logins with tokens (OAUTHBEARER)": OAUTHBEARER,
        "Access control": AUTHORIZATION,
        "Connections and requests": _CONNECTIONS,
        "Fetching and describing": _FETCHING,
        "Topics": _TOPICS,
        "Storage": _STORAGE,
        "Compaction": CLEANING,
        "Delegation tokens": DELEGATION_TOKENS,
        "Quotas": QUOTAS,
        "Replication": REPLICATION,
        "Defaults of topic settings": _TOPIC_DEFAULTS,
        "Transactions": TRANSACTIONS,
        "Groups": GROUPS,
        "Schema validation": REGISTRY_OF_BROKER,
        "Metrics": _METRICS,
        "Without effect": _NO_EFFECT,
    },
    # `retention.ms` in a broker's file means `log.retention.ms`: the error says so.
    {setting.name: setting.synonyms[0] for setting in TOPIC if setting.synonyms},
)
