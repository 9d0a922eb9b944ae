"""Real clients with every mechanism, with and without TLS: they write, read, and are told when they may not."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.errors import KafkaError as AioError
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.compat import wire
from tests.compat.kafka_python import AbstractTokenProvider, KafkaConsumer, KafkaProducer, NetworkSelector
from tests.compat.kafka_python import errors as python_errors
from tests.support.certificates import Certificate
from tests.support.raw import RawConnection
from tests.support.secured import ADMIN, ADMIN_PASSWORD, MECHANISMS, SecuredBroker

# Clients of Python that fail to start leave sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

VALUES = [b"value %d" % number for number in range(20)]
TIMEOUT_S = 20

LOGINS = [(protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS]


class Login:
    """How a client connects."""

    def __init__(
        self, secured: SecuredBroker, protocol: str, mechanism: str = "", *, password: str = ADMIN_PASSWORD
    ) -> None:
        self.secured = secured
        self.protocol = protocol
        self.mechanism = mechanism
        self.password = password
        self.certificate: Certificate | None = None
        self.patience_ms = 10_000 if password == ADMIN_PASSWORD else 2000

    @property
    def bootstrap(self) -> str:
        return self.secured.address(self.protocol)

    def token(self) -> str:
        return self.secured.issuer.token() if self.password == ADMIN_PASSWORD else "eyJhbGciOiJub25lIn0.e30."

    def keystore(self) -> str | None:
        if self.certificate is None:
            return None
        return str(self.certificate.write_pem(self.secured.folder / "client.pem"))

    def librdkafka(self) -> dict[str, Any]:
        """Settings of librdkafka, without the callback for tokens."""
        config: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if "SSL" in self.protocol:
            config["ssl.ca.location"] = str(self.secured.truststore)
        if (keystore := self.keystore()) is not None:
            config |= {"ssl.certificate.location": keystore, "ssl.key.location": keystore}
        if self.mechanism:
            config["sasl.mechanism"] = self.mechanism
            if self.mechanism != "OAUTHBEARER":
                config |= {"sasl.username": ADMIN, "sasl.password": self.password}
        return config


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect what a client left, while its warnings are ignored: not in the middle of another test.

    A kafka-python client whose constructor fails does not close its selector, and may keep it for longer than the test.
    """
    yield
    for left in [one for one in gc.get_objects() if type(one) is NetworkSelector]:
        left.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def topic(secured: SecuredBroker) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with RawConnection(secured.address("PLAINTEXT")) as raw:
        wire.create_topic(raw, name, 1, {})
    return name


# -- the clients ---------------------------------------------------------------------------------------------------


