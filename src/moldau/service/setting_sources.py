"""Sources of a service's settings: a properties file, environment variables, and `--set`.

Later sources override earlier ones, in that order. Unlike a broker, a service refuses unknown names in its file too: it
knows every name that Kafka's service has, and a misspelt password setting must not pass in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from moldau.settings.setting import SettingError
from moldau.settings.sources import read_assignment, read_properties
from moldau.settings.table import SettingTable

Passes = Callable[[str], str | None]
"""For a name that is not in the table: None if it may pass (it has a known prefix), otherwise what is wrong with it."""


def gather_settings(
    table: SettingTable,
    *,
    properties: str = "",
    environment: Mapping[str, str] | None = None,
    prefix: str,
    assignments: Iterable[str] = (),
    passes: Passes,
) -> dict[str, str]:
    """The texts of all given settings by name. SettingError names the first unknown one, and the nearest known."""
    texts = read_properties(properties)
    for variable, text in sorted((environment or {}).items()):
        if variable.startswith(prefix):
            texts[_setting_of(variable, prefix, table)] = text
    texts.update(map(read_assignment, assignments))
    for name in texts:
        if name not in table and (problem := passes(name)) is not None:
            raise SettingError(name, problem)
    return texts


def _setting_of(variable: str, prefix: str, table: SettingTable) -> str:
    """`MOLDAU_CONNECT_GROUP_ID` sets `group.id`. Settings under `moldau.` need no second prefix."""
    name = variable.removeprefix(prefix).lower().replace("_", ".")
    own = f"moldau.{name}"
    return own if name not in table and own in table else name
