"""Listeners: what the texts of `listeners`, `advertised.listeners` and their relatives mean.

Pure functions from texts to addresses; nothing is bound or resolved here. A listener has a name, and the name is mapped
to a security protocol. Clients are told the advertised address of the listener that they came in by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.settings.setting import SettingError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SERVED_PROTOCOLS = ("PLAINTEXT",)
"""Those that this version speaks. A listener with another one is refused at start, not opened unprotected."""

_ADDRESS = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([0-9A-Fa-f:.%\w]+)\]|([A-Za-z0-9_.-]*)):([0-9]{1,5})")
_WILDCARDS = ("0.0.0.0", "::")
MAX_PORT = 65535


class ListenerAddress(NamedTuple):
    """A named address. An empty host means every interface to bind, and this machine's own name to advertise."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class ListenerPlan(NamedTuple):
    """What to bind, what to tell clients, and which listener brokers use among themselves."""

    bound: tuple[ListenerAddress, ...]
    advertised: tuple[ListenerAddress, ...]
    """At most one for each bound listener, of the same name. Port 0 stands for whatever port was bound."""
    inter_broker: str


def parse_protocol_map(text: str, setting: str = "listener.security.protocol.map") -> dict[str, str]:
    """`NAME:PROTOCOL,...` as a mapping. Names are in capitals, as everywhere that a listener's name is compared."""
    protocols: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in item.partition(":"))
        if not (name and colon):
            raise SettingError(setting, f"{item!r} is not of the form NAME:PROTOCOL")
        if protocol not in SECURITY_PROTOCOLS:
            raise SettingError(setting, f"{protocol!r} is not one of {', '.join(SECURITY_PROTOCOLS)}")
        if name in protocols:
            raise SettingError(setting, f"listener {name} is mapped twice")
        protocols[name] = protocol
    return protocols


def parse_address(text: str, protocols: Mapping[str, str], setting: str) -> ListenerAddress:
    """One `NAME://HOST:PORT`; an IPv6 host stands in square brackets, an empty host is allowed."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        raise SettingError(setting, f"{text!r} is not of the form NAME://HOST:PORT")
    name, host = match[1].upper(), match[2] or match[3]
    port = int(match[4])
    if port > MAX_PORT:
        raise SettingError(setting, f"{text!r} has a port above {MAX_PORT}")
    protocol = protocols.get(name)
    if protocol is None:
        raise SettingError(setting, f"listener {name} has no security protocol in listener.security.protocol.map")
    return ListenerAddress(name, host, port, protocol)


def parse_listeners(texts: Iterable[str], protocols: Mapping[str, str]) -> tuple[ListenerAddress, ...]:
    """The addresses to bind: at least one, names differ, no two claim the same port of the same interface."""
    listeners = _parse_distinct(texts, protocols, "listeners")
    if not listeners:
        raise SettingError("listeners", "at least one listener is needed")
    for position, listener in enumerate(listeners):
        for other in listeners[:position]:
            if listener.port and listener.port == other.port and _overlap(listener.host, other.host):
                raise SettingError("listeners", f"{other} and {listener} claim the same port")
    return listeners


def parse_advertised(texts: Iterable[str], protocols: Mapping[str, str]) -> tuple[ListenerAddress, ...]:
    """The addresses that clients are told: each one must be an address that a client can connect to."""
    advertised = _parse_distinct(texts, protocols, "advertised.listeners")
    for address in advertised:
        if address.host in _WILDCARDS:
            raise SettingError(
                "advertised.listeners", f"{address} cannot be connected to; name the address that clients should use"
            )
    return advertised


def plan_listeners(
    *,
    listeners: Iterable[str],
    advertised: Iterable[str] | None,
    protocol_map: str,
    inter_broker_name: str | None = None,
    inter_broker_protocol: str | None = None,
    controller_names: Iterable[str] = (),
) -> ListenerPlan:
    """All listener settings together, checked against each other.

    Listeners of `controller_names` are Kafka's own quorum's; they are known and left out, so that a `server.properties`
    written for Kafka works as it is.
    """
    skipped = {name.strip().upper() for name in controller_names}
    protocols = {**dict.fromkeys(skipped, "PLAINTEXT"), **parse_protocol_map(protocol_map)}
    bound = tuple(one for one in parse_listeners(listeners, protocols) if one.name not in skipped)
    if not bound:
        raise SettingError("listeners", "every listener is in controller.listener.names; none is left for clients")
    for listener in bound:
        if listener.protocol not in SERVED_PROTOCOLS:
            served = ", ".join(SERVED_PROTOCOLS)
            raise SettingError("listeners", f"{listener} asks for {listener.protocol}; this version serves {served}")
    told = _advertised_of(bound, advertised, protocols, skipped)
    return ListenerPlan(bound, told, _inter_broker_listener(told, inter_broker_name, inter_broker_protocol))


def _advertised_of(
    bound: tuple[ListenerAddress, ...], texts: Iterable[str] | None, protocols: Mapping[str, str], skipped: set[str]
) -> tuple[ListenerAddress, ...]:
    if texts is None:
        for listener in bound:
            if listener.host in _WILDCARDS:
                raise SettingError(
                    "advertised.listeners",
                    f"needed: {listener} is bound to every interface, and {listener.host} is no address to connect to",
                )
        return bound
    advertised = tuple(one for one in parse_advertised(texts, protocols) if one.name not in skipped)
    names = {listener.name for listener in bound}
    for address in advertised:
        if address.name not in names:
            raise SettingError(
                "advertised.listeners", f"{address} is advertised, but {address.name} is not in listeners"
            )
    if not advertised:
        raise SettingError("advertised.listeners", "no listener is left that clients could use")
    return advertised


def _inter_broker_listener(advertised: tuple[ListenerAddress, ...], name: str | None, protocol: str | None) -> str:
    """Given by name, else the listener named as its protocol, as Kafka has it; else the first."""
    names = [address.name for address in advertised]
    if name is not None:
        if protocol is not None:
            raise SettingError("inter.broker.listener.name", "may not be given with security.inter.broker.protocol")
        if name.upper() not in names:
            raise SettingError(
                "inter.broker.listener.name", f"{name} is not an advertised listener ({', '.join(names)})"
            )
        return name.upper()
    if protocol is not None and protocol not in names:
        raise SettingError("security.inter.broker.protocol", f"no advertised listener is named {protocol}")
    return protocol or ("PLAINTEXT" if "PLAINTEXT" in names else names[0])


def _parse_distinct(texts: Iterable[str], protocols: Mapping[str, str], setting: str) -> tuple[ListenerAddress, ...]:
    addresses: dict[str, ListenerAddress] = {}
    for text in texts:
        address = parse_address(text, protocols, setting)
        if address.name in addresses:
            raise SettingError(setting, f"listener {address.name} is given twice")
        addresses[address.name] = address
    return tuple(addresses.values())


def _overlap(one: str, other: str) -> bool:
    """Whether binding both would clash: the same host, or every interface of the same family."""
    if one == other or not one or not other:
        return True
    if (":" in one) != (":" in other):
        return False
    return one in _WILDCARDS or other in _WILDCARDS
