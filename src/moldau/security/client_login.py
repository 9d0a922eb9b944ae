"""Login of a client: what it logs in with, from the options of a JAAS login module. Values only.

Kafka's login modules and their options:

* `PlainLoginModule`: username, password.
* `ScramLoginModule`: username, password; tokenauth=true for a delegation token (id and HMAC).
* `OAuthBearerLoginModule`: clientId, clientSecret, scope for a token endpoint; unsecuredLoginStringClaim_sub and the
  like for tokens without a signature; extension_NAME for SASL extensions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.security.jaas import LoginModule
from moldau.security.sasl_client import MECHANISMS, OAUTHBEARER, PLAIN, PlainClient, SaslClient, ScramSaslClient

LOGIN_MODULES = {
    "PlainLoginModule": (PLAIN,),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": (OAUTHBEARER,),
}
UNSECURED_LIFETIME_S = 3600

_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")


class LoginError(ValueError):
    """The options of a login are incomplete or do not fit the mechanism. The message has no secret."""


class PasswordLogin(NamedTuple):
    """A user name with a password, or a delegation token with its HMAC."""

    mechanism: str
    username: str
    password: str
    token: bool = False

    def __repr__(self) -> str:
        return f"PasswordLogin({self.mechanism}, username={self.username!r}, password not shown)"

    def exchange(self) -> SaslClient:
        """Return a new exchange with these credentials."""
        if self.mechanism == PLAIN:
            return PlainClient(self.username, self.password)
        return ScramSaslClient(self.mechanism, self.username, self.password, token=self.token)


class TokenLogin(NamedTuple):
    """Where a token comes from: a token endpoint with these credentials, or this client itself (`unsecured`)."""

    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    unsecured_claims: Mapping[str, Any] | None = None
    unsecured_lifetime_s: float = UNSECURED_LIFETIME_S
    extensions: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"TokenLogin(client_id={self.client_id!r}, secret not shown)"

    @property
    def mechanism(self) -> str:
        return OAUTHBEARER


Login = PasswordLogin | TokenLogin


def login_of(mechanism: str, module: LoginModule) -> Login:
    """Return what a client logs in with, for `sasl.mechanism` and its JAAS login module. Raises LoginError."""
    check_mechanism(mechanism)
    name = module.simple_name
    known = LOGIN_MODULES.get(name)
    if known is None:
        raise LoginError(f"the login module {name} is not supported; use one of {', '.join(LOGIN_MODULES)}")
    if mechanism not in known:
        raise LoginError(f"the login module {name} is for {' and '.join(known)}, not for {mechanism}")
    if mechanism == OAUTHBEARER:
        return _token_login(module.options)
    return password_login(
        mechanism,
        module.options.get("username", ""),
        module.options.get("password", ""),
        token=module.options.get("tokenauth", "").lower() == "true",
    )


def password_login(mechanism: str, username: str, password: str, *, token: bool = False) -> PasswordLogin:
    """Return a login by password. Raises LoginError if something is missing."""
    for value, option in ((username, "username"), (password, "password")):
        if not value:
            raise LoginError(f"{mechanism} needs a {option}")
        if "\0" in value:
            raise LoginError(f"the {option} has a NUL character, which {mechanism} does not allow")
    if token and mechanism == PLAIN:
        raise LoginError("delegation tokens (tokenauth) need a SCRAM mechanism")
    return PasswordLogin(mechanism, username, password, token)


def check_mechanism(mechanism: str) -> None:
    """Raise LoginError if the client does not have the mechanism."""
    if mechanism not in MECHANISMS:
        kerberos = " (Kerberos is not supported)" if mechanism == "GSSAPI" else ""
        raise LoginError(f"{mechanism!r} is not supported{kerberos}; use one of {', '.join(MECHANISMS)}")


def _token_login(options: Mapping[str, str]) -> TokenLogin:
    return TokenLogin(
        client_id=options.get("clientId", ""),
        client_secret=options.get("clientSecret", ""),
        scope=options.get("scope", ""),
        unsecured_claims=_unsecured_claims(options),
        unsecured_lifetime_s=_number(options, "unsecuredLoginLifetimeSeconds", UNSECURED_LIFETIME_S),
        extensions=_extensions(options),
    )


def _unsecured_claims(options: Mapping[str, str]) -> Mapping[str, Any] | None:
    claims: dict[str, Any] = {}
    for name, value in options.items():
        kind, _, claim = name.partition("Claim_")
        if kind == "unsecuredLoginString":
            claims[claim] = value
        elif kind == "unsecuredLoginNumber":
            claims[claim] = _number(options, name, 0)
        elif kind == "unsecuredLoginList":
            # As in Kafka, the first character of the value separates the items.
            claims[claim] = value[1:].split(value[0]) if value else []
    return claims or None


def _number(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise LoginError(f"the option {name} is not a number") from None
    return int(value) if value.is_integer() else value


def _extensions(options: Mapping[str, str]) -> Mapping[str, str]:
    prefix = "extension_"
    found = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    for name, value in found.items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name):
            raise LoginError(f"the name of the SASL extension {name!r} must have letters only, and not be 'auth'")
        if not _EXTENSION_VALUE.fullmatch(value):
            raise LoginError(f"the SASL extension {name} is empty, or has characters that are not allowed")
    return found
