"""Settings of a connector that the engine reads: tasks, deadlines, errors, dead letters, clients and converters.

`ENGINE_SETTINGS` declares those that Kafka Connect does not have. The others have Kafka Connect's names and defaults;
validation declares them with everything that REST shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client.settings import ADMIN, CONSUMER, PRODUCER, ClientTable
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.connect.client_overrides import REFUSED_OVERRIDES
from moldau.connect.config_def import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    Importance,
    between,
)
from moldau.connect.connector_settings import SINK
from moldau.settings.references import has_reference

DEADLINE: Final = "task.deadline.ms"
BATCH_RECORDS: Final = "batch.max.offsets"
DEFAULT_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
DEFAULT_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"

ENGINE_SETTINGS: Final = ConfigDef(
    [
        ConfigKey(
            DEADLINE,
            ConfigType.LONG,
            "How long a batch of the connector, or one call of it, may take. After that it is cancelled and tried "
            "again with back-off.",
            300_000,
            Importance.LOW,
            between(100),
        ),
        ConfigKey(
            BATCH_RECORDS,
            ConfigType.LONG,
            "The largest number of offsets that a sink reads in one batch, over all partitions.",
            500_000,
            Importance.LOW,
            between(1),
        ),
    ]
)

_KAFKA_SETTINGS: Final = ConfigDef(
    SINK.keys[name]
    for name in (
        "tasks.max",
        "topics",
        "topics.regex",
        "errors.tolerance",
        "errors.retry.timeout",
        "errors.retry.delay.max.ms",
        "errors.log.enable",
        "errors.log.include.messages",
        "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.topic.replication.factor",
        "errors.deadletterqueue.context.headers.enable",
    )
)

_IGNORED: Final = frozenset({"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"})
_SECURITY: Final = frozenset(one.name for one in SECURITY_SETTINGS)


@dataclass(frozen=True)
class ErrorSettings:
    """`errors.*` of a connector."""

    tolerate: bool = False
    retry_timeout_ms: int = 0
    """-1: no limit."""
    retry_delay_max_ms: int = 60_000
    log: bool = False
    log_messages: bool = False
    dead_letter_topic: str = ""
    dead_letter_replicas: int = 3
    dead_letter_headers: bool = False


@dataclass(frozen=True)
class PluginSpec:
    """The class name of a converter with its settings."""

    class_name: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ConverterSpecs:
    """The converters of a connector."""

    key: PluginSpec
    value: PluginSpec
    header: PluginSpec


@dataclass(frozen=True)
class RunSettings:
    """Everything that the engine reads from a connector's configuration."""

    name: str
    max_tasks: int
    deadline_s: float
    batch_offsets: int
    topics: tuple[str, ...]
    topics_regex: str
    errors: ErrorSettings
    converters: ConverterSpecs


def run_settings(name: str, config: Mapping[str, Any], worker: Mapping[str, Any]) -> RunSettings:
    """Parse a configuration; ConfigError names every mistake."""
    found = (_KAFKA_SETTINGS + ENGINE_SETTINGS).parse(config)
    errors = ErrorSettings(
        tolerate=found["errors.tolerance"] == "all",
        retry_timeout_ms=found["errors.retry.timeout"],
        retry_delay_max_ms=found["errors.retry.delay.max.ms"],
        log=found["errors.log.enable"],
        log_messages=found["errors.log.include.messages"],
        dead_letter_topic=found["errors.deadletterqueue.topic.name"].strip(),
        dead_letter_replicas=found["errors.deadletterqueue.topic.replication.factor"],
        dead_letter_headers=found["errors.deadletterqueue.context.headers.enable"],
    )
    return RunSettings(
        name,
        found["tasks.max"],
        found[DEADLINE] / 1000,
        found[BATCH_RECORDS],
        tuple(dict.fromkeys(topic for topic in found["topics"] if topic)),
        found["topics.regex"],
        errors,
        converter_specs(config, worker),
    )


def converter_specs(config: Mapping[str, Any], worker: Mapping[str, Any]) -> ConverterSpecs:
    """The converters: the connector's own, else the worker's. Settings belong to the place that names the class."""

    def spec(name: str, default: str) -> PluginSpec:
        place = config if config.get(name) else worker
        return PluginSpec(str(place.get(name) or default), with_prefix(place, f"{name}."))

    return ConverterSpecs(
        spec("key.converter", DEFAULT_CONVERTER),
        spec("value.converter", DEFAULT_CONVERTER),
        spec("header.converter", DEFAULT_HEADER_CONVERTER),
    )


def with_prefix(settings: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The settings that begin with the prefix, without it."""
    return {name[len(prefix) :]: value for name, value in settings.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class ClientConfigs:
    """The settings of a connector's clients. They may have passwords."""

    producer: Mapping[str, str] = field(repr=False)
    consumer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, str] = field(repr=False)


def client_configs(worker: Mapping[str, Any], config: Mapping[str, Any]) -> ClientConfigs:
    """Addresses and logins of the worker, then `producer.*`, `consumer.*`, `admin.*` of the worker, then the
    connector's overrides."""
    return ClientConfigs(
        _client("producer", PRODUCER, worker, config),
        _client("consumer", CONSUMER, worker, config),
        _client("admin", ADMIN, worker, config),
    )


def _client(kind: str, table: ClientTable, worker: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, str]:
    overrides = with_prefix(config, f"{kind}.override.")
    for refused in REFUSED_OVERRIDES.get(kind, ()):
        if refused in overrides:
            raise ConfigError(
                f"{kind}.override.{refused} cannot be set: the guarantees of connectors depend on the engine's value"
            )
    for name, value in overrides.items():
        # Config providers have been asked. A client would resolve what is left by itself, from any file of the worker.
        if isinstance(value, str) and has_reference(value):
            raise ConfigError(
                f"{kind}.override.{name} refers to a file or a variable, but config.providers has no provider for it"
            )
    base = {
        name: value
        for name, value in worker.items()
        if (name == "bootstrap.servers" or name == "client.dns.lookup" or name in _SECURITY) and name in table
    }
    own = {name: value for name, value in with_prefix(worker, f"{kind}.").items() if not name.startswith("override.")}
    merged = {**base, **own, **overrides}
    return {name: _text(value) for name, value in merged.items() if name not in _IGNORED and value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
