"""Listeners: parsing and validation of `listeners`, `advertised.listeners` and the related settings.

Pure functions from texts to addresses: this module binds and resolves nothing. A listener has a name, and each name is
mapped to a security protocol. Clients get the advertised address of the listener that they connected to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.settings.setting import SettingError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")

_ADDRESS = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([0-9A-Fa-f:.%\w]+)\]|([A-Za-z0-9_.-]*)):([0-9]{1,5})")
WILDCARDS = ("0.0.0.0", "::")
MAX_PORT = 65535


class ListenerAddress(NamedTuple):
    """A named address. An empty host means every interface when bound, and this machine's host name when advertised."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class ListenerPlan(NamedTuple):
    """The addresses to bind, the addresses to advertise, and the listener for connections between brokers."""

    bound: tuple[ListenerAddress, ...]
    advertised: tuple[ListenerAddress, ...]
    """At most one per bound listener, with the same name. Port 0 stands for the port that was bound."""
    inter_broker: str


def parse_protocol_map(text: str, setting: str = "listener.security.protocol.map") -> dict[str, str]:
    """Parse `NAME:PROTOCOL,...`. Names are converted to upper case, as in all comparisons of listener names."""
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
    """Parse one `NAME://HOST:PORT`. An IPv6 host is in square brackets; an empty host is allowed."""
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
    """The addresses to bind: at least one, with different names and without port conflicts."""
    listeners = _parse_distinct(texts, protocols, "listeners")
    if not listeners:
        raise SettingError("listeners", "at least one listener is needed")
    for position, listener in enumerate(listeners):
        for other in listeners[:position]:
            if listener.port and listener.port == other.port and _overlap(listener.host, other.host):
                raise SettingError("listeners", f"{other} and {listener} claim the same port")
    return listeners


def parse_advertised(texts: Iterable[str], protocols: Mapping[str, str]) -> tuple[ListenerAddress, ...]:
    """The addresses that clients get: a client must be able to connect to each of them."""
    advertised = _parse_distinct(texts, protocols, "advertised.listeners")
    for address in advertised:
        if address.host in WILDCARDS:
            raise SettingError(
                "advertised.listeners", f"clients cannot connect to {address}; give the address that clients should use"
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
    """Check all listener settings together.

    Listeners in `controller_names` belong to Kafka's controller quorum. They are recognised and left out, so that a
    `server.properties` written for Kafka works unchanged.
    """
    skipped = {name.strip().upper() for name in controller_names}
    protocols = {**dict.fromkeys(skipped, "PLAINTEXT"), **parse_protocol_map(protocol_map)}
    bound = tuple(one for one in parse_listeners(listeners, protocols) if one.name not in skipped)
    if not bound:
        raise SettingError("listeners", "every listener is in controller.listener.names; add one for clients")
    told = _advertised_of(bound, advertised, protocols, skipped)
    return ListenerPlan(bound, told, _inter_broker_listener(told, inter_broker_name, inter_broker_protocol))


def _advertised_of(
    bound: tuple[ListenerAddress, ...], texts: Iterable[str] | None, protocols: Mapping[str, str], skipped: set[str]
) -> tuple[ListenerAddress, ...]:
    if texts is None:
        for listener in bound:
            if listener.host in WILDCARDS:
                raise SettingError(
                    "advertised.listeners",
                    f"required, because {listener} listens on every interface and clients cannot connect to "
                    f"{listener.host}",
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
        raise SettingError(
            "advertised.listeners", "no listener is left for clients; advertise at least one of listeners"
        )
    return advertised


def _inter_broker_listener(advertised: tuple[ListenerAddress, ...], name: str | None, protocol: str | None) -> str:
    """The listener with the given name, else (as in Kafka) the one named like the protocol, else the first."""
    names = [address.name for address in advertised]
    if name is not None:
        if protocol is not None:
            raise SettingError(
                "inter.broker.listener.name", "cannot be set together with security.inter.broker.protocol"
            )
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
    """Whether the two hosts cannot share a port: they are equal, or one covers all interfaces of the other's family."""
    if one == other or not one or not other:
        return True
    if (":" in one) != (":" in other):
        return False
    return one in WILDCARDS or other in WILDCARDS
