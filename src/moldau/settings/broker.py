"""The settings of a broker, as Kafka 4 names them, and a few of our own under `moldau.`.

What is declared here is honoured, or says in `no_effect` why it changes nothing. A setting that exists in Kafka and is
not declared is unknown to this version: better an error at start than a promise not kept.
"""

from __future__ import annotations

from functools import partial

from moldau.settings.cleaning import CLEANING
from moldau.settings.elections import ELECTIONS
from moldau.settings.groups import GROUPS
from moldau.settings.listeners import SECURITY_PROTOCOLS
from moldau.settings.replication import REPLICATION
from moldau.settings.setting import INT_MAX, Scope, Setting, SettingError, SettingType, Value
from moldau.settings.table import SettingTable
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
EVENTS_WAKE = "waiting requests are woken by events and leave nothing behind to purge"
EMBEDDED_STORE = "metadata is in an embedded store, or in ZooKeeper"
NO_SHARE_GROUPS = "there are no share groups"

_dynamic = partial(Setting, scope=Scope.BROKER_DYNAMIC)


def connection_overrides(text: str) -> dict[str, int]:
    """`HOST:COUNT,...` of `max.connections.per.ip.overrides` as a mapping. The last colon counts: hosts may be IPv6."""
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
    return "0 is neither -1 (no limit) nor 1 or more" if value == 0 else None


def _includes_broker(value: Value) -> str | None:
    return None if isinstance(value, tuple) and "broker" in value else "must include broker"


_IDENTITY = (
    Setting(
        "node.id",
        INT,
        NO_NODE_ID,
        "The number of this broker in its cluster; -1 takes the one that the data directory was made with.",
        low=0,
        extra_value=NO_NODE_ID,
    ),
    Setting("broker.id", INT, NO_NODE_ID, "The older name of `node.id`.", low=0, extra_value=NO_NODE_ID),
    Setting("broker.rack", STRING, None, "The rack, or availability zone, that this broker is in."),
)

_LISTENERS = (
    Setting(
        "listeners",
        LIST,
        ("PLAINTEXT://:9092",),
        "The addresses to listen on, `NAME://HOST:PORT` each; without a host, every interface.",
    ),
    Setting(
        "advertised.listeners",
        LIST,
        None,
        "The addresses that clients are told to connect to, by listener; without it, those of `listeners`.",
    ),
    Setting(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name.",
    ),
    Setting("inter.broker.listener.name", STRING, None, "The listener that brokers use among themselves."),
    Setting(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The security protocol between brokers: their listener is the one of this name, unless it is given by its own.",
        choices=SECURITY_PROTOCOLS,
    ),
    Setting(
        "controller.listener.names",
        LIST,
        (),
        "Listeners that Kafka's controllers would use; those named here are not opened.",
    ),
)

_CONNECTIONS = (
    Setting(
        "socket.request.max.bytes",
        INT,
        100 << 20,
        "The largest request; a connection that announces a larger one is closed.",
        low=1,
    ),
    Setting(
        "queued.max.request.bytes",
        LONG,
        512 << 20,
        "How many bytes of requests may be in memory at once; beyond that the broker reads no further until some are "
        "answered. A negative number sets no limit.",
    ),
    Setting(
        "moldau.max.inflight.requests.per.connection",
        INT,
        100,
        "How many requests of one connection may await their answers; beyond that the broker stops reading from it.",
        low=1,
    ),
    _dynamic("max.connections", INT, INT_MAX, "How many connections may be open in all.", low=0),
    _dynamic("max.connections.per.ip", INT, INT_MAX, "How many connections may be open from one address.", low=0),
    _dynamic(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Other limits than `max.connections.per.ip` for some addresses: `HOST:COUNT`, separated by commas.",
        check=_check_overrides,
    ),
    Setting(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "After how long without a request a connection is closed; a negative number keeps it open.",
    ),
    Setting("socket.listen.backlog.size", INT, 50, "How many connections may wait to be accepted.", low=1),
    Setting(
        "socket.send.buffer.bytes",
        INT,
        102_400,
        "The size of a socket's send buffer; -1 leaves it to the operating system.",
        low=1,
        extra_value=-1,
    ),
    Setting(
        "socket.receive.buffer.bytes",
        INT,
        102_400,
        "The size of a socket's receive buffer; -1 leaves it to the operating system.",
        low=1,
        extra_value=-1,
    ),
)

_FETCHING = (
    Setting(
        "fetch.max.bytes",
        INT,
        55 << 20,
        "The most bytes that one fetch is answered with, whatever the client asks for; a first batch that is larger is "
        "still sent whole.",
        low=1024,
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "How many fetch sessions are kept; a client without one sends its full list of partitions each time.",
        low=0,
    ),
    Setting(
        "max.request.partition.size.limit",
        INT,
        2000,
        "The most partitions that one DescribeTopicPartitions request is answered with.",
        low=1,
    ),
)

