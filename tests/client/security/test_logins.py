"""Our clients and our broker with TLS and logins: every mechanism, refusals, and sessions that are renewed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, Consumer, NewTopic, Producer, aio
from moldau.client.network import Network
from moldau.client.settings import ADMIN, ClientSettings
from moldau.errors import MoldauError, NotKafka, SaslAuthenticationError, TlsAuthenticationError
from tests.support.certificates import Authority
from tests.support.secured import ADMIN as ADMIN_USER
from tests.support.secured import ADMIN_PASSWORD, ALICE, ALICE_PASSWORD, AUDIENCE, SecuredBroker
from tests.support.waiting import wait_until

REAUTH_MS = 1_500
"""A broker refuses a new login within a second of the last one, as Kafka does."""
AT_ONCE_S = 5.0
"""Far below the time limit of a call (60 s)."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    settings = {"connections.max.reauth.ms": str(REAUTH_MS), "connection.failed.authentication.delay.ms": "0"}
    with SecuredBroker(tmp_path_factory.mktemp("secured"), settings) as running:
        yield running


def client(broker: SecuredBroker, protocol: str, mechanism: str = "", password: str = "") -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap.servers": broker.address(protocol), "security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings["ssl.truststore.location"] = str(broker.truststore)
    if mechanism == "OAUTHBEARER":
        settings |= {"sasl.mechanism": mechanism, "sasl.oauth.token.provider": broker.issuer.token}
    elif mechanism:
        settings |= {
            "sasl.mechanism": mechanism,
            "sasl.username": ADMIN_USER,
            "sasl.password": password or ADMIN_PASSWORD,
        }
    return settings


