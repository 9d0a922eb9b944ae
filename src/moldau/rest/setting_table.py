"""Declarations of the settings of a REST proxy. Names are Confluent's where it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client.settings import ADMIN
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.service.client_setting_names import FOR_CLIENTS
from moldau.service.http_settings import http_declarations, tls_declarations
from moldau.settings.setting import Setting, SettingType
from moldau.settings.table import SettingTable

INT, STRING, LIST, PASSWORD = SettingType.INT, SettingType.STRING, SettingType.LIST, SettingType.PASSWORD

DEFAULT_PORT: Final = 8082

LOGIN: Final = (
    Setting(
        "authentication.method",
        STRING,
        "NONE",
        "`BASIC`: each request needs user and password of HTTP Basic, and the proxy logs in at the brokers with them "
        "(sasl.mechanism PLAIN or SCRAM), so that a request may do what this user may do. `NONE`: all requests use the "
        "proxy's own login.",
        choices=("NONE", "BASIC"),
    ),
    Setting("moldau.rest.max.users", INT, 200, "Users whose connections are open at the same time.", low=1),
    Setting(
        "moldau.rest.user.timeout.ms", INT, 300_000, "Connections of a user without requests are closed then.", low=1
    ),
    Setting(
        "moldau.rest.login.max.age.ms",
        INT,
        600_000,
        "A user is logged in again after this time: a password that was changed or removed has no effect any longer.",
        low=1,
    ),
)

CONSUMERS: Final = (
    Setting(
        "consumer.instance.timeout.ms",
        INT,
        300_000,
        "A consumer instance of API v2 that is not used for this time is closed.",
        low=1,
    ),
    Setting(
        "consumer.request.timeout.ms", INT, 1_000, "How long a request for records waits, unless it says so.", low=0
    ),
    Setting(
        "consumer.request.max.bytes", INT, 67_108_864, "The largest answer to a request for records, in bytes.", low=1
    ),
    Setting("moldau.rest.max.consumers", INT, 500, "Consumer instances of API v2 at the same time.", low=1),
)

RECORDS: Final = (
    Setting("moldau.rest.max.record.bytes", INT, 8 * 1024 * 1024, "The largest JSON text of one record.", low=1),
    Setting(
        "moldau.rest.stream.timeout.ms",
        INT,
        60_000,
        "A streamed request to produce that sends nothing for this time is ended.",
        low=1,
    ),
)

FOLLOWERS: Final = (
    Setting("moldau.rest.max.followers", INT, 2_000, "Server-sent events and WebSockets at the same time.", low=1),
    Setting(
        "moldau.rest.max.own.consumers",
        INT,
        200,
        "Followers at the same time that do not read the newest records, and need a consumer of their own.",
        low=1,
    ),
    Setting(
        "moldau.rest.follower.buffer.bytes",
        INT,
        1024 * 1024,
        "A follower that is so far behind is disconnected. It can continue where it was.",
        low=1024,
    ),
)

REGISTRY: Final = (
    Setting("schema.registry.url", LIST, (), "Addresses of the schema registry, for Avro, JSON Schema and Protobuf."),
    Setting(
        "basic.auth.credentials.source", STRING, None, "Where the login at the registry comes from: USER_INFO, URL."
    ),
    Setting("basic.auth.user.info", PASSWORD, None, "User and password for the registry, as USER:PASSWORD."),
    Setting("bearer.auth.token", PASSWORD, None, "A token for the registry, instead of user and password."),
)

REST: Final = (
    *http_declarations(DEFAULT_PORT),
    Setting("host.name", STRING, None, "The host in the addresses that the proxy returns (base_uri of consumers)."),
    Setting("moldau.rest.max.connections", INT, 3_000, "HTTP connections at the same time; more get 503.", low=1),
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
    "Login of HTTP users": LOGIN,
    "Records": RECORDS,
    "Consumer instances": CONSUMERS,
    "Followers": FOLLOWERS,
    "Schema registry": REGISTRY,
    "REST API": REST,
    "TLS of the REST API": tls_declarations(),
    "TLS and login at the brokers": SECURITY_SETTINGS,
}

REST_PROXY: Final = SettingTable("REST proxy", SECTIONS)
"""All settings of a proxy that have a fixed name."""
