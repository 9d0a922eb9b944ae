"""Checks of a request's headers against abuse by web pages: Host (DNS rebinding), Origin and Sec-Fetch-Site.

A browser on this machine reaches 127.0.0.1, and so does every page that it shows. Two checks keep pages of others out:

* A page whose host name was made to resolve to this machine (DNS rebinding) sends that name as `Host`. Only IP
  addresses and names that are known to be the service's are accepted.
* A page of another origin that sends a changing request shows itself by `Origin`, or by `Sec-Fetch-Site`. It must be
  allowed by `access.control.allow.origin`. Programs other than browsers send neither.

Pure functions: each returns what is wrong, or None.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence
from typing import Final

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
ANY_ORIGIN: Final = "*"
FOREIGN_SITES: Final = frozenset({"cross-site", "same-site"})
"""Values of Sec-Fetch-Site of a page of another origin. `none` is the user's own doing."""
DEFAULT_CROSS_ORIGIN_METHODS: Final = ("GET", "POST", "HEAD")


def host_name(host: str) -> str:
    """The name in a Host header, in lower case, without the port and without the brackets of an IPv6 address."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def host_problem(host: str | None, known: Collection[str]) -> str | None:
    """What is wrong with the Host header. `known` are the names of the service, in lower case."""
    if not host:
        return "the request has no Host header"
    name = host_name(host)
    if name in known:
        return None
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return (
            f"this service is not known as {name!r}; use its IP address, or add the name to moldau.http.allowed.hosts"
        )
    return None


def origin_problem(
    method: str, host: str, origin: str | None, fetch_site: str | None, allowed: Sequence[str]
) -> str | None:
    """What is wrong with the origin of a changing request. `host` is the accepted Host header."""
    if method in SAFE_METHODS:
        return None
    if origin is None:
        if fetch_site in FOREIGN_SITES:
            return "a web page of another origin sent this request without naming its origin"
        return None
    if is_own_origin(origin, host) or is_allowed_origin(origin, allowed):
        return None
    return (
        f"web pages of {origin!r} may not change anything here; to allow it, set access.control.allow.origin={origin}"
    )


def is_own_origin(origin: str, host: str) -> bool:
    """Whether the origin is a page of this service itself: the same host and port, whatever the scheme."""
    scheme, _, place = origin.lower().partition("://")
    return scheme in ("http", "https") and bool(place) and place == host.strip().lower()


def is_allowed_origin(origin: str, allowed: Sequence[str]) -> bool:
    return ANY_ORIGIN in allowed or origin in allowed


def cross_origin_headers(origin: str | None, allowed: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """The headers of a response that let a page of an allowed origin read it."""
    if origin is None or not is_allowed_origin(origin, allowed):
        return []
    return [(b"access-control-allow-origin", origin.encode("latin-1", "replace")), (b"vary", b"Origin")]


def preflight_headers(methods: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Further headers of the answer to a preflight request (OPTIONS) of an allowed origin."""
    return [
        (b"access-control-allow-methods", ",".join(methods or DEFAULT_CROSS_ORIGIN_METHODS).encode()),
        (b"access-control-allow-headers", b"X-Requested-With,Content-Type,Accept,Origin,Authorization"),
        (b"access-control-max-age", b"1800"),
    ]
