"""Settings of one client: the given values, checked, and Kafka's defaults for all others.

Settings are a mapping with Kafka's names (`{"linger.ms": 5}`), keywords (`linger_ms=5`), or both. A value is text, as
in Kafka's property files, or a Python value: a number, a bool, a list. For serializers, partitioners, assignors and
interceptors it is a class, an instance or a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from moldau.client.client_errors import ConfigurationError
from moldau.host.event_log import event_logger
from moldau.host.reference_files import resolve_references
from moldau.settings.setting import Setting, SettingError, SettingType
from moldau.settings.table import SettingTable

log = event_logger(__name__)

CASE_DOES_NOT_MATTER = {
    "group.protocol": str.lower,
    "metadata.recovery.strategy": str.lower,
    "security.protocol": str.upper,
}
"""Settings whose values Kafka accepts in upper and lower case, and the case that is stored."""

NUMBERS = (SettingType.INT, SettingType.SHORT, SettingType.LONG, SettingType.DOUBLE)

Rules = Callable[[dict[str, Any], frozenset[str]], None]
"""Checks between settings: may change values that were not given, and raises ConfigurationError on a conflict."""


class ClientTable(SettingTable):
    """The settings of one kind of client, and the checks between them."""

    __slots__ = ("rules",)

    def __init__(self, kind: str, sections: Mapping[str, Sequence[Setting]], rules: Rules) -> None:
        super().__init__(kind, sections)
        self.rules = rules


class Address(NamedTuple):
    """An address of bootstrap.servers."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClientSettings:
    """The settings of one client. `settings["linger.ms"]` has the type of the setting."""

    __slots__ = ("_values", "given", "kind")

    def __init__(self, kind: str, values: dict[str, Any], given: frozenset[str]) -> None:
        self.kind = kind
        self._values = values
        self.given = given
        """The names of the settings that were given; all others have their default."""

    @classmethod
    def of(
        cls,
        table: ClientTable,
        mapping: Mapping[str, Any] | None = None,
        keywords: Mapping[str, Any] | None = None,
    ) -> ClientSettings:
        """Return the checked settings. Raises ConfigurationError for the first wrong one."""
        if not isinstance(mapping or {}, Mapping):
            raise ConfigurationError(
                f"settings are a mapping or keywords, such as bootstrap_servers='localhost:9092'; got {mapping!r}"
            )
        texts: dict[str, Any] = dict(mapping or {})
        for keyword, value in (keywords or {}).items():
            name = keyword.replace("_", ".")
            if name in texts:
                raise ConfigurationError(f"{name}: given twice, in the mapping and as {keyword}=; remove one of them")
            texts[name] = value
        values: dict[str, Any] = {setting.name: setting.default for setting in table}
        given = set()
        for name, value in resolved(texts).items():
            if value is not None:
                values[name] = parse(table, name, value)
                given.add(name)
        if not values["bootstrap.servers"]:
            raise ConfigurationError(
                "bootstrap.servers: missing; give the address of one broker or more, such as localhost:9092"
            )
        addresses(values["bootstrap.servers"], values["security.protocol"])
        table.rules(values, frozenset(given))
        for setting in table:
            if setting.no_effect and setting.name in given:
                log.warning("setting has no effect", extra={"setting": setting.name, "reason": setting.no_effect})
        return cls(table.kind, values, frozenset(given))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def seconds(self, name: str) -> float:
        """Return a setting in milliseconds as seconds, the unit of the event loop's clock."""
        milliseconds: int = self._values[name]
        return milliseconds / 1000

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses of bootstrap.servers."""
        return addresses(self._values["bootstrap.servers"], self._values["security.protocol"])


def resolved(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with `${env:NAME}` and `${file:/path}` replaced. Raises ConfigurationError."""
    texts = {name: value for name, value in given.items() if isinstance(value, str) and "${" in value}
    try:
        return {**given, **(resolve_references(texts) if texts else {})}
    except SettingError as error:
        raise ConfigurationError(str(error)) from None


def parse(table: ClientTable, name: str, given: Any) -> Any:
    """Return the value of one setting, from text or from a Python value."""
    if name not in table:
        raise ConfigurationError(str(table.unknown(str(name))))
    setting = table[name]
    if setting.type is SettingType.CLASS:
        return given.strip() if isinstance(given, str) else given
    if setting.type is SettingType.LIST and not isinstance(given, str):
        items = tuple(given) if isinstance(given, (list, tuple)) else (given,)
        return tuple(item.strip() if isinstance(item, str) else item for item in items)
    try:
        text = _text(setting, given)
        return setting.parse(CASE_DOES_NOT_MATTER.get(name, str)(text))
    except SettingError as error:
        raise ConfigurationError(str(error)) from None


def _text(setting: Setting, given: object) -> str:
    """Return the text for a Python value."""
    if isinstance(given, str):
        return given
    kind = setting.type
    if isinstance(given, bool):
        if kind is SettingType.BOOLEAN:
            return "true" if given else "false"
    elif isinstance(given, int) and kind in (*NUMBERS, SettingType.STRING):
        return str(given)
    elif isinstance(given, float) and kind in NUMBERS:
        whole = kind is not SettingType.DOUBLE and given.is_integer()
        return str(int(given)) if whole else repr(given)
    shown = "the value" if setting.sensitive else repr(given)
    raise SettingError(setting.name, f"{shown} has the type {type(given).__name__}; give a value of type {kind.name}")


def addresses(texts: Sequence[str], protocol: str) -> tuple[Address, ...]:
    """Return the addresses of `bootstrap.servers`: host:port each, IPv6 addresses in brackets."""
    return tuple(_address(text, protocol) for text in texts)


def _address(text: object, protocol: str) -> Address:
    if not isinstance(text, str):
        raise ConfigurationError(f"bootstrap.servers: {text!r} is not a str such as 'localhost:9092'")
    scheme, separator, rest = text.rpartition("://")
    if separator and scheme.upper() != protocol:
        raise ConfigurationError(
            f"bootstrap.servers: {text!r} is not for security.protocol={protocol}; write HOST:PORT, and set "
            "security.protocol"
        )
    host, separator, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigurationError(f"bootstrap.servers: {text!r}: put an IPv6 address in brackets, [::1]:9092")
    if not separator or not host:
        raise ConfigurationError(f"bootstrap.servers: {text!r} is not HOST:PORT, such as localhost:9092")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigurationError(f"bootstrap.servers: {text!r}: {port!r} is not a port from 1 to 65535")
    return Address(host, int(port))
