"""Our clients and a secured Apache Kafka: every protocol and mechanism, wrong logins, and sessions that end."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from moldau import Admin, Consumer, NewTopic, Producer
from moldau.client.client_errors import (
    MoldauError,
    NotKafka,
    SaslAuthenticationError,
    TlsAuthenticationError,
)
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.apache_kafka.secured import PASSWORD, SCRAM_MECHANISMS, KafkaWithLogins
from tests.support.certificates import Authority

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(240)]

REAUTH_MS = 1500
AT_ONCE_S = 5
"""Far below the time limit of a call (60 s), far above what a refusal takes on a busy machine."""

MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER")


@pytest.fixture(scope="module")
def kafka(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaWithLogins]:
    with KafkaWithLogins(jars, tmp_path_factory.mktemp("secured-kafka"), REAUTH_MS) as running:
        yield running


def round_trip(settings: dict[str, str], topic: str) -> None:
    with Admin(settings) as admin:
        admin.create_topics(NewTopic(topic, partitions=1, replication_factor=1))
    with Producer(settings) as producer:
        producer.send(topic, b"value").result(30)
    with Consumer(topic, {**settings, "auto.offset.reset": "earliest"}) as consumer:
        records = consumer.poll(30)
    assert [record.value for record in records] == [b"value"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_every_mechanism_works(kafka: KafkaWithLogins, protocol: str, mechanism: str) -> None:
    round_trip(kafka.client(protocol, mechanism), f"{protocol}-{mechanism}")


def test_a_client_certificate_works(kafka: KafkaWithLogins) -> None:
    round_trip(kafka.client("SSL"), "certificate")


def refused(settings: dict[str, str], kind: type[MoldauError]) -> str:
    """The error of a client that is refused, which comes at once: nobody waits a minute for a wrong password."""
    began = time.monotonic()
    with Admin(settings) as admin, pytest.raises(kind) as error:
        admin.list_topics()
    assert time.monotonic() - began < AT_ONCE_S
    assert PASSWORD not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM_MECHANISMS])
def test_a_wrong_password_is_told_at_once(kafka: KafkaWithLogins, mechanism: str) -> None:
    told = refused(kafka.client("SASL_SSL", mechanism, "wrong-password"), SaslAuthenticationError)
    assert f"refused the login with {mechanism}" in told and "wrong-password" not in told


def test_a_producer_and_a_consumer_tell_it_too(kafka: KafkaWithLogins) -> None:
    settings = kafka.client("SASL_SSL", "SCRAM-SHA-256", "wrong-password")
    with Producer(settings) as producer, pytest.raises(SaslAuthenticationError):
        producer.send("topic", b"value").result(AT_ONCE_S)
    with Consumer("topic", settings) as consumer, pytest.raises(SaslAuthenticationError):
        consumer.poll(AT_ONCE_S)


def test_a_client_without_a_login_is_told_what_is_missing(kafka: KafkaWithLogins) -> None:
    settings = {"bootstrap.servers": f"localhost:{kafka.plain_port}"}
    told = refused(settings, SaslAuthenticationError)
    assert "security.protocol=SASL_PLAINTEXT" in told and "SCRAM-SHA-512" in told
    told = refused({**kafka.client("SASL_SSL", "PLAIN"), "security.protocol": "SSL"}, SaslAuthenticationError)
    assert "security.protocol=SASL_SSL" in told


def test_a_login_at_a_listener_without_sasl_is_told(kafka: KafkaWithLogins) -> None:
    settings = {**kafka.client("SSL"), **kafka.client("SASL_SSL", "PLAIN")}
    settings["bootstrap.servers"] = f"localhost:{kafka.ssl_port}"
    assert "its listener has no SASL" in refused(settings, SaslAuthenticationError)


def test_plain_text_and_tls_that_meet_are_told(kafka: KafkaWithLogins) -> None:
    told = refused({"bootstrap.servers": f"localhost:{kafka.port}"}, NotKafka)
    assert "set security.protocol to SSL or SASL_SSL" in told
    settings = {**kafka.client("SASL_SSL", "PLAIN"), "bootstrap.servers": f"localhost:{kafka.plain_port}"}
    assert "does not speak TLS" in refused(settings, NotKafka)


def test_wrong_certificates_are_told(kafka: KafkaWithLogins, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("strangers")
    stranger = Authority("stranger")
    trust = {**kafka.client("SASL_SSL", "PLAIN"), "ssl.truststore.location": str(stranger.write_pem(directory / "ca"))}
    assert "does not trust" in refused(trust, TlsAuthenticationError)
    nobody = {name: value for name, value in kafka.client("SSL").items() if "keystore" not in name}
    assert "ssl.keystore.location" in refused(nobody, TlsAuthenticationError)
    key = stranger.issue("CN=alice").write_pem(directory / "key")
    assert "certificate" in refused({**kafka.client("SSL"), "ssl.keystore.location": str(key)}, TlsAuthenticationError)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
def test_sessions_are_renewed_while_records_flow(kafka: KafkaWithLogins, mechanism: str) -> None:
    """Kafka closes a connection that is used after the end of its session: no record may notice that."""
    settings = {**kafka.client("SASL_SSL", mechanism), "retries": "0"}
    topic = f"renewed-{mechanism}"
    with Admin({**settings, "retries": "100"}) as admin:
        admin.create_topics(NewTopic(topic, partitions=1, replication_factor=1))
    ends = time.monotonic() + 3 * REAUTH_MS / 1000
    sent = []
    with Producer({**settings, "enable.idempotence": "false", "linger.ms": "1"}) as producer:
        while time.monotonic() < ends:
            sent.append(producer.send(topic, b"value"))
            time.sleep(0.002)
        for one in sent:
            one.result(30)
    assert len({one.result().offset for one in sent}) == len(sent)
