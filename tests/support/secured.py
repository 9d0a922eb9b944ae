"""Broker with a listener of each security protocol, in the test's process, with its users and certificates.

Clients are real and connect over TCP. `broker` is the Broker itself, for its metrics and settings.
"""

from __future__ import annotations

import json
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from moldau.broker.assembly import assemble
from moldau.broker.broker import Broker
from moldau.testing.broker_thread import ANSWER_TIMEOUT_S, BrokerThread
from moldau.testing.clock import MovableClock
from tests.support.certificates import Authority

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ADMIN, ADMIN_PASSWORD = "admin", "admin-s3cret"
ALICE, ALICE_PASSWORD = "alice", "alice,=s3cret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ISSUER, AUDIENCE = "https://issuer.test", "moldau"


class TokenIssuer:
    """An issuer of bearer tokens with one RSA key, and the JWKS document that names it."""

    def __init__(self, key_id: str = "key-1") -> None:
        self.key_id = key_id
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwks(self) -> str:
        entry = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return json.dumps({"keys": [{**entry, "kid": self.key_id, "use": "sig", "alg": "RS256"}]})

    def token(self, name: str = ALICE, *, algorithm: str = "RS256", key: Any = None, **changes: Any) -> str:
        """A valid token, except for the claims in `changes`; a claim that is None is left out."""
        now = int(time.time())
        claims = {
            "sub": name,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + 600,
            "scope": "kafka",
            **changes,
        }
        claims = {claim: value for claim, value in claims.items() if value is not None}
        return jwt.encode(claims, key or self.key, algorithm=algorithm, headers={"kid": self.key_id})


def unsigned_token(**claims: Any) -> str:
    """A token with `alg` none."""
    now = int(time.time())
    whole = {"sub": ALICE, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600, **claims}
    parts = (json.dumps(part).encode() for part in ({"alg": "none", "typ": "JWT"}, whole))
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


class SecuredBroker:
    """From `with` to its end. `address(protocol)` is the bootstrap address of a listener."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.authority = Authority()
        self.issuer = TokenIssuer()
        folder.mkdir(parents=True, exist_ok=True)
        self.keystore = self.authority.issue().write_pem(folder / "server.pem")
        self.truststore = self.authority.write_pem(folder / "ca.pem")
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(self.issuer.jwks())
        users = folder / "users.properties"
        users.write_text(
            f"{ADMIN}=SCRAM-SHA-256=[password={ADMIN_PASSWORD}],SCRAM-SHA-512=[password={ADMIN_PASSWORD}]\n"
        )
        users.chmod(0o600)
        jaas = f'x.PlainLoginModule required user_{ADMIN}="{ADMIN_PASSWORD}" user_{ALICE}="{ALICE_PASSWORD}";'
        self.settings = {
            "log.dirs": str(folder / "data"),
            "listeners": ",".join(f"{protocol}://127.0.0.1:0" for protocol in PROTOCOLS),
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.location": str(self.truststore),
            "ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.jaas.config": jaas,
            "sasl.oauthbearer.jwks.endpoint.url": f"file:{self.jwks}",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "moldau.initial.users.file": str(users),
            "moldau.security.refresh.interval.ms": "50",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }
        self.clock = MovableClock()
        self._life = BrokerThread(lambda: assemble(self.settings), self.clock)
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._life.begin().result(ANSWER_TIMEOUT_S)
        self.ports = self._life.call(lambda: {one.name: one.port for one in self.broker.listeners})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = self._life.stop()
        self._life.gone()
        if error is None:
            ended.result(0)

    @property
    def broker(self) -> Broker:
        broker = self._life.broker
        assert broker is not None
        return broker

    def call(self, function: Any) -> Any:
        """The result of a function that runs in the broker's loop."""
        return self._life.call(function)

    def advance(self, seconds: float) -> None:
        """Move the broker's time."""
        self._life.advance(seconds)

    def address(self, protocol: str) -> str:
        return f"127.0.0.1:{self.ports[protocol]}"


class LogLines(logging.Handler):
    """The log lines of brokers in this process, as text."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if record.levelno >= logging.WARNING:
            self.warnings.append(record.getMessage())

    def about(self, words: str) -> list[str]:
        return [line for line in self.lines if words in line]

    def __enter__(self) -> Self:
        logger = logging.getLogger("moldau")
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("moldau").removeHandler(self)
