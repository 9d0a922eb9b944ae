"""Security settings of all clients: TLS and SASL with the names of Kafka, and a few of librdkafka."""

from __future__ import annotations

from typing import Any

from moldau.client.client_errors import ConfigurationError
from moldau.host.event_log import event_logger
from moldau.net.tls_settings import PROTOCOLS
from moldau.settings.setting import Setting, SettingType, Value

log = event_logger(__name__)

STRING, PASSWORD, LIST, INT, LONG, DOUBLE, SHORT, CLASS = (
    SettingType.STRING,
    SettingType.PASSWORD,
    SettingType.LIST,
    SettingType.INT,
    SettingType.LONG,
    SettingType.DOUBLE,
    SettingType.SHORT,
    SettingType.CLASS,
)

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

JAVA_ONLY = "it configures Java; OpenSSL decides here"
NO_KERBEROS = "Kerberos (GSSAPI) is not supported"
BROKERS_CHECK = "brokers check tokens; a client only sends them"
NO_ASSERTIONS = "tokens are requested with client credentials, not with assertions"
NO_HANDLER = "it is a Java class; use sasl.oauth.token.provider for tokens"

PROTOCOL = Setting(
    "security.protocol",
    STRING,
    "PLAINTEXT",
    "Whether connections use TLS (SSL), a login (SASL), or both.",
    choices=SECURITY_PROTOCOLS,
)

TLS = (
    Setting(
        "ssl.truststore.location",
        STRING,
        "",
        "File with the certificates that the client trusts, in PEM or PKCS12; without it the authorities of the "
        "operating system count.",
    ),
    Setting("ssl.truststore.type", STRING, "JKS", "Accepted for Kafka; the content of the file decides."),
    Setting("ssl.truststore.password", PASSWORD, "", "Password of a PKCS12 trust store."),
    Setting("ssl.truststore.certificates", PASSWORD, "", "Trusted certificates in PEM, instead of a file."),
    Setting(
        "ssl.keystore.location",
        STRING,
        "",
        "File with the client's private key and its certificates, in PEM or PKCS12, for listeners that want one.",
    ),
    Setting("ssl.keystore.type", STRING, "JKS", "Accepted for Kafka; the content of the file decides."),
    Setting("ssl.keystore.password", PASSWORD, "", "Password of a PKCS12 key store."),
    Setting("ssl.key.password", PASSWORD, "", "Password of an encrypted private key in PEM."),
    Setting("ssl.keystore.key", PASSWORD, "", "The private key in PEM, instead of a file."),
    Setting("ssl.keystore.certificate.chain", PASSWORD, "", "The client's certificates in PEM, instead of a file."),
    Setting(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "Whether the host name of a broker must be in its certificate; an empty value switches the check off.",
    ),
    Setting("ssl.enabled.protocols", LIST, PROTOCOLS, "Versions of TLS.", choices=PROTOCOLS),
    Setting("ssl.cipher.suites", LIST, (), "Cipher suites, with Java's or OpenSSL's names; empty is OpenSSL's choice."),
    Setting("ssl.ca.location", STRING, "", "librdkafka's name of ssl.truststore.location."),
    Setting("ssl.certificate.location", STRING, "", "File with the client's certificates in PEM (librdkafka)."),
    Setting("ssl.key.location", STRING, "", "File with the client's private key in PEM (librdkafka)."),
)

