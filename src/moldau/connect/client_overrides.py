"""Overrides of client settings in a connector's configuration.

`producer.override.*`, `consumer.override.*`, `admin.override.*`: each name is checked against the settings of
that client, and against the worker's policy for overrides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.client.client_errors import ConfigurationError
from moldau.client.settings import ADMIN, CONSUMER, PRODUCER, ClientTable
from moldau.client.settings.client import parse
from moldau.connect.config_def import HIDDEN, ConfigKey, ConfigType, ConfigValue
from moldau.settings.setting import Setting, SettingError, SettingType

CLIENTS: Final[Mapping[str, ClientTable]] = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}
REFUSED_OVERRIDES: Final[Mapping[str, tuple[str, ...]]] = {
    "producer": ("transactional.id", "enable.idempotence", "acks", "transaction.two.phase.commit.enable"),
    "consumer": ("group.id", "isolation.level", "enable.auto.commit"),
}
"""Settings of clients that the engine's guarantees depend on."""
_PRINCIPAL: Final = frozenset({"security.protocol", "sasl.jaas.config", "sasl.mechanism"})
"""What the policy Principal allows: the settings of a login."""


def validated(client: str, config: Mapping[str, str], policy: str) -> list[tuple[ConfigKey | None, ConfigValue]]:
    """The overrides of one client with their definitions and problems."""
    prefix, table = f"{client}.override.", CLIENTS[client]
    found: list[tuple[ConfigKey | None, ConfigValue]] = []
    for name, text in config.items():
        if not name.startswith(prefix):
            continue
        setting_name = name.removeprefix(prefix)
        key: ConfigKey | None
        value = ConfigValue(name, text)
        if setting_name in table:
            key = config_key(table[setting_name], prefix, text)
            value.errors += _problems(table, setting_name, prefix, text)
        else:
            key, value.value = None, None  # it may be a password whose name was misspelt
            value.errors.append(f'Unknown configuration "{name}"' + _nearest(table, setting_name, prefix))
        if setting_name in REFUSED_OVERRIDES.get(client, ()):
            value.errors.append(
                f"Configuration {name} cannot be set: the guarantees of connectors depend on the engine's value"
            )
        if not _allowed(policy, setting_name):
            value.errors.append(
                f"The '{policy}' policy does not allow '{setting_name}' to be overridden in the connector configuration"
            )
        found.append((key, value))
    return found


def _allowed(policy: str, name: str) -> bool:
    kind = policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    return kind == "All" or (kind == "Principal" and name in _PRINCIPAL)


def _nearest(table: ClientTable, name: str, prefix: str) -> str:
    nearest = table.nearest(name)
    return f"; did you mean {prefix}{nearest}?" if nearest else ""


def _problems(table: ClientTable, name: str, prefix: str, text: str) -> list[str]:
    setting = table[name]
    try:
        parse(table, name, text)
    except ConfigurationError as error:
        shown = HIDDEN if setting.sensitive else text
        reason = str(error).removeprefix(f"{name}: ")
        return [f"Invalid value {shown} for configuration {prefix}{name}: {HIDDEN if setting.sensitive else reason}"]
    return []


def config_key(setting: Setting, prefix: str, text: str) -> ConfigKey:
    """A setting of a client or topic as a setting of the connector. Its validator is the setting's own parser."""

    def check(name: str, value: object) -> str | None:
        try:
            setting.parse(text)
        except SettingError as error:
            return f"Invalid value {HIDDEN if setting.sensitive else value} for configuration {name}: {error.reason}"
        return None

    kind = ConfigType.STRING if setting.type is SettingType.UNKNOWN else ConfigType[setting.type.name]
    return ConfigKey(
        prefix + setting.name,
        kind,
        setting.documentation,
        setting.default,
        validator=check,
        display_name=setting.name,
    )
