"""Broker settings for SASL: mechanisms, users of PLAIN, tokens of OAUTHBEARER, and how long a login lasts.

They are part of the table in `broker.py`. `listener_overrides.py` says which of them may be set for one listener, or
for one mechanism of a listener.
"""

from __future__ import annotations

from typing import Final

from moldau.settings.setting import INT_MAX, LONG_MAX, Scope, Setting, SettingType, Value

INT, LONG, LIST = SettingType.INT, SettingType.LONG, SettingType.LIST
STRING, PASSWORD, CLASS, BOOLEAN = SettingType.STRING, SettingType.PASSWORD, SettingType.CLASS, SettingType.BOOLEAN
DYNAMIC = Scope.BROKER_DYNAMIC

SERVED_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
UNSERVED_MECHANISMS: Final = ("GSSAPI",)
"""Kafka's other mechanisms: accepted in a list of mechanisms, so that files for Kafka work, and never offered."""

CALLBACK_HANDLERS: Final = (
    "PlainServerCallbackHandler",
    "ScramServerCallbackHandler",
    "OAuthBearerValidatorCallbackHandler",
)
"""Kafka's classes whose work Moldau does itself."""


def _mechanisms(value: Value) -> str | None:
    assert isinstance(value, tuple)
    for name in value:
        if name.upper() not in SERVED_MECHANISMS + UNSERVED_MECHANISMS:
            return f"{name!r} is not one of {', '.join(SERVED_MECHANISMS)}"
    return None


def _mechanism(value: Value) -> str | None:
    return _mechanisms((str(value),))


def _callback_handler(value: Value) -> str | None:
    """A handler that is not loaded would leave logins unchecked, or checked in another way than its author meant."""
    if value and str(value).rpartition(".")[2] not in CALLBACK_HANDLERS:
        return f"Moldau cannot load Java classes; only Kafka's own are known: {', '.join(CALLBACK_HANDLERS)}"
    return None


SASL: Final = (
    Setting(
        "sasl.enabled.mechanisms",
        LIST,
        ("GSSAPI",),
        "The mechanisms that clients may use: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. GSSAPI is accepted "
        "here, and not offered to clients.",
        scope=DYNAMIC,
        check=_mechanisms,
    ),
    Setting(
        "sasl.jaas.config",
        PASSWORD,
        None,
        'A JAAS login module. For PLAIN, `PlainLoginModule` with the users as options `user_NAME="PASSWORD"`. '
        "Normally set for one mechanism of one listener: `listener.name.NAME.plain.sasl.jaas.config`.",
        scope=DYNAMIC,
    ),
    Setting(
        "sasl.server.callback.handler.class",
        CLASS,
        None,
        "Accepted with the names of Kafka's own classes, whose work Moldau does itself.",
        check=_callback_handler,
    ),
    Setting(
        "sasl.server.max.receive.size",
        INT,
        524_288,
        "The largest request of a client that has not logged in yet.",
    ),
    Setting(
        "connections.max.reauth.ms",
        LONG,
        0,
        "How long a login lasts: the client must log in again before, or its connection is closed. 0: for ever, except "
        "with a token that ends.",
    ),
    Setting(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long the broker waits before it closes a connection whose login failed.",
        low=0,
    ),
    Setting(
        "moldau.authentication.timeout.ms",
        INT,
        15_000,
        "How long a new connection may take to log in, with the TLS handshake.",
        low=100,
        high=INT_MAX,
    ),
    Setting(
        "moldau.max.unauthenticated.connections",
        INT,
        2_000,
        "How many connections may be open that have not logged in yet. Further ones are closed at once.",
        low=1,
        high=INT_MAX,
    ),
    Setting(
        "moldau.unauthenticated.request.bytes",
        LONG,
        16 * 1024 * 1024,
        "The memory for requests of all clients that have not logged in yet.",
        low=64 * 1024,
        high=LONG_MAX,
    ),
    Setting(
        "moldau.security.refresh.interval.ms",
        INT,
        10_000,
        "How often the broker checks whether files with certificates have changed. New connections use the new ones.",
        low=10,
        high=INT_MAX,
    ),
    Setting(
        "moldau.initial.users.file",
        STRING,
        None,
        "A file with users for SCRAM, one per line: `NAME=SCRAM-SHA-512=[password=…]`, or with keys instead of the "
        "password. A broker stores them if the cluster has no users yet.",
    ),
    Setting(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        "The mechanism with which a broker logs in to another one.",
        scope=DYNAMIC,
        check=_mechanism,
    ),
)

OAUTHBEARER: Final = (
    Setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "Where the keys are that sign tokens (a JWKS document): `https:`, `http:` or `file:`.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3_600_000,
        "How long the keys are used before they are read again.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "The first pause before the keys are read again after a failure.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10_000,
        "The longest pause before the keys are read again after a failure.",
    ),
    Setting(
        "sasl.oauthbearer.token.endpoint.url",
        STRING,
        None,
        "Where a broker gets its own tokens for the other brokers: the token endpoint of an issuer, or a file: URL. "
        "Only with OAUTHBEARER as `sasl.mechanism.inter.broker.protocol`.",
    ),
    Setting(
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        "The issuer (`iss`) that tokens must have; not checked if empty.",
    ),
    Setting(
        "sasl.oauthbearer.expected.audience",
        LIST,
        (),
        "The audiences (`aud`) of which a token must have one; not checked if empty.",
    ),
    Setting("sasl.oauthbearer.scope.claim.name", STRING, "scope", "The claim with the scopes of a token."),
    Setting("sasl.oauthbearer.sub.claim.name", STRING, "sub", "The claim with the name of the principal."),
    Setting(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "How much the clocks of the broker and of the issuer of tokens may differ.",
    ),
    Setting(
        "moldau.sasl.oauthbearer.required.scopes",
        LIST,
        (),
        "The scopes that a token must have, all of them.",
    ),
    Setting(
        "moldau.sasl.oauthbearer.allow.unsecured.tokens.which.anyone.can.forge",
        BOOLEAN,
        False,
        "Accept tokens without signature (`alg` is `none`). Then everyone can pretend to be anyone: for tests only.",
    ),
)
