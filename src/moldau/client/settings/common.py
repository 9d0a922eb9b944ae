"""Settings that all clients have: where the cluster is, how long to wait for it, how often to try again."""

from __future__ import annotations

from typing import Any

from moldau.client.own_errors import ConfigurationError
from moldau.settings.setting import Setting, SettingType, Value

BOOLEAN, STRING, INT, LONG, LIST = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.LIST,
)


def _plain_text_only(value: Value) -> str | None:
    if str(value).upper() == "PLAINTEXT":
        return None
    if str(value).upper() in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"):
        return f"{value!r}: TLS and SASL are not there yet; only PLAINTEXT listeners can be used"
    return f"{value!r} is not a security protocol; only PLAINTEXT can be used for now"


def not_empty(value: Value) -> str | None:
    """For names that may be missing, but not empty."""
    return None if value is None or str(value) else "may not be empty; leave it out, or give a name"


NO_METRICS_REPORTERS = "the numbers are had from `metrics()`, there are no reporters"
NO_PROVIDERS = "values are not fetched from elsewhere; give them as they are"
NO_TELEMETRY = "clients do not push their metrics to brokers"


def addresses(receive_buffer_bytes: int) -> tuple[Setting, ...]:
    """Where the cluster is, and the sockets to it."""
    return (
        Setting(
            "bootstrap.servers",
            LIST,
            (),
            "Addresses (HOST:PORT) of one broker or more, from which the rest of the cluster is learnt.",
        ),
        Setting("client.id", STRING, "", "A name for this client in the brokers' logs, metrics and quotas."),
        Setting(
            "client.dns.lookup",
            STRING,
            "use_all_dns_ips",
            "Whether each address of a name is tried (`use_all_dns_ips`), or names in bootstrap.servers are first "
            "replaced by the canonical names of their addresses.",
            choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        ),
        Setting("security.protocol", STRING, "PLAINTEXT", "How to speak to brokers.", check=_plain_text_only),
        Setting("send.buffer.bytes", INT, 131_072, "The socket's send buffer; -1 is the system's choice.", low=-1),
        Setting(
            "receive.buffer.bytes",
            INT,
            receive_buffer_bytes,
            "The socket's receive buffer; -1 is the system's choice.",
            low=-1,
        ),
        Setting(
            "socket.connection.setup.timeout.ms",
            LONG,
            10_000,
            "How long to wait for a new connection; doubled after each failure in a row, up to the maximum.",
        ),
        Setting("socket.connection.setup.timeout.max.ms", LONG, 30_000, "The longest wait for a new connection."),
    )


def waiting(idle_ms: int) -> tuple[Setting, ...]:
    """How long to wait, and how often to try again."""
    return (
        Setting(
            "request.timeout.ms",
            INT,
            30_000,
            "How long a request waits for its answer before the connection is given up.",
            low=0,
        ),
        Setting(
            "retry.backoff.ms",
            LONG,
            100,
            "The pause before the same request is sent again; doubled each time, with some chance, up to the maximum.",
            low=0,
        ),
        Setting("retry.backoff.max.ms", LONG, 1_000, "The longest pause between two attempts.", low=0),
        Setting(
            "reconnect.backoff.ms",
            LONG,
            50,
            "The pause before a broker that was away is connected to again; doubled each time, up to the maximum.",
            low=0,
        ),
        Setting("reconnect.backoff.max.ms", LONG, 1_000, "The longest pause between two connections.", low=0),
        Setting(
            "connections.max.idle.ms",
            LONG,
            idle_ms,
            "Connections that were not used for so long are closed; -1: never.",
        ),
        Setting(
            "metadata.max.age.ms",
            LONG,
            300_000,
            "How old the picture of the cluster may get before it is refreshed without need.",
            low=0,
        ),
        Setting(
            "metadata.recovery.strategy",
            STRING,
            "rebootstrap",
            "What to do when none of the known brokers answers: start anew from bootstrap.servers, or `none`.",
            choices=("none", "rebootstrap"),
        ),
        Setting(
            "metadata.recovery.rebootstrap.trigger.ms",
            LONG,
            300_000,
            "After how long without an answer from any known broker the client starts anew from bootstrap.servers.",
            low=0,
        ),
    )


def kept_for_kafka(metrics_push: bool) -> tuple[Setting, ...]:
    """Settings that are accepted so that an existing configuration works as it is."""
    return (
        Setting("metric.reporters", LIST, (), "Classes that report metrics.", no_effect=NO_METRICS_REPORTERS),
        Setting(
            "metrics.num.samples",
            INT,
            2,
            "How many windows a rate is taken over.",
            low=1,
            no_effect=NO_METRICS_REPORTERS,
        ),
        Setting(
            "metrics.recording.level",
            STRING,
            "INFO",
            "How much is measured.",
            choices=("INFO", "DEBUG", "TRACE"),
            no_effect=NO_METRICS_REPORTERS,
        ),
        Setting(
            "metrics.sample.window.ms", LONG, 30_000, "How long a window is.", low=0, no_effect=NO_METRICS_REPORTERS
        ),
        Setting(
            "enable.metrics.push", BOOLEAN, metrics_push, "Whether metrics go to the brokers.", no_effect=NO_TELEMETRY
        ),
        Setting("config.providers", LIST, (), "Where values of settings may be fetched from.", no_effect=NO_PROVIDERS),
    )


def conflict(name: str, reason: str) -> ConfigurationError:
    """The error for a setting that does not go with another."""
    return ConfigurationError(f"{name}: {reason}")


def api_timeout_covers_requests(values: dict[str, Any], given: frozenset[str]) -> None:
    """A whole call cannot have less time than one of its requests: without a word on the request, that gets shorter."""
    if values["request.timeout.ms"] <= values["default.api.timeout.ms"]:
        return
    if "request.timeout.ms" in given:
        raise conflict(
            "default.api.timeout.ms",
            f"{values['default.api.timeout.ms']} is less than request.timeout.ms ({values['request.timeout.ms']})",
        )
    values["request.timeout.ms"] = values["default.api.timeout.ms"]