_TOPICS = (
    Setting("auto.create.topics.enable", BOOLEAN, True, "Whether a topic that a client asks for is created by that."),
    Setting("delete.topic.enable", BOOLEAN, True, "Whether topics may be deleted."),
    Setting("num.partitions", INT, 1, "How many partitions a topic gets when nobody says.", low=1),
    Setting("default.replication.factor", INT, 1, "How many replicas a partition gets when nobody says.", low=1),
)

_STORAGE = (
    Setting("log.dirs", LIST, None, "The directories that partitions are stored in; without it, `log.dir`."),
    Setting(
        "log.dir", LIST, ("moldau-data",), "The directory that partitions are stored in, where `log.dirs` is not given."
    ),
    Setting(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "How many threads a data directory's logs are loaded with at start, and recovered with after a crash.",
        low=1,
    ),
    Setting(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "How often the offsets up to which logs are on disk are written down; recovery begins there.",
        low=0,
    ),
    Setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "How often the first offsets of logs are written down, so that deleted records stay deleted.",
        low=0,
        no_effect="they are written together with the recovery points",
    ),
    Setting(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        "How often logs are looked over for segments to delete.",
        low=1,
    ),
    Setting(
        "moldau.threads",
        INT,
        8,
        "How many threads do what would block the event loop: reads that miss the page cache, flushes, recovery.",
        low=1,
        high=256,
    ),
)


def _topic_default(name: str, topic_name: str, *, scope: Scope = Scope.BROKER_DYNAMIC) -> Setting:
    """The broker's default for a topic setting: the same in everything but name and scope."""
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
    """One of several settings, in different units, that give a topic setting its default: the finest one set counts."""
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
        "The port that metrics are served on over HTTP; -1 serves none.",
        low=-1,
        high=65535,
    ),
    Setting("moldau.metrics.host", STRING, "127.0.0.1", "The address that metrics are served on."),
)

# What a `server.properties` written for Kafka carries. Refusing it would keep people from trying their own file.
_NO_EFFECT = (
    Setting(
        "num.network.threads",
        INT,
        3,
        "Kafka's threads for the network.",
        low=1,
        scope=Scope.BROKER_DYNAMIC,
        no_effect=ONE_LOOP,
    ),
    Setting(
        "num.io.threads", INT, 8, "Kafka's threads for requests.", low=1, scope=Scope.BROKER_DYNAMIC, no_effect=ONE_LOOP
    ),
    Setting(
        "background.threads",
        INT,
        10,
        "Kafka's threads for chores.",
        low=1,
        scope=Scope.BROKER_DYNAMIC,
        no_effect="`moldau.threads` counts",
    ),
    Setting("queued.max.requests", INT, 500, "Kafka's queue between its threads.", low=1, no_effect=ONE_LOOP),
    Setting(
        "fetch.purgatory.purge.interval.requests",
        INT,
        1000,
        "When Kafka tidies up waiting fetches.",
        no_effect=EVENTS_WAKE,
    ),
    Setting(
        "producer.purgatory.purge.interval.requests",
        INT,
        1000,
        "When Kafka tidies up waiting produces.",
        no_effect=EVENTS_WAKE,
    ),
    Setting(
        "delete.records.purgatory.purge.interval.requests",
        INT,
        1,
        "When Kafka tidies up waiting deletions.",
        no_effect=EVENTS_WAKE,
    ),
    Setting(
        "process.roles",
        LIST,
        ("broker",),
        "The roles of a process of Kafka.",
        choices=("broker", "controller"),
        check=_includes_broker,
        no_effect="every broker can be the controller",
    ),
    Setting("controller.quorum.voters", LIST, (), "The controllers of a Kafka cluster.", no_effect=EMBEDDED_STORE),
    Setting(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        "Where the controllers of a Kafka cluster are found.",
        no_effect=EMBEDDED_STORE,
    ),
    Setting(
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        3,
        "Replicas of the topic of share groups.",
        low=1,
        no_effect=NO_SHARE_GROUPS,
    ),
    Setting(
        "share.coordinator.state.topic.min.isr",
        SHORT,
        2,
        "In-sync replicas that the topic of share groups needs.",
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
        "Connections and requests": _CONNECTIONS,
        "Fetching and describing": _FETCHING,
        "Topics": _TOPICS,
        "Storage": _STORAGE,
        "Compaction": CLEANING,
        "Replication": REPLICATION,
        "Defaults of topics": _TOPIC_DEFAULTS,
        "Transactions": TRANSACTIONS,
        "Groups": GROUPS,
        "Metrics": _METRICS,
        "Without effect": _NO_EFFECT,
    },
    # `retention.ms` in a broker's file means `log.retention.ms`: say so in the error.
    {setting.name: setting.synonyms[0] for setting in TOPIC if setting.synonyms},
)
