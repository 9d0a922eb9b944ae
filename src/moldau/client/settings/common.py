"""Settings of all clients: addresses of the cluster, timeouts, and pauses between retries."""

from __future__ import annotations

from typing import Any

from moldau.client.client_errors import ConfigurationError
from moldau.client.settings.security import PROTOCOL
from moldau.settings.setting import Setting, SettingType, Value

BOOLEAN, STRING, INT, LONG, LIST = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.LIST,
)


def not_empty(value: Value) -> str | None:
    """Check a name that may be missing, but not empty."""
    return None if value is None or str(value) else "must not be empty; leave it out, or give a name"


NO_METRICS_REPORTERS = "there are no metrics reporters; call `metrics()` of the client"
NO_PROVIDERS = "config providers are not supported; give the values themselves"
NO_TELEMETRY = "clients do not push metrics to brokers"


def addresses(receive_buffer_bytes: int) -> tuple[Setting, ...]:
    """Settings for addresses and sockets."""
    return (
        Setting(
            "bootstrap.servers",
            LIST,
            (),
            "Addresses (HOST:PORT) of one or more brokers, from which the client gets the addresses of all brokers.",
        ),
        Setting("client.id", STRING, "", "A name for this client in the brokers' logs, metrics and quotas."),
        Setting(
            "client.dns.lookup",
            STRING,
            "use_all_dns_ips",
            "With `use_all_dns_ips` the client tries each IP address of a host name; otherwise it first replaces names "
            "in bootstrap.servers by the canonical names of their IP addresses.",
            choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        ),
        PROTOCOL,
        Setting(
            "send.buffer.bytes", INT, 131_072, "Size of the socket's send buffer; -1 is the system default.", low=-1
        ),
        Setting(
            "receive.buffer.bytes",
            INT,
            receive_buffer_bytes,
            "Size of the socket's receive buffer; -1 is the system default.",
            low=-1,
        ),
        Setting(
            "socket.connection.setup.timeout.ms",
            LONG,
            10_000,
            "Timeout for opening a connection; doubled after each consecutive failure, up to the maximum.",
        ),
        Setting("socket.connection.setup.timeout.max.ms", LONG, 30_000, "Maximum timeout for opening a connection."),
    )


def waiting(idle_ms: int) -> tuple[Setting, ...]:
    """Settings for timeouts and retries."""
    return (
        Setting(
            "request.timeout.ms",
            INT,
            30_000,
            "How long the client waits for the response to a request before it closes the connection.",
            low=0,
        ),
        Setting(
            "retry.backoff.ms",
            LONG,
            100,
            "Pause before a request is sent again; doubled each time with random jitter, up to the maximum.",
            low=0,
        ),
        Setting("retry.backoff.max.ms", LONG, 1_000, "Maximum pause between two attempts.", low=0),
        Setting(
            "reconnect.backoff.ms",
            LONG,
            50,
            "Pause before the next attempt to connect to an unreachable broker; doubled each time, up to the maximum.",
            low=0,
        ),
        Setting("reconnect.backoff.max.ms", LONG, 1_000, "Maximum pause between two attempts to connect.", low=0),
        Setting(
            "connections.max.idle.ms",
            LONG,
            idle_ms,
            "The client closes connections that were not used for this time; -1 means never.",
        ),
        Setting(
            "metadata.max.age.ms",
            LONG,
            300_000,
            "Maximum age of the metadata before the client refreshes it, even without an error.",
            low=0,
        ),
        Setting(
            "metadata.recovery.strategy",
            STRING,
            "rebootstrap",
            "What the client does if no known broker answers: connect again through bootstrap.servers, or nothing "
            "(`none`).",
            choices=("none", "rebootstrap"),
        ),
        Setting(
            "metadata.recovery.rebootstrap.trigger.ms",
            LONG,
            300_000,
            "How long no known broker has answered before the client connects again through bootstrap.servers.",
            low=0,
        ),
    )


def kept_for_kafka(metrics_push: bool) -> tuple[Setting, ...]:
    """Settings that are accepted and have no effect, so that existing configurations work unchanged."""
    return (
        Setting("metric.reporters", LIST, (), "Classes that report metrics.", no_effect=NO_METRICS_REPORTERS),
        Setting(
            "metrics.num.samples",
            INT,
            2,
            "Number of sample windows for rates.",
            low=1,
            no_effect=NO_METRICS_REPORTERS,
        ),
        Setting(
            "metrics.recording.level",
            STRING,
            "INFO",
            "Level of detail of the metrics.",
            choices=("INFO", "DEBUG", "TRACE"),
            no_effect=NO_METRICS_REPORTERS,
        ),
        Setting(
            "metrics.sample.window.ms",
            LONG,
            30_000,
            "Length of a sample window.",
            low=0,
            no_effect=NO_METRICS_REPORTERS,
        ),
        Setting(
            "enable.metrics.push",
            BOOLEAN,
            metrics_push,
            "Whether the client pushes its metrics to brokers.",
            no_effect=NO_TELEMETRY,
        ),
        Setting("config.providers", LIST, (), "Classes that provide values of settings.", no_effect=NO_PROVIDERS),
    )


def conflict(name: str, reason: str) -> ConfigurationError:
    """Return the error for a setting that conflicts with another."""
    return ConfigurationError(f"{name}: {reason}")


def api_timeout_covers_requests(values: dict[str, Any], given: frozenset[str]) -> None:
    """Make sure that a call has at least as much time as one request. Lowers request.timeout.ms if it was not given."""
    if values["request.timeout.ms"] <= values["default.api.timeout.ms"]:
        return
    if "request.timeout.ms" in given:
        raise conflict(
            "default.api.timeout.ms",
            f"{values['default.api.timeout.ms']} is less than request.timeout.ms ({values['request.timeout.ms']}); "
            "raise it, or lower request.timeout.ms",
        )
    values["request.timeout.ms"] = values["default.api.timeout.ms"]
