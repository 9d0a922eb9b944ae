"""Settings of a schema registry, checked.

The declarations are in `setting_table.py`. Settings of the Kafka clients may be given with Confluent's prefix
(`kafkastore.bootstrap.servers`, `kafkastore.sasl.mechanism`), so that a `schema-registry.properties` works as it is;
`kafkastore.topic.config.NAME` sets NAME of the topic, if this registry creates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client.settings import ADMIN, CONSUMER, PRODUCER
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.registry.registry_service import ServiceSettings
from moldau.registry.setting_table import REGISTRY
from moldau.registry.stored_registry import RegistryRules
from moldau.schemas.compatibility import CompatibilityLevel
from moldau.service.client_setting_names import FOR_CLIENTS
from moldau.service.http_settings import HttpAddress, HttpSettings, advertised_address, http_settings
from moldau.service.setting_sources import gather_settings
from moldau.settings.setting import SettingError

ENVIRONMENT_PREFIX: Final = "MOLDAU_REGISTRY_"
STORE_PREFIX: Final = "kafkastore."
TOPIC_PREFIX: Final = "kafkastore.topic.config."
CLIENT_NAMES: Final = frozenset({*FOR_CLIENTS, *(one.name for one in SECURITY_SETTINGS)})


@dataclass(frozen=True)
class RegistryProcessSettings:
    """The settings of one registry."""

    values: Mapping[str, Any] = field(repr=False)
    """Every declared setting with its value."""
    texts: Mapping[str, str] = field(repr=False)
    """Every setting that was given."""
    http: HttpSettings

    @property
    def client(self) -> dict[str, str]:
        """Settings of all clients: addresses, time-outs, TLS and login, as they were given."""
        known = {name: text for name, text in self.texts.items() if name in CLIENT_NAMES and _of_all_clients(name)}
        return {**known, "bootstrap.servers": ",".join(self.values["bootstrap.servers"])}

    def service(self, served: Iterable[HttpAddress]) -> ServiceSettings:
        """The settings of the registry itself, from the addresses that are served."""
        values = self.values
        named = {
            "rest.advertised.host.name": values["host.name"],
            "rest.advertised.port": None,
            "rest.advertised.listener": values["schema.registry.inter.instance.protocol"],
        }
        configs = {
            name.removeprefix(TOPIC_PREFIX): text for name, text in self.texts.items() if name.startswith(TOPIC_PREFIX)
        }
        return ServiceSettings(
            client=self.client,
            address=advertised_address(named, served),
            group_id=values["schema.registry.group.id"],
            topic=values["kafkastore.topic"],
            replication_factor=values["kafkastore.topic.replication.factor"],
            topic_configs=configs,
            may_lead=values["leader.eligibility"],
            write_timeout_s=values["kafkastore.timeout.ms"] / 1_000,
            start_timeout_s=values["kafkastore.init.timeout.ms"] / 1_000,
            session_timeout_ms=values["session.timeout.ms"],
            heartbeat_interval_ms=values["heartbeat.interval.ms"],
            rebalance_timeout_ms=values["rebalance.timeout.ms"],
            rules=RegistryRules(
                CompatibilityLevel(values["schema.compatibility.level"].upper()),
                values["mode"].upper(),
                values["mode.mutability"],
            ),
        )


def process_settings(
    *,
    properties: str = "",
    environment: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
) -> RegistryProcessSettings:
    """Check the settings of a registry. Raises SettingError for the first wrong one."""
    sources: tuple[dict[str, Any], ...] = (
        {"properties": properties, "environment": environment},
        {"assignments": assignments},
    )
    texts: dict[str, str] = {}
    for source in sources:  # what the command line names counts, with the prefix or without
        texts |= _without_prefix(
            gather_settings(REGISTRY, prefix=ENVIRONMENT_PREFIX, passes=_problem_of_name, **source)
        )
    values: dict[str, Any] = {setting.name: setting.default for setting in REGISTRY}
    values |= REGISTRY.parse({name: text for name, text in texts.items() if name in REGISTRY})
    if not values["bootstrap.servers"]:
        raise SettingError("bootstrap.servers", "missing; give the address of one broker or more (-b HOST:PORT)")
    if values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
        raise SettingError("heartbeat.interval.ms", "must be smaller than session.timeout.ms; a third of it is usual")
    http = http_settings({**values, "rest.advertised.host.name": values["host.name"]})
    return RegistryProcessSettings(values, texts, http)


def _problem_of_name(name: str) -> str | None:
    if name.startswith(TOPIC_PREFIX) or name.removeprefix(STORE_PREFIX) in CLIENT_NAMES:
        return None
    nearest = REGISTRY.nearest(name)
    return f"unknown setting of the schema registry{f'; did you mean {nearest}?' if nearest else ''}"


def _without_prefix(given: Mapping[str, str]) -> dict[str, str]:
    """Settings of clients under their own names. One with the prefix counts more: it is the more exact one."""
    prefixed = {
        name.removeprefix(STORE_PREFIX): text
        for name, text in given.items()
        if name.startswith(STORE_PREFIX) and name.removeprefix(STORE_PREFIX) in CLIENT_NAMES
    }
    if "bootstrap.servers" in prefixed:  # Confluent's form has the protocol: PLAINTEXT://host:9092
        addresses = prefixed["bootstrap.servers"].split(",")
        prefixed["bootstrap.servers"] = ",".join(one.strip().rpartition("://")[2] for one in addresses)
    return {**given, **prefixed}


def _of_all_clients(name: str) -> bool:
    return all(name in table for table in (PRODUCER, CONSUMER, ADMIN))
