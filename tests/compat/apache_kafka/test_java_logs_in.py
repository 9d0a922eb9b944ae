"""Kafka's own Java client and tools against a secured Moldau: every mechanism, certificates, and re-authentication."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.wire.api import ApiKey
from tests.cli.real_tools import RealTools, Result
from tests.compat.apache_kafka.jars import KafkaJars
from tests.support.secured import ADMIN, ADMIN_PASSWORD, MECHANISMS, LogLines, SecuredBroker

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(240)]

SECURITY = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f"{SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{SECURITY}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule",
}
REAUTH_MS = 1500


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    settings = {"connections.max.reauth.ms": str(REAUTH_MS)}
    with SecuredBroker(tmp_path_factory.mktemp("for-java"), settings) as broker:
        (broker.folder / "token").write_text(broker.issuer.token(exp=4_000_000_000))
        yield broker


@pytest.fixture(scope="module")
def tools(jars: KafkaJars, secured: SecuredBroker) -> Iterator[RealTools]:
    url = f"file:{secured.folder / 'token'}"
    with pytest.MonkeyPatch.context() as patch:
        # Java's client reads tokens only from addresses that a system property allows.
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}")
        with RealTools(jars) as running:
            yield running


def client_file(secured: SecuredBroker, protocol: str, mechanism: str = "", password: str = ADMIN_PASSWORD) -> Path:
    lines = [f"security.protocol={protocol}", "default.api.timeout.ms=15000", "request.timeout.ms=10000"]
    if "SSL" in protocol:
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={secured.truststore}"]
    if mechanism:
        options = "" if mechanism == "OAUTHBEARER" else f' username="{ADMIN}" password="{password}"'
        lines += [f"sasl.mechanism={mechanism}", f"sasl.jaas.config={MODULES[mechanism]} required{options};"]
    if mechanism == "OAUTHBEARER":
        lines += [
            f"sasl.oauthbearer.token.endpoint.url=file:{secured.folder / 'token'}",
            f"sasl.login.callback.handler.class={SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
        ]
    path = secured.folder / f"{protocol}-{mechanism or 'none'}-{len(password)}.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


def create(tools: RealTools, secured: SecuredBroker, protocol: str, config: Path, topic: str) -> Result:
    address = secured.address(protocol)
    return tools.run(
        "kafka-topics", "--bootstrap-server", address, "--command-config", str(config), "--create", "--topic", topic
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_the_java_client_logs_in(tools: RealTools, secured: SecuredBroker, protocol: str, mechanism: str) -> None:
    topic = f"{protocol}-{mechanism}"
    created = create(tools, secured, protocol, client_file(secured, protocol, mechanism), topic)
    assert created.code == 0, created
    assert topic in secured.call(lambda: set(secured.broker.image.topics))


def test_the_java_client_shows_its_certificate(tools: RealTools, secured: SecuredBroker) -> None:
    keystore = secured.authority.issue("CN=java,O=Moldau").write_pem(secured.folder / "java.pem")
    config = client_file(secured, "SSL")
    config.write_text(config.read_text() + f"ssl.keystore.type=PEM\nssl.keystore.location={keystore}\n")
    assert create(tools, secured, "SSL", config, "certificate").code == 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_java_client_is_told_that_its_password_is_wrong(
    tools: RealTools, secured: SecuredBroker, mechanism: str
) -> None:
    refused = create(tools, secured, "SASL_SSL", client_file(secured, "SASL_SSL", mechanism, "wrong"), "wrong")
    assert refused.code != 0
    assert "SaslAuthenticationException" in refused.out + refused.err
    assert "wrong" not in secured.call(lambda: set(secured.broker.image.topics))


def test_the_java_client_without_tls_is_named_in_the_log(tools: RealTools, secured: SecuredBroker) -> None:
    config = client_file(secured, "SASL_PLAINTEXT", "PLAIN")
    config.write_text(config.read_text().replace("15000", "3000").replace("10000", "2000"))
    with LogLines() as lines:
        refused = tools.run(
            "kafka-topics", "--bootstrap-server", secured.address("SASL_SSL"), "--command-config", str(config), "--list"
        )
    assert refused.code != 0
    assert lines.about("does not speak TLS; check its security.protocol")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_the_java_client_logs_in_again_on_the_same_connection(
    tools: RealTools, secured: SecuredBroker, mechanism: str
) -> None:
    """A consumer outlives its first login (KIP-368), without a new connection and without an error."""

    def repeated() -> int:
        metrics = secured.broker.metrics
        return metrics.apis[ApiKey.SASL_HANDSHAKE].requests - metrics.connections_accepted

    config = client_file(secured, "SASL_SSL", mechanism)
    topic = f"again-{mechanism}"
    create(tools, secured, "SASL_SSL", config, topic)
    before, expired = secured.call(repeated), secured.call(lambda: secured.broker.metrics.sessions_expired)
    with LogLines() as lines:
        consumed = tools.run(
            "kafka-console-consumer",
            *("--bootstrap-server", secured.address("SASL_SSL"), "--consumer.config", str(config)),
            *("--topic", topic, "--timeout-ms", "5000"),
        )
    assert "Processed a total of 0 messages" in consumed.out + consumed.err
    assert not lines.about("authentication failed")
    assert secured.call(repeated) >= before + 2
    assert secured.call(lambda: secured.broker.metrics.sessions_expired) == expired
