"""Settings of a single listener: `listener.name.NAME.SETTING` and `listener.name.NAME.MECHANISM.SETTING`.

Such a setting has the type, bounds and scope of the setting that it overrides. NAME and MECHANISM are written in lower
case, as in Kafka; upper case is understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from moldau.settings.quotas import CONNECTION_RATE, QUOTAS
from moldau.settings.sasl import OAUTHBEARER, SASL, SERVED_MECHANISMS, UNSERVED_MECHANISMS
from moldau.settings.setting import Setting, Value
from moldau.settings.tls import TLS

PREFIX: Final = "listener.name."

_OF_MECHANISMS: Final = ("sasl.jaas.config", "sasl.server.callback.handler.class", "connections.max.reauth.ms")
_OF_BROKERS: Final = (
    "connection.failed.authentication.delay.ms",
    "moldau.authentication.timeout.ms",
    "moldau.max.unauthenticated.connections",
    "moldau.unauthenticated.request.bytes",
    "moldau.security.refresh.interval.ms",
    "moldau.initial.users.file",
    "sasl.mechanism.inter.broker.protocol",
)

_OTHERS: Final = tuple(one for one in QUOTAS if one.name == CONNECTION_RATE)

SECURITY: Final[Mapping[str, Setting]] = {one.name: one for one in (*TLS, *SASL, *OAUTHBEARER, *_OTHERS)}
OF_LISTENERS: Final = frozenset(SECURITY) - frozenset(_OF_BROKERS)
"""The settings that a listener may have for itself."""
ONLY_OF_LISTENERS: Final = frozenset(name for name in OF_LISTENERS if name.startswith(("ssl.", "sasl.jaas")))
"""Run-time changes of these must name a listener, as in Kafka."""

_MECHANISMS: Final = tuple(name.lower() for name in (*SERVED_MECHANISMS, *UNSERVED_MECHANISMS))


class Override(NamedTuple):
    """A parsed name: the listener, the mechanism or "", and the setting that is overridden."""

    listener: str
    mechanism: str
    setting: str


@lru_cache(maxsize=1024)
def parse_override(name: str) -> Override | None:
    """The parts of a name with a listener's prefix; None if it is not the name of an override."""
    if not name.startswith(PREFIX):
        return None
    rest = name.removeprefix(PREFIX)
    # A listener's name may have dots: look for the setting at the end.
    for position, character in enumerate(rest):
        if character != "." or rest[position + 1 :] not in OF_LISTENERS:
            continue
        owner, setting = rest[:position], rest[position + 1 :]
        if setting in _OF_MECHANISMS:
            listener, _, mechanism = owner.rpartition(".")
            if listener and mechanism.lower() in _MECHANISMS:
                return Override(listener.upper(), mechanism.upper(), setting)
        return Override(owner.upper(), "", setting) if owner else None
    return None


@lru_cache(maxsize=1024)
def declared_override(name: str) -> Setting | None:
    """The declaration of an override, or None."""
    override = parse_override(name)
    if override is None:
        return None
    base = SECURITY[override.setting]
    return Setting(
        name,
        base.type,
        None,
        f"`{base.name}` of the listener {override.listener}.",
        scope=base.scope,
        low=base.low,
        high=base.high,
        extra_value=base.extra_value,
        choices=base.choices,
        check=base.check,
    )


class ListenerSettings:
    """The security settings of one listener at one moment: its own, otherwise those of the broker."""

    __slots__ = ("_broker", "_overrides", "listener")

    def __init__(self, listener: str, overrides: Mapping[Override, Value], broker: Callable[[str], Value]) -> None:
        self.listener = listener.upper()
        self._overrides = overrides
        self._broker = broker

    def __getitem__(self, setting: str) -> Any:
        return self.of_mechanism("", setting)

    def own(self, setting: str) -> Any:
        """The value that was given for this listener; None if it has none of its own."""
        return self._overrides.get(Override(self.listener, "", setting))

    def has_own(self, setting: str) -> bool:
        """Whether the listener has its own value, and not that of the broker."""
        return Override(self.listener, "", setting) in self._overrides

    def of_mechanism(self, mechanism: str, setting: str) -> Any:
        """The value for one mechanism of the listener, otherwise for the listener, otherwise for the broker."""
        for key in (Override(self.listener, mechanism, setting), Override(self.listener, "", setting)):
            if key in self._overrides:
                return self._overrides[key]
        return self._broker(setting)
