"""SASL configuration of a listener: mechanisms, users of PLAIN, and rules for tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.security.jaas import JaasError, LoginModule, parse_login_module
from moldau.security.sasl_server import PlainUsers
from moldau.security.token_validation import TokenRules
from moldau.settings.listener_overrides import PREFIX, ListenerSettings
from moldau.settings.sasl import SERVED_MECHANISMS
from moldau.settings.setting import SettingError


class JwksSource(NamedTuple):
    """Where keys of tokens are, and how often they are read."""

    url: str
    refresh_s: float
    retry_s: float
    max_retry_s: float


class SaslConfig(NamedTuple):
    """What a listener needs to log clients in."""

    mechanisms: tuple[str, ...]
    max_reauth_ms: Mapping[str, int]
    max_receive_bytes: int
    plain_users: PlainUsers | None
    token_rules: TokenRules | None
    jwks: JwksSource | None


def sasl_config(settings: ListenerSettings) -> SaslConfig:
    """The configuration of a SASL listener; SettingError if nobody could log in, or everybody."""
    given = [name.upper() for name in settings["sasl.enabled.mechanisms"]]
    mechanisms = tuple(name for name in given if name in SERVED_MECHANISMS)
    if not mechanisms:
        raise SettingError(
            f"{PREFIX}{settings.listener.lower()}.sasl.enabled.mechanisms",
            f"has {', '.join(given) or 'no mechanism'}; name at least one of {', '.join(SERVED_MECHANISMS)}",
        )
    plain = _plain_users(settings) if "PLAIN" in mechanisms else None
    rules = _token_rules(settings) if "OAUTHBEARER" in mechanisms else None
    return SaslConfig(
        mechanisms,
        {name: settings.of_mechanism(name, "connections.max.reauth.ms") for name in mechanisms},
        settings["sasl.server.max.receive.size"],
        plain,
        rules,
        _jwks(settings, rules) if rules is not None else None,
    )


def login_module(settings: ListenerSettings, mechanism: str) -> LoginModule | None:
    """The login module of a mechanism of a listener; None if there is none."""
    text = settings.of_mechanism(mechanism, "sasl.jaas.config")
    if not text:
        return None
    try:
        return parse_login_module(text)
    except JaasError as error:
        raise SettingError(_jaas_name(settings, mechanism), str(error)) from None


def jaas_error(texts: Mapping[str, str]) -> str | None:
    """The reason why one of these settings is a malformed JAAS configuration, or None. It has no part of the text."""
    for name, text in texts.items():
        if name.endswith("sasl.jaas.config") and text.strip():
            try:
                parse_login_module(text)
            except JaasError as error:
                return f"{name}: {error}"
    return None


def _plain_users(settings: ListenerSettings) -> PlainUsers:
    module = login_module(settings, "PLAIN")
    name = _jaas_name(settings, "PLAIN")
    if module is None or module.simple_name != "PlainLoginModule":
        raise SettingError(name, 'PLAIN needs PlainLoginModule with its users: user_NAME="PASSWORD"')
    return PlainUsers.from_login_module(module)


def _token_rules(settings: ListenerSettings) -> TokenRules:
    return TokenRules(
        settings["sasl.oauthbearer.expected.issuer"] or "",
        settings["sasl.oauthbearer.expected.audience"],
        settings["moldau.sasl.oauthbearer.required.scopes"],
        settings["sasl.oauthbearer.scope.claim.name"],
        settings["sasl.oauthbearer.sub.claim.name"],
        settings["sasl.oauthbearer.clock.skew.seconds"],
        settings["moldau.sasl.oauthbearer.allow.unsecured.tokens.which.anyone.can.forge"],
    )


def _jwks(settings: ListenerSettings, rules: TokenRules) -> JwksSource | None:
    url: str = settings["sasl.oauthbearer.jwks.endpoint.url"] or ""
    if not url and rules.allow_unsecured:
        return None
    if not url.startswith(("https://", "http://", "file:")):
        raise SettingError(
            "sasl.oauthbearer.jwks.endpoint.url",
            "OAUTHBEARER needs the keys that sign tokens, as https:, http: or file: address",
        )
    return JwksSource(
        url,
        settings["sasl.oauthbearer.jwks.endpoint.refresh.ms"] / 1000,
        settings["sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"] / 1000,
        settings["sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"] / 1000,
    )


def _jaas_name(settings: ListenerSettings, mechanism: str) -> str:
    return f"{PREFIX}{settings.listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
