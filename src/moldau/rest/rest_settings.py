"""Settings of a REST proxy, checked.

The declarations are in `setting_table.py`. Beside them the prefixes `producer.`, `consumer.` and `admin.` are known:
settings of the proxy's clients of that kind. Any other name is an error with the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client.settings import ADMIN, CONSUMER, PRODUCER
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.rest.setting_table import REGISTRY, REST_PROXY
from moldau.service.client_setting_names import FOR_CLIENTS
from moldau.service.http_settings import HttpSettings, http_settings
from moldau.service.setting_sources import gather_settings
from moldau.settings.setting import SettingError

ENVIRONMENT_PREFIX: Final = "MOLDAU_REST_"
KINDS: Final = {"producer.": PRODUCER, "consumer.": CONSUMER, "admin.": ADMIN}
OF_THE_PROXY: Final = ("group.id", "enable.auto.commit", "key.deserializer", "value.deserializer", "transactional.id")
"""Settings of clients that the proxy or its users choose."""
PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class RestSettings:
    """The settings of one proxy."""

    values: Mapping[str, Any] = field(repr=False)
    """Every declared setting with its value."""
    texts: Mapping[str, str] = field(repr=False)
    """Every setting that was given."""
    http: HttpSettings

    @property
    def logs_in_users(self) -> bool:
        return bool(self.values["authentication.method"] == "BASIC")

    def client(self, kind: str) -> dict[str, str]:
        """The settings of the clients of one kind: those of all clients, and those with its prefix."""
        names = {*FOR_CLIENTS, *(one.name for one in SECURITY_SETTINGS)}
        table = KINDS[kind]
        known = {name: text for name, text in self.texts.items() if name in names and name in table}
        own = {name.removeprefix(kind): text for name, text in self.texts.items() if name.startswith(kind)}
        own = {name: text for name, text in own.items() if f"{kind}{name}" not in REST_PROXY}
        return {**known, "bootstrap.servers": ",".join(self.values["bootstrap.servers"]), **own}

    @property
    def registry(self) -> dict[str, Any]:
        """The settings of the client of the schema registry; empty without one."""
        if not self.values["schema.registry.url"]:
            return {}
        return {one.name: self.values[one.name] for one in REGISTRY if self.values[one.name]} | {
            "schema.registry.url": ",".join(self.values["schema.registry.url"])
        }

    def seconds(self, name: str) -> float:
        milliseconds: int = self.values[name]
        return milliseconds / 1_000


def rest_settings(
    *,
    properties: str = "",
    environment: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
) -> RestSettings:
    """Check the settings of a proxy. Raises SettingError for the first wrong one."""
    texts = gather_settings(
        REST_PROXY,
        properties=properties,
        environment=environment,
        prefix=ENVIRONMENT_PREFIX,
        assignments=assignments,
        passes=_problem_of_name,
    )
    values: dict[str, Any] = {setting.name: setting.default for setting in REST_PROXY}
    values |= REST_PROXY.parse({name: text for name, text in texts.items() if name in REST_PROXY})
    if not values["bootstrap.servers"]:
        raise SettingError("bootstrap.servers", "missing; give the address of one broker or more (-b HOST:PORT)")
    _check_login(values)
    return RestSettings(values, texts, http_settings(values, own_login=values["authentication.method"] == "BASIC"))


def _check_login(values: Mapping[str, Any]) -> None:
    if values["authentication.method"] != "BASIC":
        return
    if not str(values["security.protocol"]).startswith("SASL"):
        raise SettingError("authentication.method", "BASIC needs security.protocol SASL_PLAINTEXT or SASL_SSL")
    if values["sasl.mechanism"] not in PASSWORD_MECHANISMS:
        known = ", ".join(PASSWORD_MECHANISMS)
        raise SettingError("sasl.mechanism", f"with authentication.method=BASIC it must be one of {known}")
    if values["moldau.http.password.file"]:
        raise SettingError(
            "moldau.http.password.file", "the brokers know the users with authentication.method=BASIC; remove one"
        )


def _problem_of_name(name: str) -> str | None:
    for prefix, table in KINDS.items():
        short = name.removeprefix(prefix)
        if name.startswith(prefix) and short in table:
            return "the proxy sets this itself" if short in OF_THE_PROXY else None
    nearest = REST_PROXY.nearest(name)
    return f"unknown setting of the REST proxy{f'; did you mean {nearest}?' if nearest else ''}"
