"""Declarations of a Connect worker's settings, with the names and defaults of Kafka Connect 4.3.

Defaults that differ, each because the usual one would fail or be unsafe on a laptop:

* `listeners` is on 127.0.0.1; group, topics and converters have names of their own, so that none must be given;
* a cluster with fewer brokers than `*.storage.replication.factor` gets one replica per broker;
* `scheduled.rebalance.max.delay.ms` is 0: the connectors of a lost worker are taken over at once;
* `exactly.once.source.support` is enabled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client.settings import ADMIN
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.service.client_setting_names import FOR_CLIENTS
from moldau.service.http_settings import http_declarations, tls_declarations
from moldau.settings.setting import Setting, SettingType, Value
from moldau.settings.table import SettingTable

BOOLEAN, STRING, INT, SHORT, LONG, LIST, CLASS = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.SHORT,
    SettingType.LONG,
    SettingType.LIST,
    SettingType.CLASS,
)

DEFAULT_PORT: Final = 8083
DEFAULT_GROUP: Final = "connect-cluster"
DEFAULT_REPLICAS: Final = 3
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE_HEADERS: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
POLICIES: Final = ("All", "None", "Principal")
POLICY_SUFFIX: Final = "ConnectorClientConfigOverridePolicy"

ONE_UNIT: Final = "the leader assigns whole connectors, and workers send each other the login of the request"
NO_JARS: Final = "connectors are Python packages, found by their entry points"
PROMETHEUS: Final = "metrics are on the page /metrics"
WITH_RECORDS: Final = "offsets are committed together with their records"


def _topic(name: str) -> str | None:
    return None if name.strip() else "the name of a topic is needed"


def _topic_name(value: Value) -> str | None:
    return _topic(str(value))


def _replicas(value: Value) -> str | None:
    return "0 replicas hold nothing; use 1 or more, or -1 for the broker's default" if value == 0 else None


def _policy(value: Value) -> str | None:
    kind = str(value).rpartition(".")[2].removesuffix(POLICY_SUFFIX)
    return None if kind in POLICIES else f"{value!r} is not one of {', '.join(POLICIES)}"


def _no_extensions(value: Value) -> str | None:
    return "classes of Java cannot be loaded; for logins set moldau.http.password.file" if value else None


def _storage(kind: str, what: str, partitions: int | None) -> Sequence[Setting]:
    declared = [
        Setting(
            f"{kind}.storage.topic", STRING, f"connect-{_PLURALS[kind]}", f"The topic with {what}.", check=_topic_name
        ),
        Setting(
            f"{kind}.storage.replication.factor",
            SHORT,
            DEFAULT_REPLICAS,
            f"The replicas of `{kind}.storage.topic` when it is created; -1 is the brokers' default. A smaller "
            "cluster gets one replica per broker.",
            low=-1,
            check=_replicas,
        ),
    ]
    if partitions is not None:
        declared.append(
            Setting(
                f"{kind}.storage.partitions",
                INT,
                partitions,
                f"The partitions of `{kind}.storage.topic` when it is created; -1 is the brokers' default.",
                low=1,
                extra_value=-1,
            )
        )
    return declared


_PLURALS: Final = {"config": "configs", "offset": "offsets", "status": "status"}

GROUP: Final = (
    Setting("group.id", STRING, DEFAULT_GROUP, "The group of workers that share connectors.", check=_topic_name),
    Setting("session.timeout.ms", INT, 10_000, "A worker that is silent for this long is replaced.", low=1),
    Setting("heartbeat.interval.ms", INT, 3_000, "The time between two heartbeats of a worker.", low=1),
    Setting("rebalance.timeout.ms", INT, 60_000, "The time in which all workers must have joined a rebalance.", low=1),
    Setting(
        "scheduled.rebalance.max.delay.ms",
        INT,
        0,
        "How long the connectors of a lost worker wait for its return before others take them.",
        low=0,
    ),
    Setting("connect.protocol", STRING, "sessioned", "How workers share work.", no_effect=ONE_UNIT),
    Setting("worker.sync.timeout.ms", INT, 3_000, "The time to read the config topic.", no_effect=ONE_UNIT),
    Setting("worker.unsync.backoff.ms", INT, 300_000, "The pause after a failed read.", no_effect=ONE_UNIT),
    Setting("inter.worker.key.generation.algorithm", STRING, "HmacSHA256", "Keys of workers.", no_effect=ONE_UNIT),
    Setting("inter.worker.key.size", INT, None, "The size of these keys.", no_effect=ONE_UNIT),
    Setting("inter.worker.key.ttl.ms", INT, 3_600_000, "The lifetime of these keys.", no_effect=ONE_UNIT),
    Setting("inter.worker.signature.algorithm", STRING, "HmacSHA256", "Signatures of workers.", no_effect=ONE_UNIT),
    Setting("inter.worker.verification.algorithms", LIST, ("HmacSHA256",), "The same.", no_effect=ONE_UNIT),
)

RECORDS: Final = (
    Setting("key.converter", CLASS, JSON_CONVERTER, "The converter of keys; connectors may have their own."),
    Setting("value.converter", CLASS, JSON_CONVERTER, "The converter of values; connectors may have their own."),
    Setting("header.converter", CLASS, SIMPLE_HEADERS, "The converter of headers; connectors may have their own."),
    *(
        Setting(f"{one}.converter.plugin.version", STRING, None, "The version of the converter.", no_effect=NO_JARS)
        for one in ("key", "value", "header")
    ),
    Setting(
        "exactly.once.source.support",
        STRING,
        "enabled",
        "Whether sources commit their offsets in the transaction of their records. Moldau always does; with `disabled` "
        "a connector that requires it is refused, as in Kafka.",
        choices=("disabled", "preparing", "enabled"),
    ),
    Setting("topic.creation.enable", BOOLEAN, True, "Whether sources may create topics, with `topic.creation.*`."),
    Setting("topic.tracking.enable", BOOLEAN, True, "Whether the topics of a connector are tracked."),
    Setting("topic.tracking.allow.reset", BOOLEAN, True, "Whether tracked topics may be reset with the REST API."),
    Setting("offset.flush.interval.ms", LONG, 60_000, "The time between two commits.", low=0, no_effect=WITH_RECORDS),
    Setting("offset.flush.timeout.ms", LONG, 5_000, "The time for a commit.", low=0, no_effect=WITH_RECORDS),
    Setting(
        "offset.storage.file.filename",
        STRING,
        None,
        "The file with the offsets of a standalone worker.",
        no_effect="a standalone worker keeps offsets in offset.storage.topic too",
    ),
    Setting(
        "connector.client.config.override.policy",
        STRING,
        "All",
        "Which settings of clients a connector may override (`producer.override.*`): All, None or Principal.",
        check=_policy,
    ),
    Setting("config.providers", LIST, (), "Names of config providers; each has `config.providers.NAME.class`."),
    Setting(
        "task.shutdown.graceful.timeout.ms",
        LONG,
        5_000,
        "The time for the end of tasks.",
        low=0,
        no_effect="a batch that is cancelled leaves nothing behind",
    ),
)

REST: Final = (
    *http_declarations(DEFAULT_PORT),
    Setting("rest.advertised.host.name", STRING, None, "The host under which other workers reach this one."),
    Setting("rest.advertised.port", INT, None, "The port for the same.", low=1, high=65535),
    Setting(
        "rest.advertised.listener",
        STRING,
        None,
        "The listener that other workers use: http or https. Empty: the first one.",
        check=lambda value: None if value in (None, "", "http", "https") else f"{value!r} is neither http nor https",
    ),
    Setting(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients of https listeners must have a certificate: `required`, `requested` or `none`.",
        choices=("none", "requested", "required"),
    ),
    Setting("rest.extension.classes", LIST, (), "Extensions of the REST API.", check=_no_extensions),
    Setting("admin.listeners", LIST, None, "Addresses for /admin.", no_effect="/admin is on all listeners"),
    Setting(
        "response.http.headers.config", STRING, "", "Headers of responses.", no_effect="headers cannot be configured"
    ),
)

NOT_HERE: Final = (
    Setting("plugin.path", LIST, None, "Directories of plugins.", no_effect=NO_JARS),
    Setting("plugin.discovery", STRING, "hybrid_warn", "How plugins are found.", no_effect=NO_JARS),
    Setting("metric.reporters", LIST, (), "Classes that report metrics.", no_effect=PROMETHEUS),
    Setting("metrics.num.samples", INT, 2, "Samples of a metric.", no_effect=PROMETHEUS),
    Setting("metrics.recording.level", STRING, "INFO", "The detail of metrics.", no_effect=PROMETHEUS),
    Setting("metrics.sample.window.ms", LONG, 30_000, "The time of a sample.", no_effect=PROMETHEUS),
)

SECTIONS: Final[Mapping[str, Sequence[Setting]]] = {
    "Brokers": [ADMIN[name] for name in FOR_CLIENTS],
    "Group": GROUP,
    "State": [
        *_storage("config", "configurations", None),
        *_storage("status", "states", 5),
        *_storage("offset", "the offsets of sources", 25),
    ],
    "Connectors": RECORDS,
    "REST API": REST,
    "TLS of the REST API": tls_declarations(),
    "TLS and login at the brokers": SECURITY_SETTINGS,
    "Accepted without effect": NOT_HERE,
}

CONNECT: Final = SettingTable("Connect worker", SECTIONS)
"""All settings of a worker that have a fixed name."""
