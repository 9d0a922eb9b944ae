"""Settings of a Connect worker: checked, with references to config providers resolved.

The declarations are in `worker_setting_table.py`. Beside them, these prefixes are known: `producer.`, `consumer.` and
`admin.` (settings of clients), `config.providers.`, `key.converter.`, `value.converter.` and `header.converter.`
(settings of converters), `config.storage.`, `status.storage.` and `offset.storage.` (settings of the topics), and
`spark.` (settings of Spark). Any other name is an error with the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client.settings import ADMIN, CONSUMER, PRODUCER, ClientTable
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.connect.config_def import ConfigError
from moldau.connect.config_providers import ConfigProviders, config_providers
from moldau.connect.connector_settings import CONVERTERS
from moldau.connect.herder.distributed_herder import DistributedSettings, StorageTopic
from moldau.connect.validation import WorkerRules
from moldau.connect.worker_setting_table import CONNECT, POLICY_SUFFIX
from moldau.host.event_log import event_logger
from moldau.service.client_setting_names import FOR_CLIENTS
from moldau.service.http_settings import HttpAddress, HttpSettings, advertised_address, http_settings
from moldau.service.setting_sources import gather_settings
from moldau.settings.setting import SettingError
from moldau.settings.topic import TOPIC

log = event_logger(__name__)

ENVIRONMENT_PREFIX: Final = "MOLDAU_CONNECT_"
CLIENTS: Final[Mapping[str, ClientTable]] = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}
FREE_PREFIXES: Final = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "metrics.context.",
    "spark.",
)
STORES: Final = ("config", "status", "offset")
SPARK: Final = "spark."


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of one worker."""

    values: Mapping[str, Any] = field(repr=False)
    """Every declared setting with its value."""
    texts: Mapping[str, str] = field(repr=False)
    """Every setting that was given, with references resolved: what the engine gets."""
    given: frozenset[str]
    providers: ConfigProviders = field(repr=False)
    http: HttpSettings

    @property
    def engine(self) -> dict[str, str]:
        """The settings for the engine: those that were given, with the defaults that it needs."""
        named = ("bootstrap.servers", "group.id", "offset.storage.topic", "key.converter", "value.converter")
        return {**{name: _text(self.values[name]) for name in named}, **self.texts}

    @property
    def spark(self) -> dict[str, str]:
        """Settings of Spark."""
        return {name: text for name, text in self.texts.items() if name.startswith(SPARK)}

    @property
    def client(self) -> dict[str, str]:
        """Settings of the worker's own clients: addresses, time-outs, TLS and login, as they were given."""
        names = {*FOR_CLIENTS, *(one.name for one in SECURITY_SETTINGS)}
        known = {name: text for name, text in self.texts.items() if name in names and _of_all_clients(name)}
        return {**known, "bootstrap.servers": _text(self.values["bootstrap.servers"])}

    @property
    def rules(self) -> WorkerRules:
        """What validation of connectors has to know."""
        policy: str = self.values["connector.client.config.override.policy"]
        return WorkerRules(
            exactly_once_sources=self.values["exactly.once.source.support"] == "enabled",
            override_policy=policy.rpartition(".")[2].removesuffix(POLICY_SUFFIX),
            converters={name: self.values[name] for name in CONVERTERS},
        )

    def storage(self, kind: str) -> StorageTopic:
        """One of the three topics of the state: config, status or offset."""
        prefix = f"{kind}.storage."
        own = {f"{prefix}{name}" for name in ("topic", "partitions", "replication.factor", "file.filename")}
        configs = {
            name.removeprefix(prefix): text
            for name, text in self.texts.items()
            if name.startswith(prefix) and name not in own
        }
        return StorageTopic(
            self.values[f"{prefix}topic"],
            1 if kind == "config" else self.values[f"{prefix}partitions"],
            self.values[f"{prefix}replication.factor"],
            configs,
        )

    def advertised(self, served: Iterable[HttpAddress]) -> HttpAddress:
        """The address under which other workers reach this one, from the addresses that are served."""
        return advertised_address(self.values, served)

    def distributed(self, served: Iterable[HttpAddress]) -> DistributedSettings:
        """The settings of the herder of a distributed worker."""
        address = self.advertised(served)
        values = self.values
        return DistributedSettings(
            self.client,
            address.url,
            address.url.partition("://")[2],
            values["group.id"],
            self.storage("config"),
            self.storage("offset"),
            self.storage("status"),
            values["session.timeout.ms"],
            values["heartbeat.interval.ms"],
            values["rebalance.timeout.ms"],
            values["scheduled.rebalance.max.delay.ms"],
            values["topic.tracking.enable"],
        )


def worker_settings(
    *,
    properties: str = "",
    environment: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
) -> WorkerSettings:
    """Check the settings of a worker. Raises SettingError or ConfigError for the first wrong one."""
    given = gather_settings(
        CONNECT,
        properties=properties,
        environment=environment,
        prefix=ENVIRONMENT_PREFIX,
        assignments=assignments,
        passes=problem_of_name,
    )
    providers = config_providers(given)
    texts = providers.resolve(given)
    values = {setting.name: setting.default for setting in CONNECT}
    values |= CONNECT.parse({name: text for name, text in texts.items() if name in CONNECT})
    _check(values, texts)
    for name in texts:
        if name in CONNECT and CONNECT[name].no_effect:
            log.warning("setting has no effect", extra={"setting": name, "reason": CONNECT[name].no_effect})
    return WorkerSettings(values, texts, frozenset(given), providers, http_settings(values))


def problem_of_name(name: str) -> str | None:
    """What is wrong with a name that is not declared; None if it begins with a known prefix."""
    for kind, table in CLIENTS.items():
        if name.startswith(f"{kind}."):
            return _problem_in(table, name, f"{kind}.", f"{kind} setting")
    for kind in STORES:
        if name.startswith(f"{kind}.storage."):
            return _problem_in(TOPIC, name, f"{kind}.storage.", "topic setting")
    if name.startswith(FREE_PREFIXES):
        return None
    nearest = CONNECT.nearest(name)
    return f"unknown Connect worker setting{f'; did you mean {nearest}?' if nearest else ''}"


def _problem_in(table: Any, name: str, prefix: str, kind: str) -> str | None:
    own = name.removeprefix(prefix)
    if own in table:
        return None
    nearest = table.nearest(own)
    return f"unknown {kind}{f'; did you mean {prefix}{nearest}?' if nearest else ''}"


def _check(values: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    if not values["bootstrap.servers"]:
        raise SettingError("bootstrap.servers", "missing; give the address of one broker or more (-b HOST:PORT)")
    topics = [values[f"{kind}.storage.topic"] for kind in STORES]
    if len(set(topics)) < len(topics):
        raise ConfigError(f"config, status and offset topics must differ, but are {', '.join(topics)}")
    if values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
        raise SettingError("heartbeat.interval.ms", "must be smaller than session.timeout.ms; a third of it is usual")
    for name, text in texts.items():
        kind, _, own = name.partition(".")
        if kind in CLIENTS and own in CLIENTS[kind]:
            _parse(CLIENTS[kind], name, own, text)
        elif name not in CONNECT and name.startswith(tuple(f"{one}.storage." for one in STORES)):
            _parse(TOPIC, name, name.split(".", 2)[2], text)


def _parse(table: Any, name: str, own: str, text: str) -> None:
    try:
        table[own].parse(text)
    except SettingError as error:
        raise SettingError(name, error.reason) from None


def _of_all_clients(name: str) -> bool:
    return all(name in table for table in CLIENTS.values())


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