def confluent(login: Login, topic: str) -> list[bytes | None]:
    config = login.librdkafka()
    if login.mechanism == "OAUTHBEARER":
        config["oauth_cb"] = lambda _: (login.token(), time.time() + 300)
    errors: list[KafkaError] = []
    producer = Producer({**config, "error_cb": errors.append, "message.timeout.ms": login.patience_ms})
    for value in VALUES:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error) if error else None)
    producer.flush(TIMEOUT_S)
    if errors:
        raise KafkaException(errors[0])
    consumer = Consumer({**config, "group.id": f"confluent-{topic}", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found: list[bytes | None] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < len(VALUES) and time.monotonic() < deadline:
            found += [message.value() for message in consumer.consume(100, 0.2)]
        return found
    finally:
        consumer.close()


def kcat(login: Login, topic: str) -> list[bytes | None]:
    settings = [f"-X{name}={value}" for name, value in login.librdkafka().items() if name != "bootstrap.servers"]
    command = ["kcat", "-b", login.bootstrap, *settings, "-t", topic, "-p", "0"]
    lines = b"".join(value + b"\n" for value in VALUES)
    subprocess.run(
        [*command, "-P", f"-Xmessage.timeout.ms={login.patience_ms}"],
        input=lines,
        check=True,
        timeout=TIMEOUT_S,
        capture_output=True,
    )
    read = subprocess.run([*command, "-C", "-e", "-o", "beginning"], check=True, timeout=TIMEOUT_S, capture_output=True)
    return list(read.stdout.splitlines())


class PythonTokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, login: Login) -> None:
        super().__init__()
        self._login = login

    def token(self) -> str:
        return self._login.token()


def kafka_python(login: Login, topic: str) -> list[bytes | None]:
    config: dict[str, Any] = {"bootstrap_servers": login.bootstrap, "security_protocol": login.protocol}
    if "SSL" in login.protocol:
        config["ssl_cafile"] = str(login.secured.truststore)
    if (keystore := login.keystore()) is not None:
        config |= {"ssl_certfile": keystore, "ssl_keyfile": keystore}
    if login.mechanism:
        config["sasl_mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = PythonTokens(login)
        else:
            config |= {"sasl_plain_username": ADMIN, "sasl_plain_password": login.password}
    producer = KafkaProducer(**config, max_block_ms=login.patience_ms, bootstrap_timeout_ms=login.patience_ms)
    try:
        for sent in [producer.send(topic, value) for value in VALUES]:
            sent.get(TIMEOUT_S)
    finally:
        producer.close()
    consumer = KafkaConsumer(
        topic, **config, group_id=f"python-{topic}", auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1000
    )
    try:
        found = []
        for record in consumer:
            found.append(record.value)
            if len(found) == len(VALUES):
                break
        return found
    finally:
        consumer.close()


class AioTokens(AioTokenProvider):  # type: ignore[misc]
    def __init__(self, login: Login) -> None:
        self._login = login

    async def token(self) -> str:
        return self._login.token()


def aiokafka(login: Login, topic: str) -> list[bytes | None]:
    config: dict[str, Any] = {"bootstrap_servers": login.bootstrap, "security_protocol": login.protocol}
    if "SSL" in login.protocol:
        keystore = login.keystore()
        config["ssl_context"] = create_ssl_context(
            cafile=str(login.secured.truststore), certfile=keystore, keyfile=keystore
        )
    if login.mechanism:
        config["sasl_mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = AioTokens(login)
        else:
            config |= {"sasl_plain_username": ADMIN, "sasl_plain_password": login.password}

    async def run() -> list[bytes | None]:
        producer = AIOKafkaProducer(**config)
        try:
            await producer.start()
            for value in VALUES:
                await producer.send(topic, value)
            await producer.flush()
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, **config, auto_offset_reset="earliest")
        try:
            await consumer.start()
            return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


CLIENTS: dict[str, Callable[[Login, str], list[bytes | None]]] = {
    "confluent-kafka": confluent,
    "kcat": kcat,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}
every_client = pytest.mark.parametrize(
    "client", [pytest.param(name, marks=[pytest.mark.needs_kcat] if name == "kcat" else []) for name in CLIENTS]
)


@pytest.mark.parametrize(
    ("client", "protocol", "mechanism"),
    [
        pytest.param(client, protocol, mechanism, marks=[pytest.mark.needs_kcat] if client == "kcat" else [])
        for client in CLIENTS
        for protocol, mechanism in LOGINS
        # kcat has no way to be given a token. Without an identity provider it makes unsecured ones, which are refused.
        if not (client == "kcat" and mechanism == "OAUTHBEARER")
    ],
)
def test_a_client_that_logs_in_writes_and_reads(
    secured: SecuredBroker, topic: str, client: str, protocol: str, mechanism: str
) -> None:
    assert CLIENTS[client](Login(secured, protocol, mechanism), topic) == VALUES


@every_client
@pytest.mark.parametrize("with_certificate", [False, True])
def test_a_client_with_tls_alone_writes_and_reads(
    secured: SecuredBroker, topic: str, client: str, with_certificate: bool
) -> None:
    login = Login(secured, "SSL")
    if with_certificate:
        login.certificate = secured.authority.issue("CN=robot")
    assert CLIENTS[client](login, topic) == VALUES


ERRORS = (
    KafkaException,
    python_errors.KafkaError,
    AioError,
    subprocess.CalledProcessError,
    TimeoutError,
    subprocess.TimeoutExpired,
)


@every_client
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_with_a_wrong_password_is_told(
    secured: SecuredBroker, topic: str, client: str, mechanism: str
) -> None:
    login = Login(secured, "SASL_SSL", mechanism, password="wrong")
    with pytest.raises(ERRORS):
        CLIENTS[client](login, topic)
    with RawConnection(secured.address("PLAINTEXT")) as raw:
        assert wire.stored_values(raw, topic) == []


def test_librdkafka_names_the_reason_of_a_failed_login(secured: SecuredBroker) -> None:
    errors: list[KafkaError] = []
    login = Login(secured, "SASL_SSL", "SCRAM-SHA-256", password="wrong")
    admin = AdminClient({**login.librdkafka(), "error_cb": errors.append})
    deadline = time.monotonic() + TIMEOUT_S
    while not errors and time.monotonic() < deadline:
        admin.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "invalid credentials" in errors[0].str()


def test_librdkafka_logs_in_again_before_its_login_ends(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It closes a connection that nears its end, and opens another: its user sees no error."""
    with SecuredBroker(tmp_path_factory.mktemp("again"), {"connections.max.reauth.ms": "1500"}) as secured:
        errors: list[KafkaError] = []
        config = {**Login(secured, "SASL_SSL", "SCRAM-SHA-256").librdkafka(), "error_cb": errors.append}
        producer = Producer(config)
        delivered: list[KafkaError | None] = []
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            producer.produce("again", b"x", on_delivery=lambda error, _: delivered.append(error))
            producer.poll(0.05)
        assert producer.flush(TIMEOUT_S) == 0
        assert len(delivered) > 10 and set(delivered) == {None}
        assert not [error for error in errors if error.code() == KafkaError._AUTHENTICATION]
