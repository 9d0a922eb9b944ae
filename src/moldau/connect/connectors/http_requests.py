"""HTTP requests of connectors: settings that source and sink share, statuses, waiting times, and safe messages.

Messages and source partitions show a URL without its user, password and query, where secrets are.
"""

from __future__ import annotations

import base64
import datetime
import email.utils
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, one_of

if TYPE_CHECKING:
    import httpx

MAX_RETRY_AFTER_S: Final = 3600.0
"""A server that asks to wait longer than this is asked again after this time."""

_TEMPLATE: Final = re.compile(r"\$\{([A-Za-z0-9_.]+)\}")
_STATUS_RANGE: Final = re.compile(r"(\d{3})(-(\d{3})?)?")

AUTH_SETTINGS: Final = ConfigDef(
    [
        ConfigKey(
            "auth.type",
            ConfigType.STRING,
            "How requests log in: NONE, BASIC (connection.user and connection.password) or BEARER (bearer.token).",
            "NONE",
            Importance.MEDIUM,
            one_of("NONE", "BASIC", "BEARER", "none", "basic", "bearer"),
        ),
        ConfigKey("connection.user", ConfigType.STRING, "The user for auth.type=BASIC.", None),
        ConfigKey("connection.password", ConfigType.PASSWORD, "The password for auth.type=BASIC.", None),
        ConfigKey("bearer.token", ConfigType.PASSWORD, "The token for auth.type=BEARER.", None),
    ]
)


class HttpRefused(MoldauError):
    """An answer that no repetition changes: the request, the address or the login is wrong."""


def http_client(connect_timeout_ms: int, request_timeout_ms: int) -> httpx.Client:
    """A client that keeps its connections. Redirects are not followed: they could lead credentials elsewhere."""
    try:
        import httpx
    except ImportError as error:
        raise MoldauError("HTTP connectors need httpx: pip install 'moldau[connect]'") from error
    logging.getLogger("httpx").setLevel(logging.WARNING)  # its line for each request has the query, where secrets are
    timeout = httpx.Timeout(request_timeout_ms / 1000, connect=connect_timeout_ms / 1000)
    return httpx.Client(timeout=timeout, follow_redirects=False)


def check_url(name: str, value: Any) -> str | None:
    """Validator of a setting with a URL."""
    parts = urlsplit(str(value or ""))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"Invalid value for configuration {name}: it must be a URL such as https://host/path"
    if parts.username is not None or parts.password is not None:
        return f"Invalid value for configuration {name}: user and password go into connection.user and .password"
    return None


def check_auth(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Settings that a kind of login needs."""
    needed = {"BASIC": ("connection.user", "connection.password"), "BEARER": ("bearer.token",)}
    kind = str(config["auth.type"]).upper()
    return {name: [f"auth.type={kind} needs it"] for name in needed.get(kind, ()) if not config[name]}


def login_headers(config: Mapping[str, Any]) -> dict[str, str]:
    kind = str(config["auth.type"]).upper()
    if kind == "BEARER":
        return {"Authorization": f"Bearer {config['bearer.token']}"}
    if kind == "BASIC":
        pair = f"{config['connection.user']}:{config['connection.password']}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {}


def parse_headers(text: str | None, separator: str) -> dict[str, str]:
    """Headers of a setting such as `Accept: text/plain|X-Team: a`. Raises ValueError without showing a value."""
    found = {}
    for number, one in enumerate(filter(str.strip, (text or "").split(separator)), 1):
        name, colon, value = one.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"header {number} is not of the form Name: value")
        found[name.strip()] = value.strip()
    return found


def shown_url(url: str) -> str:
    """A URL without user, password and query."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs are of the same server: credentials of one may be sent to the other."""
    first, second = urlsplit(one), urlsplit(other)
    return (first.scheme, first.hostname, first.port) == (second.scheme, second.hostname, second.port)


def names_in(template: str) -> set[str]:
    """The names in `${name}` of a template."""
    return set(_TEMPLATE.findall(template))


def filled(template: str, values: Mapping[str, Any], *, quoted: bool) -> str:
    """A template with values for its names; `quoted`: they become parts of a URL."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            return found[0]
        text = str(values[found[1]])
        return quote(text, safe="") if quoted else text

    return _TEMPLATE.sub(value, template)


def parse_statuses(text: str) -> list[tuple[int, int]]:
    """Ranges of statuses, such as `429,500-`. Raises ValueError."""
    ranges = []
    for one in text.replace(" ", "").split(","):
        found = _STATUS_RANGE.fullmatch(one)
        if not found:
            raise ValueError(f"{one} is no status and no range of statuses such as 500-599")
        first = int(found[1])
        ranges.append((first, int(found[3]) if found[3] else 999 if found[2] else first))
    return ranges


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """How long a server asks to wait: seconds or a date, at most an hour. None: it does not say."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isdecimal():
        return min(float(text[:9]), MAX_RETRY_AFTER_S)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return min(max(moment.timestamp() - now, 0.0), MAX_RETRY_AFTER_S)


def advice(status: int) -> str:
    """What to do about a status."""
    if status in (401, 403, 407):
        return "check auth.type, its credentials and the headers"
    if status in (404, 405, 410):
        return "check the URL and the method"
    if 300 <= status < 400:
        return "redirects are not followed: configure the final URL"
    return "the server does not accept the request"
