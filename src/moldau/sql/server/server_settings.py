"""Settings of an SQL server, checked.

The declarations are in `setting_table.py`. Beside them, the prefix `spark.` is known (settings of Spark). Any other
name is an error with the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client.settings import ADMIN, CONSUMER, PRODUCER
from moldau.client.settings.security import SECURITY_SETTINGS
from moldau.service.client_setting_names import FOR_CLIENTS
from moldau.service.http_settings import HttpAddress, HttpSettings, advertised_address, http_settings
from moldau.service.setting_sources import gather_settings
from moldau.settings.setting import SettingError
from moldau.sql.server.setting_table import SQL_SERVER
from moldau.sql.server.supervision import RestartRules

ENVIRONMENT_PREFIX: Final = "MOLDAU_SQL_"
SPARK: Final = "spark."


@dataclass(frozen=True)
class ServerSettings:
    """The settings of one server."""

    values: Mapping[str, Any] = field(repr=False)
    """Every declared setting with its value."""
    texts: Mapping[str, str] = field(repr=False)
    """Every setting that was given."""
    http: HttpSettings

    @property
    def spark(self) -> dict[str, str]:
        """Settings of Spark."""
        return {name: text for name, text in self.texts.items() if name.startswith(SPARK)}

    @property
    def client(self) -> dict[str, str]:
        """Settings of all clients: addresses, time-outs, TLS and login, as they were given."""
        names = {*FOR_CLIENTS, *(one.name for one in SECURITY_SETTINGS)}
        known = {name: text for name, text in self.texts.items() if name in names and _of_all_clients(name)}
        return {**known, "bootstrap.servers": ",".join(self.values["bootstrap.servers"])}

    @property
    def restarts(self) -> RestartRules:
        return RestartRules(
            first_pause_s=self.values["moldau.sql.restart.pause.ms"] / 1_000,
            longest_pause_s=self.values["moldau.sql.restart.max.pause.ms"] / 1_000,
            max_failures=self.values["moldau.sql.restart.max.failures"],
        )

    def advertised(self, served: Iterable[HttpAddress]) -> str:
        """The URL under which other servers reach this one, from the addresses that are served."""
        return advertised_address(self.values, served).url


def server_settings(
    *,
    properties: str = "",
    environment: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
) -> ServerSettings:
    """Check the settings of a server. Raises SettingError for the first wrong one."""
    texts = gather_settings(
        SQL_SERVER,
        properties=properties,
        environment=environment,
        prefix=ENVIRONMENT_PREFIX,
        assignments=assignments,
        passes=_problem_of_name,
    )
    values: dict[str, Any] = {setting.name: setting.default for setting in SQL_SERVER}
    values |= SQL_SERVER.parse({name: text for name, text in texts.items() if name in SQL_SERVER})
    if not values["bootstrap.servers"]:
        raise SettingError("bootstrap.servers", "missing; give the address of one broker or more (-b HOST:PORT)")
    if values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
        raise SettingError("heartbeat.interval.ms", "must be smaller than session.timeout.ms; a third of it is usual")
    if values["moldau.sql.statement.timeout.ms"] >= values["moldau.http.request.timeout.ms"]:
        raise SettingError("moldau.sql.statement.timeout.ms", "must be smaller than moldau.http.request.timeout.ms")
    return ServerSettings(values, texts, http_settings(values))


def _problem_of_name(name: str) -> str | None:
    if name.startswith(SPARK):
        return None
    nearest = SQL_SERVER.nearest(name)
    return f"unknown setting of the SQL server{f'; did you mean {nearest}?' if nearest else ''}"


def _of_all_clients(name: str) -> bool:
    return all(name in table for table in (PRODUCER, CONSUMER, ADMIN))
