"""An Apache Kafka with TLS and SASL listeners, and the settings with which our clients reach each of them."""

from __future__ import annotations

from pathlib import Path

from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.processes import ApacheKafka, free_port
from tests.support.certificates import Authority

USER, PASSWORD = "alice", "alice-secret"
BROKER, BROKER_PASSWORD = "broker", "broker-secret"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")

MODULE = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{MODULE}.plain.PlainLoginModule"
SCRAM_MODULE = f"{MODULE}.scram.ScramLoginModule"
OAUTH_MODULE = f"{MODULE}.oauthbearer.OAuthBearerLoginModule"


class KafkaWithLogins(ApacheKafka):
    """One Kafka with three listeners for clients: SASL_SSL, SSL with client certificates, SASL_PLAINTEXT.

    Each SASL listener has PLAIN, both SCRAMs and OAUTHBEARER with unsecured tokens.
    """

    def __init__(self, jars: KafkaJars, directory: Path, reauth_ms: int = 0) -> None:
        authority = Authority()
        self.trust = authority.write_pem(directory / "ca.pem")
        self.key = authority.issue("CN=alice").write_pem(directory / "alice.pem")
        store = authority.issue("broker").write_pem(directory / "broker.pem")
        self.ssl_port, self.plain_port = free_port(), free_port()
        super().__init__(jars, directory)
        self._add(self._security(store, reauth_ms))
        self.client_settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": BROKER,
            "sasl.password": BROKER_PASSWORD,
            "ssl.ca.location": str(self.trust),
        }

    def _add(self, settings: dict[str, str]) -> None:
        text = self._properties.read_text()
        controller = next(line for line in text.splitlines() if line.startswith("listeners=")).rpartition(",")[2]
        listeners = ",".join(
            f"{name}://127.0.0.1:{port}"
            for name, port in (("SASL_SSL", self.port), ("SSL", self.ssl_port), ("SASL_PLAINTEXT", self.plain_port))
        )
        settings["listeners"] = f"{listeners},{controller}"
        settings["advertised.listeners"] = listeners
        self._properties.write_text(text + "".join(f"{name}={value}\n" for name, value in settings.items()))

    def _security(self, store: Path, reauth_ms: int) -> dict[str, str]:
        settings = {
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER")),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
            "listener.name.ssl.ssl.client.auth": "required",
            "connections.max.reauth.ms": str(reauth_ms),
        }
        for listener in ("sasl_ssl", "sasl_plaintext"):
            prefix = f"listener.name.{listener}"
            settings[f"{prefix}.plain.sasl.jaas.config"] = (
                f'{PLAIN_MODULE} required username="{BROKER}" password="{BROKER_PASSWORD}" '
                f'user_{BROKER}="{BROKER_PASSWORD}" user_{USER}="{PASSWORD}";'
            )
            for mechanism in SCRAM_MECHANISMS:
                settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
            settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = (
                f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="{BROKER}";'
            )
        return settings

    def start(self) -> None:
        if not self.data.exists():
            users = [
                word
                for mechanism in SCRAM_MECHANISMS
                for word in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
            ]
            self._format(*users)
        super().start()

    def client(self, protocol: str, mechanism: str = "", password: str = PASSWORD) -> dict[str, str]:
        """The settings of our client for one listener."""
        port = {"SASL_SSL": self.port, "SSL": self.ssl_port, "SASL_PLAINTEXT": self.plain_port}[protocol]
        settings = {"bootstrap.servers": f"localhost:{port}", "security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl.truststore.location"] = str(self.trust)
            settings["ssl.truststore.type"] = "PEM"
        if protocol == "SSL":
            settings["ssl.keystore.location"] = str(self.key)
            settings["ssl.keystore.type"] = "PEM"
        if mechanism:
            settings["sasl.mechanism"] = mechanism
            settings["sasl.jaas.config"] = jaas(mechanism, password)
        return settings


def jaas(mechanism: str, password: str) -> str:
    if mechanism == "OAUTHBEARER":
        return f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="{USER}";'
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return f'{module} required username="{USER}" password="{password}";'
