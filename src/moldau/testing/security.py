"""Security for test brokers: users with passwords, access control rules, and the client settings of each user.

    security = Security(users={"alice": "a secret"}, rules=[allow("alice", "read", topic="orders")])
    with Broker(security=security) as broker:
        consumer = Consumer("orders", broker.client_settings("alice"), group_id="readers")

Users log in by SCRAM or PLAIN, over plain connections or (`tls=True`) over TLS. What no rule allows is denied. Super
users may do everything.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from moldau.cluster.scram_decisions import CredentialUpsertion, UserAlteration
from moldau.security.acls import WILDCARD, AclEntry, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.certificates import new_authority, new_certificate
from moldau.security.credentials import MIN_SCRAM_ITERATIONS, ScramMechanism
from moldau.security.resources import CLUSTER_NAME, Operation, ResourceType
from moldau.security.scram_keys import SALT_BYTES, salted_password

ADMIN: Final = "admin"
BROKER: Final = "moldau-test-broker"
"""The user as which the brokers of a test cluster connect to each other."""
HOSTS: Final = ("127.0.0.1", "localhost")


def allow(
    user: str,
    operation: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefixed: bool = False,
    host: str = WILDCARD,
) -> AclRule:
    """A rule that allows a user (`*`: everyone) an operation (`"read"`, `"write"`, `"all"` …) on one resource."""
    pattern = _pattern(topic, group, transactional_id, cluster, prefixed)
    return AclRule(pattern, AclEntry(f"User:{user}", host, _operation(operation), Permission.ALLOW))


def deny(
    user: str,
    operation: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    prefixed: bool = False,
    host: str = WILDCARD,
) -> AclRule:
    """A rule that denies; it is stronger than any rule that allows."""
    pattern = _pattern(topic, group, transactional_id, cluster, prefixed)
    return AclRule(pattern, AclEntry(f"User:{user}", host, _operation(operation), Permission.DENY))


def _operation(name: str) -> Operation:
    try:
        return Operation[name.upper()]
    except KeyError:
        known = ", ".join(operation.name.lower() for operation in Operation if operation > Operation.ANY)
        raise ValueError(f"operation {name!r} is not one of {known}") from None


def _pattern(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool, prefixed: bool
) -> ResourcePattern:
    named = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
        ResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
    }
    given = [(kind, name) for kind, name in named.items() if name is not None]
    if len(given) != 1:
        raise ValueError("a rule is about one resource: give topic, group, transactional_id or cluster=True")
    kind, name = given[0]
    return ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)


@dataclass(frozen=True)
class Security:
    """What a secured test broker starts with. A user `admin`, who may do everything, is added if it is not given."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by user name."""
    rules: Sequence[AclRule] = ()
    super_users: Sequence[str] = (ADMIN,)
    tls: bool = False

    def prepared(self, directory: Path) -> PreparedSecurity:
        """The same with all passwords, and with certificates in the directory if TLS is wanted."""
        users = {ADMIN: secrets.token_urlsafe(), **self.users}
        if self.tls:
            now = datetime.now(UTC)
            authority = new_authority("moldau.testing", now)
            (directory / "ca.pem").write_text(authority.certificate)
            server = directory / "server.pem"
            server.touch(mode=0o600)
            server.write_text(new_certificate(authority, "broker", now, hosts=HOSTS).pem)
        return PreparedSecurity(users, tuple(self.rules), tuple(self.super_users), directory if self.tls else None)


@dataclass(frozen=True)
class PreparedSecurity:
    """The security of one running broker, or of all brokers of a cluster."""

    users: Mapping[str, str] = field(repr=False)
    rules: Sequence[AclRule]
    super_users: Sequence[str]
    certificates: Path | None
    _broker_password: str = field(default_factory=secrets.token_urlsafe, repr=False)

    @property
    def protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.certificates is None else "SASL_SSL"

    def broker_settings(self) -> dict[str, str]:
        """The settings of a broker whose only listener has the name of the protocol."""
        everyone = {**self.users, BROKER: self._broker_password}
        login = f"username={_quoted(BROKER)} password={_quoted(self._broker_password)}"
        known = " ".join(f"user_{name}={_quoted(password)}" for name, password in everyone.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        settings = {
            "security.inter.broker.protocol": self.protocol,
            "sasl.enabled.mechanisms": ",".join(["PLAIN", *(mechanism.sasl_name for mechanism in ScramMechanism)]),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"listener.name.{self.protocol.lower()}.plain.sasl.jaas.config": f"{module} {login} {known};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{name}" for name in (*self.super_users, BROKER)),
        }
        if self.certificates is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.certificates / "server.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.certificates / "ca.pem"),
            }
        return settings

    def client_settings(self, user: str, mechanism: str) -> dict[str, str]:
        """How this user logs in, with Kafka's setting names. A user that is not known gets no settings."""
        if user not in self.users:
            raise ValueError(f"user {user!r} is not one of {', '.join(self.users)}")
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        login = f"username={_quoted(user)} password={_quoted(self.users[user])}"
        settings = {
            "security.protocol": self.protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{kind}LoginModule required {login};",
        }
        if self.certificates is not None:
            settings |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.certificates / "ca.pem"),
            }
        return settings

    def scram_users(self, mechanism: ScramMechanism) -> list[UserAlteration]:
        """The users as SCRAM credentials, to be stored in the metadata."""
        return [UserAlteration(user, (_credential(mechanism, password),)) for user, password in self.users.items()]


def _credential(mechanism: ScramMechanism, password: str) -> CredentialUpsertion:
    salt = secrets.token_bytes(SALT_BYTES)
    salted = salted_password(mechanism, password, salt, MIN_SCRAM_ITERATIONS)
    return CredentialUpsertion(mechanism.code, MIN_SCRAM_ITERATIONS, salt, salted)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