SASL = (
    Setting("sasl.mechanism", STRING, "GSSAPI", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."),
    Setting("sasl.mechanisms", STRING, "", "librdkafka's name of sasl.mechanism."),
    Setting("sasl.jaas.config", PASSWORD, "", "Login module with its options, as for Kafka's Java clients."),
    Setting("sasl.username", STRING, "", "User name, instead of sasl.jaas.config (librdkafka)."),
    Setting("sasl.password", PASSWORD, "", "Password, instead of sasl.jaas.config (librdkafka)."),
    Setting(
        "sasl.oauth.token.provider",
        CLASS,
        None,
        "Function without arguments that returns a token for OAUTHBEARER, or a coroutine with one (only in Python).",
    ),
    Setting(
        "sasl.oauthbearer.token.endpoint.url",
        STRING,
        "",
        "Token endpoint for OAUTHBEARER with client credentials; a file URL names a file with a token.",
    ),
    Setting("sasl.oauthbearer.client.credentials.client.id", STRING, "", "Client id, instead of sasl.jaas.config."),
    Setting(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        "",
        "Client secret, instead of sasl.jaas.config.",
    ),
    Setting("sasl.oauthbearer.scope", STRING, "", "Scope of the requested tokens."),
    Setting("sasl.login.connect.timeout.ms", INT, None, "Timeout for a connection to the token endpoint (10 s)."),
    Setting("sasl.login.read.timeout.ms", INT, None, "Timeout for the answer of the token endpoint (10 s)."),
    Setting("sasl.login.retry.backoff.ms", LONG, 100, "First pause between two requests for a token."),
    Setting("sasl.login.retry.backoff.max.ms", LONG, 10_000, "Longest time of retries for one token."),
    Setting(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        "Part of a token's life after which it is replaced.",
        low=0.5,
        high=1.0,
    ),
    Setting("sasl.login.refresh.window.jitter", DOUBLE, 0.05, "Random addition to that part.", low=0.0, high=0.25),
    Setting(
        "sasl.login.refresh.min.period.seconds", SHORT, 60, "Minimum time before a token is replaced.", low=0, high=900
    ),
    Setting("sasl.login.refresh.buffer.seconds", SHORT, 300, "Minimum time before a token's end.", low=0, high=3600),
)

_NOT_HERE: tuple[tuple[str, SettingType, Value, str], ...] = (
    ("ssl.protocol", STRING, "TLSv1.3", JAVA_ONLY),
    ("ssl.provider", STRING, None, JAVA_ONLY),
    ("ssl.keymanager.algorithm", STRING, "SunX509", JAVA_ONLY),
    ("ssl.trustmanager.algorithm", STRING, "PKIX", JAVA_ONLY),
    ("ssl.secure.random.implementation", STRING, None, JAVA_ONLY),
    ("ssl.engine.factory.class", CLASS, None, JAVA_ONLY),
    ("security.providers", STRING, None, JAVA_ONLY),
    ("sasl.client.callback.handler.class", CLASS, None, NO_HANDLER),
    ("sasl.login.callback.handler.class", CLASS, None, NO_HANDLER),
    ("sasl.login.class", CLASS, None, NO_HANDLER),
    ("sasl.oauthbearer.jwt.retriever.class", CLASS, None, NO_HANDLER),
    ("sasl.oauthbearer.jwt.validator.class", CLASS, None, NO_HANDLER),
    ("sasl.kerberos.service.name", STRING, None, NO_KERBEROS),
    ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", NO_KERBEROS),
    ("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, NO_KERBEROS),
    ("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, NO_KERBEROS),
    ("sasl.kerberos.min.time.before.relogin", LONG, 60_000, NO_KERBEROS),
    ("sasl.oauthbearer.scope.claim.name", STRING, "scope", BROKERS_CHECK),
    ("sasl.oauthbearer.sub.claim.name", STRING, "sub", BROKERS_CHECK),
    ("sasl.oauthbearer.header.urlencode", SettingType.BOOLEAN, False, "credentials are sent as they are"),
    ("sasl.oauthbearer.jwks.endpoint.url", STRING, None, BROKERS_CHECK),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, BROKERS_CHECK),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, BROKERS_CHECK),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, BROKERS_CHECK),
    ("sasl.oauthbearer.clock.skew.seconds", INT, 30, BROKERS_CHECK),
    ("sasl.oauthbearer.expected.audience", LIST, (), BROKERS_CHECK),
    ("sasl.oauthbearer.expected.issuer", STRING, None, BROKERS_CHECK),
    ("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.claim.aud", STRING, None, NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.claim.iss", STRING, None, NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.claim.jti.include", SettingType.BOOLEAN, False, NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.claim.sub", STRING, None, NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.file", STRING, None, NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.private.key.file", STRING, None, NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, NO_ASSERTIONS),
    ("sasl.oauthbearer.assertion.template.file", STRING, None, NO_ASSERTIONS),
)

NOT_HERE = tuple(
    Setting(name, kind, default, "A security setting of Java's clients.", no_effect=reason)
    for name, kind, default, reason in _NOT_HERE
)

SECURITY_SETTINGS = (PROTOCOL, *TLS, *SASL, *NOT_HERE)
"""All settings that decide how a client connects and logs in."""

_SYNONYMS = {"sasl.mechanisms": "sasl.mechanism", "ssl.ca.location": "ssl.truststore.location"}


def security_rules(values: dict[str, Any], given: frozenset[str]) -> None:
    """Check combinations of security settings. Raises ConfigurationError."""
    for theirs, ours in _SYNONYMS.items():
        if theirs in given:
            if ours in given:
                raise ConfigurationError(f"{theirs}: is the same setting as {ours}; remove one of them")
            values[ours] = values[theirs]
    protocol: str = values["security.protocol"]
    if protocol.startswith("SASL"):
        _check_login(values, given)
    else:
        _warn_unused(given, "sasl.", protocol)
    if not protocol.endswith("SSL"):
        _warn_unused(given, "ssl.", protocol)


def _check_login(values: dict[str, Any], given: frozenset[str]) -> None:
    from moldau.security.client_login import LoginError, check_mechanism

    mechanism = values["sasl.mechanism"]
    if "sasl.mechanism" not in given and "sasl.mechanisms" not in given:
        raise ConfigurationError(
            f"sasl.mechanism: missing, but security.protocol={values['security.protocol']} needs a login; set it to "
            "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
        )
    try:
        check_mechanism(mechanism)
    except LoginError as error:
        raise ConfigurationError(f"sasl.mechanism: {error}") from None
    if mechanism == "OAUTHBEARER":
        sources = ("sasl.jaas.config", "sasl.oauth.token.provider", "sasl.oauthbearer.token.endpoint.url")
        if not any(values[name] for name in sources):
            raise ConfigurationError(
                f"sasl.mechanism: OAUTHBEARER needs a source of tokens: set {' or '.join(sources)}"
            )
    elif not values["sasl.jaas.config"] and not (values["sasl.username"] and values["sasl.password"]):
        raise ConfigurationError(
            f"sasl.jaas.config: missing, but {mechanism} needs a user name and a password; set it, or sasl.username "
            "and sasl.password"
        )


def _warn_unused(given: frozenset[str], prefix: str, protocol: str) -> None:
    unused = sorted(name for name in given if name.startswith(prefix))
    if unused:
        log.warning(
            "security settings have no effect",
            extra={"settings": ", ".join(unused), "reason": f"security.protocol is {protocol}"},
        )
