"""Hosts in access control rules: an IP address, a network in CIDR notation, or `*` for every host."""

from __future__ import annotations

from ipaddress import ip_network

from moldau.security.acls import WILDCARD


def host_error(host: str) -> str | None:
    """Why a rule cannot have this host; None if it can.

    Kafka takes any text. A text that is no address never matches a client, so a rule with it, above all a DENY rule,
    would do nothing.
    """
    if host == WILDCARD:
        return None
    try:
        ip_network(host, strict=False)
    except ValueError:
        return f"Host '{host}' is not '*', an IP address, or a network such as 10.0.0.0/8."
    return None
