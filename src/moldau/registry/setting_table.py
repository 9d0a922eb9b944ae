"""Declarations of the settings of a schema registry. Names are those of Confluent's registry where it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client.settings import ADMIN
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.registry.config_scopes import MODES, READ_WRITE
from moldau.schemas.compatibility import CompatibilityLevel
from moldau.service.client_setting_names import FOR_CLIENTS
from moldau.service.http_settings import http_declarations, tls_declarations
from moldau.settings.setting import Setting, SettingType, Value
from moldau.settings.table import SettingTable

BOOLEAN, INT, STRING = SettingType.BOOLEAN, SettingType.INT, SettingType.STRING

DEFAULT_PORT: Final = 8081
DEFAULT_TOPIC: Final = "_schemas"
DEFAULT_GROUP: Final = "schema-registry"


def _level(value: Value) -> str | None:
    known = [level.value.lower() for level in CompatibilityLevel]
    return None if str(value).lower() in known else f"{value!r} is not one of {', '.join(known)}"


def _mode(value: Value) -> str | None:
    return None if str(value).upper() in MODES else f"{value!r} is not one of {', '.join(sorted(MODES))}"


def _scheme(value: Value) -> str | None:
    return None if value in (None, "", "http", "https") else f"{value!r} is neither http nor https"


GROUP: Final = (
    Setting(
        "schema.registry.group.id",
        STRING,
        DEFAULT_GROUP,
        "Registries with the same id form a group: one of them carries out writes, the others forward them to it.",
    ),
    Setting("leader.eligibility", BOOLEAN, True, "Whether this registry may become the leader of its group."),
    Setting(
        "host.name",
        STRING,
        None,
        "The host under which other registries reach this one. Empty: the host of the listener, or this machine's name "
        "if that is all interfaces.",
    ),
    Setting(
        "schema.registry.inter.instance.protocol",
        STRING,
        None,
        "The listener that other registries use: http or https. Empty: the first one.",
        check=_scheme,
    ),
    Setting("session.timeout.ms", INT, 10_000, "A registry that is silent for this long is replaced.", low=1),
    Setting("heartbeat.interval.ms", INT, 3_000, "The time between two heartbeats of a registry.", low=1),
    Setting(
        "rebalance.timeout.ms", INT, 60_000, "The time in which all registries must have joined a rebalance.", low=1
    ),
)

STORE: Final = (
    Setting("kafkastore.topic", STRING, DEFAULT_TOPIC, "The compacted topic with all schemas. It has one partition."),
    Setting(
        "kafkastore.topic.replication.factor",
        INT,
        3,
        "The replicas of the topic, if this registry creates it; one per broker if there are fewer brokers.",
        low=1,
        high=32_767,
    ),
    Setting(
        "kafkastore.timeout.ms",
        INT,
        15_000,
        "The time for a write to the topic. Confluent's default of 500 ms is short for a transaction on a busy disk.",
        low=1,
    ),
    Setting("kafkastore.init.timeout.ms", INT, 60_000, "The time in which the topic must be read at the start.", low=1),
)

SCHEMAS: Final = (
    Setting(
        "schema.compatibility.level",
        STRING,
        CompatibilityLevel.BACKWARD.value.lower(),
        "The compatibility level where none is configured through the API.",
        check=_level,
    ),
    Setting("mode", STRING, READ_WRITE, "The mode where none is configured through the API.", check=_mode),
    Setting("mode.mutability", BOOLEAN, True, "Whether modes can be changed through the API."),
)

REST: Final = (
    *http_declarations(DEFAULT_PORT),
    Setting(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients of https listeners must have a certificate: `required`, `requested` or `none`.",
        choices=("none", "requested", "required"),
    ),
)

SECTIONS: Final[Mapping[str, Sequence[Setting]]] = {
    "Brokers": [ADMIN[name] for name in FOR_CLIENTS],
    "Group": GROUP,
    "Topic": STORE,
    "Schemas": SCHEMAS,
    "REST API": REST,
    "TLS of the REST API": tls_declarations(),
    "TLS and login at the brokers": SECURITY_SETTINGS,
}

REGISTRY: Final = SettingTable("schema registry", SECTIONS)
"""All settings of a registry that have a fixed name."""
