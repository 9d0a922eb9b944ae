"""Brokers of a cluster that speak TLS with each other and log in by SCRAM; clients use a plain listener beside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.support.certificates import Authority

LISTENER = "INTERNAL"
USER, MECHANISM = "brokers", "SCRAM-SHA-256"


def between_brokers(directory: Path, hosts: Iterable[str]) -> dict[str, str]:
    """Broker settings for a second listener, and the files that they name."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = Authority()
    trust = authority.write_pem(directory / "ca.pem")
    key = authority.issue("CN=broker", hosts=tuple({"127.0.0.1", *hosts})).write_pem(directory / "broker.pem")
    password = directory / "password"
    users = directory / "users.properties"
    for file, text in ((password, "broker-secret"), (users, f"{USER}={MECHANISM}=[password=broker-secret]\n")):
        file.touch(0o600)
        file.write_text(text)
    prefix = f"listener.name.{LISTENER.lower()}"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_SSL",
        "inter.broker.listener.name": LISTENER,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"{prefix}.sasl.enabled.mechanisms": MECHANISM,
        f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": (
            f'{module} required username="{USER}" password="${{file:{password}}}";'
        ),
        f"{prefix}.ssl.keystore.location": str(key),
        f"{prefix}.ssl.truststore.location": str(trust),
        f"{prefix}.ssl.client.auth": "required",
        "connections.max.reauth.ms": "5000",
        "moldau.initial.users.file": str(users),
    }
