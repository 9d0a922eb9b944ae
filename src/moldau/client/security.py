"""Security of a client's connections: its TLS contexts and its logins, from its settings.

Files are read and passwords are hashed in threads. Nothing here shows a secret: errors name settings and files.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from moldau.client.client_errors import ConfigurationError
from moldau.client.settings import ClientSettings
from moldau.host.clock import SystemClock
from moldau.host.secret_files import read_bounded
from moldau.net.client_logins import (
    ClientLogins,
    FetchToken,
    RetryPolicy,
    TokenCache,
    endpoint_fetch,
    unsecured_fetch,
)
from moldau.net.tls_client import ClientTls
from moldau.net.tls_settings import TlsSettings
from moldau.net.token_endpoint import TokenEndpoint
from moldau.security.bearer_tokens import TokenError, TokenRefresh
from moldau.security.client_login import Login, LoginError, TokenLogin, login_of, password_login
from moldau.security.jaas import JaasError, parse_login_module

T = TypeVar("T")

DEFAULT_TIMEOUT_MS = 10_000
"""The time limit of a token endpoint. Kafka's own default is none."""


class ClientSecurity(NamedTuple):
    """TLS and login of one client; None where security.protocol has none."""

    tls: ClientTls | None
    login: ClientLogins | None


def client_security(settings: ClientSettings, random: Callable[[], float]) -> ClientSecurity:
    """Return the security of a client. Raises ConfigurationError."""
    protocol: str = settings["security.protocol"]
    return ClientSecurity(
        ClientTls(tls_settings(settings), _in_thread) if protocol.endswith("SSL") else None,
        _client_logins(settings, random) if protocol.startswith("SASL") else None,
    )


async def _in_thread(function: Callable[[], T]) -> T:
    return await asyncio.to_thread(function)


# -- TLS -----------------------------------------------------------------------------------------------------------


def tls_settings(settings: ClientSettings) -> TlsSettings:
    """Return the TLS settings of a client."""
    chain, key = settings["ssl.keystore.certificate.chain"], settings["ssl.keystore.key"]
    if settings["ssl.certificate.location"] or settings["ssl.key.location"]:
        chain, key = _file(settings, "ssl.certificate.location"), _file(settings, "ssl.key.location")
    return TlsSettings(
        keystore_location=settings["ssl.keystore.location"],
        keystore_type=settings["ssl.keystore.type"],
        keystore_password=settings["ssl.keystore.password"],
        key_password=settings["ssl.key.password"],
        keystore_certificate_chain=chain,
        keystore_key=key,
        truststore_location=settings["ssl.truststore.location"],
        truststore_type=settings["ssl.truststore.type"],
        truststore_password=settings["ssl.truststore.password"],
        truststore_certificates=settings["ssl.truststore.certificates"],
        enabled_protocols=settings["ssl.enabled.protocols"],
        cipher_suites=settings["ssl.cipher.suites"],
        endpoint_identification_algorithm=settings["ssl.endpoint.identification.algorithm"],
    )


def _file(settings: ClientSettings, name: str) -> str:
    path: str = settings[name]
    if not path:
        return ""
    try:
        return read_bounded(path).decode()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not PEM"
        raise ConfigurationError(f"{name}: the file {path} cannot be read: {reason}") from None


# -- SASL ----------------------------------------------------------------------------------------------------------


def login_settings(settings: ClientSettings) -> Login:
    """Return what the client logs in with. Raises ConfigurationError."""
    mechanism: str = settings["sasl.mechanism"]
    name = "sasl.jaas.config" if settings["sasl.jaas.config"] else "sasl.username"
    try:
        if settings["sasl.jaas.config"]:
            return login_of(mechanism, parse_login_module(settings["sasl.jaas.config"]))
        if mechanism == "OAUTHBEARER":
            return TokenLogin()
        return password_login(mechanism, settings["sasl.username"], settings["sasl.password"])
    except (JaasError, LoginError) as error:
        raise ConfigurationError(f"{name}: {error}") from None


def _client_logins(settings: ClientSettings, random: Callable[[], float]) -> ClientLogins:
    login = login_settings(settings)
    tokens = None
    if isinstance(login, TokenLogin):
        login = login._replace(
            client_id=settings["sasl.oauthbearer.client.credentials.client.id"] or login.client_id,
            client_secret=settings["sasl.oauthbearer.client.credentials.client.secret"] or login.client_secret,
            scope=settings["sasl.oauthbearer.scope"] or login.scope,
        )
        refresh = TokenRefresh(
            settings["sasl.login.refresh.window.factor"],
            settings["sasl.login.refresh.window.jitter"],
            settings["sasl.login.refresh.min.period.seconds"],
            settings["sasl.login.refresh.buffer.seconds"],
        )
        tokens = TokenCache(_token_source(settings, login), SystemClock(), random, refresh)
    return ClientLogins(login, tokens, _in_thread)


def _token_source(settings: ClientSettings, login: TokenLogin) -> FetchToken:
    provider = settings["sasl.oauth.token.provider"]
    if provider is not None:
        if not callable(provider):
            raise ConfigurationError("sasl.oauth.token.provider: is not a function")
        return provided_token(provider)
    if settings["sasl.oauthbearer.token.endpoint.url"]:
        endpoint = TokenEndpoint(
            settings["sasl.oauthbearer.token.endpoint.url"],
            (settings["sasl.login.connect.timeout.ms"] or DEFAULT_TIMEOUT_MS) / 1000,
            (settings["sasl.login.read.timeout.ms"] or DEFAULT_TIMEOUT_MS) / 1000,
        )
        retry = RetryPolicy(
            settings.seconds("sasl.login.retry.backoff.ms"), settings.seconds("sasl.login.retry.backoff.max.ms")
        )
        return endpoint_fetch(endpoint, login, _in_thread, retry)
    if login.unsecured_claims is None:
        raise ConfigurationError(
            "sasl.jaas.config: has no source of tokens; set sasl.oauthbearer.token.endpoint.url or "
            "sasl.oauth.token.provider"
        )
    return unsecured_fetch(login, SystemClock())


def provided_token(provider: Callable[[], Any]) -> FetchToken:
    """Return the source of tokens that calls the application's function; in a thread if it is no coroutine function."""

    async def fetch() -> str:
        try:
            if inspect.iscoroutinefunction(provider):
                token = await provider()
            else:
                token = await asyncio.to_thread(provider)
                if inspect.isawaitable(token):
                    token = await token
        except Exception as error:
            raise TokenError(f"sasl.oauth.token.provider raised {type(error).__name__}") from error
        if not isinstance(token, str):
            raise TokenError(f"sasl.oauth.token.provider returned {type(token).__name__}; it must return a str")
        return token

    return fetch