def round_trip(settings: dict[str, Any], topic: str) -> None:
    with Admin(settings) as admin:
        admin.create_topics(NewTopic(topic))
    with Producer(settings) as producer:
        producer.send(topic, b"value").result(30)
    with Consumer(topic, {**settings, "auto.offset.reset": "earliest"}) as consumer:
        assert [record.value for record in consumer.poll(30)] == [b"value"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_every_mechanism_works(broker: SecuredBroker, protocol: str, mechanism: str) -> None:
    round_trip(client(broker, protocol, mechanism), f"{protocol}-{mechanism}")


def test_tls_works_with_and_without_a_client_certificate(broker: SecuredBroker, tmp_path: Path) -> None:
    round_trip(client(broker, "SSL"), "tls")
    key = broker.authority.issue("CN=alice").write_pem(tmp_path / "alice.pem", "key-secret")
    with_key = {"ssl.keystore.location": str(key), "ssl.key.password": "key-secret"}
    round_trip({**client(broker, "SSL"), **with_key}, "certificate")


def test_large_batches_pass_through_tls(broker: SecuredBroker) -> None:
    settings = client(broker, "SSL")
    with Admin(settings) as admin:
        admin.create_topics(NewTopic("large", configs={"max.message.bytes": "4000000"}))
    value = bytes(range(256)) * 12_000
    with Producer({**settings, "max.request.size": 4_000_000}) as producer:
        for future in [producer.send("large", value) for _ in range(5)]:
            future.result(30)
    received = 0
    with Consumer("large", {**settings, "auto.offset.reset": "earliest"}) as consumer:
        while received < 5:
            for record in consumer.poll(30):
                assert record.value == value
                received += 1


def test_asyncio_clients_log_in_too(broker: SecuredBroker) -> None:
    async def token() -> str:
        return broker.issuer.token()

    settings = {**client(broker, "SASL_SSL", "OAUTHBEARER"), "sasl.oauth.token.provider": token}

    async def run() -> None:
        async with aio.Admin(settings) as admin:
            await admin.create_topics(NewTopic("asyncio"))
        async with aio.Producer(settings) as producer:
            await (await producer.send("asyncio", b"value"))

    asyncio.run(run())


# -- refusals --------------------------------------------------------------------------------------------------------


def refused(settings: dict[str, Any], kind: type[MoldauError] = SaslAuthenticationError) -> str:
    """The message of a client that is refused at once."""
    began = time.monotonic()
    with Admin(settings) as admin, pytest.raises(kind) as error:
        admin.list_topics()
    assert time.monotonic() - began < AT_ONCE_S
    assert ADMIN_PASSWORD not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_at_once(broker: SecuredBroker, mechanism: str) -> None:
    told = refused(client(broker, "SASL_SSL", mechanism, "wrong-password"))
    assert f"refused the login with {mechanism}" in told and "wrong-password" not in told


def test_an_unknown_user_is_told_the_same(broker: SecuredBroker) -> None:
    wrong = client(broker, "SASL_SSL", "SCRAM-SHA-256", "wrong-password")
    unknown = {**wrong, "sasl.username": "nobody"}
    assert refused(unknown) == refused(wrong)


@pytest.mark.parametrize("claims", [{"exp": 1}, {"aud": "others"}, {"iss": "https://others"}])
def test_a_token_that_the_broker_refuses_is_told(broker: SecuredBroker, claims: dict[str, Any]) -> None:
    settings = client(broker, "SASL_SSL", "OAUTHBEARER")
    settings["sasl.oauth.token.provider"] = lambda: broker.issuer.token(**claims)
    assert "OAUTHBEARER" in refused(settings)


def test_a_provider_that_fails_is_told(broker: SecuredBroker) -> None:
    def fail() -> str:
        raise OSError("TOKEN-IN-MESSAGE")

    settings = {**client(broker, "SASL_SSL", "OAUTHBEARER"), "sasl.oauth.token.provider": fail}
    told = refused(settings)
    assert "sasl.oauth.token.provider raised OSError" in told and "TOKEN-IN-MESSAGE" not in told
    settings["sasl.oauth.token.provider"] = lambda: 7
    assert "returned int; it must return a str" in refused(settings)


def test_a_client_without_a_login_is_told_the_mechanisms(broker: SecuredBroker) -> None:
    told = refused({"bootstrap.servers": broker.address("SASL_PLAINTEXT")})
    assert "set security.protocol=SASL_PLAINTEXT" in told and "SCRAM-SHA-512" in told


def test_a_login_at_a_listener_without_sasl_is_told(broker: SecuredBroker) -> None:
    settings = {**client(broker, "SASL_PLAINTEXT", "PLAIN"), "bootstrap.servers": broker.address("PLAINTEXT")}
    assert "its listener has no SASL" in refused(settings)


def test_tls_and_plain_text_that_meet_are_told(broker: SecuredBroker) -> None:
    assert "set security.protocol to SSL" in refused({"bootstrap.servers": broker.address("SSL")}, NotKafka)
    settings = {**client(broker, "SSL"), "bootstrap.servers": broker.address("PLAINTEXT")}
    assert "does not speak TLS" in refused(settings, NotKafka)


def test_wrong_certificates_are_told(broker: SecuredBroker, tmp_path: Path) -> None:
    stranger = Authority("stranger")
    trust = {"ssl.truststore.location": str(stranger.write_pem(tmp_path / "ca.pem"))}
    assert "does not trust" in refused({**client(broker, "SSL"), **trust}, TlsAuthenticationError)


# -- sessions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_sessions_are_renewed_while_records_flow(broker: SecuredBroker, mechanism: str) -> None:
    """No record is sent twice or fails, although nothing is retried."""
    settings = client(broker, "SASL_SSL", mechanism)
    topic = f"renewed-{mechanism}"
    with Admin(settings) as admin:
        admin.create_topics(NewTopic(topic))
    sent = []
    ends = time.monotonic() + 2.5 * REAUTH_MS / 1000
    with Producer({**settings, "retries": 0, "enable.idempotence": False, "linger.ms": 1}) as producer:
        while time.monotonic() < ends:
            sent.append(producer.send(topic, b"value"))
            time.sleep(0.002)
        offsets = [future.result(30).offset for future in sent]
    assert offsets == list(range(len(sent)))


def old_token(broker: SecuredBroker) -> str:
    """A valid token near its end, so that each login needs another one."""
    return broker.issuer.token(iat=int(time.time()) - 3600)


def test_a_session_is_renewed_on_the_same_connection(broker: SecuredBroker) -> None:
    tokens = []

    def token() -> str:
        tokens.append(old_token(broker))
        return tokens[-1]

    async def run() -> None:
        settings = {**client(broker, "SASL_SSL", "OAUTHBEARER"), "sasl.oauth.token.provider": token}
        network = Network(ClientSettings.of(ADMIN, settings))
        await network.start()
        try:
            loop = asyncio.get_running_loop()
            image = await network.refreshed(loop.time() + 30)
            node = next(iter(image.nodes))
            connection = await network.connection(node, loop.time() + 30)
            while len(tokens) < 3:
                await network.refreshed(loop.time() + 30)
                await asyncio.sleep(0.02)
            assert await network.connection(node, loop.time() + 30) is connection
            assert not connection.closed
        finally:
            await network.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_login_that_is_no_longer_accepted_ends_the_connection(broker: SecuredBroker) -> None:
    valid = [True]
    settings = client(broker, "SASL_SSL", "OAUTHBEARER")
    settings["sasl.oauth.token.provider"] = lambda: broker.issuer.token(
        iat=int(time.time()) - 3600, aud=AUDIENCE if valid[0] else "others"
    )
    with Admin(settings) as admin:
        admin.list_topics()
        valid[0] = False

        def ended() -> bool:
            try:
                admin.list_topics()
            except SaslAuthenticationError:
                return True
            return False

        wait_until(ended, "the client is refused", 30)


def test_plain_users_log_in_with_a_jaas_string(broker: SecuredBroker) -> None:
    settings = client(broker, "SASL_SSL")
    settings["sasl.mechanism"] = "PLAIN"
    settings["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{ALICE}" password="{ALICE_PASSWORD}";'
    )
    with Admin(settings) as admin:
        admin.list_topics()
