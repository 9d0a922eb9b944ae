"""Cost of a login: broker CPU time per TLS handshake (ECDSA P-256) with SCRAM-SHA-256, and its effect on others.

Logins come one after the other from raw sockets, each on a new connection without session resumption. Meanwhile another
client sends one record at a time over a plain connection, and its latency is measured with and without the logins.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

from bench import frames
from bench.harness import HOST, Broker, Context, Row, free_port, median, percentile, spread
from bench.tls import make_files
from moldau.security.credentials import ScramMechanism
from moldau.security.initial_users import users_text
from moldau.security.sasl_client import ScramSaslClient
from moldau.security.scram_keys import new_credential
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MECHANISM = ScramMechanism.SCRAM_SHA_256
USER, PASSWORD = "bench", "a password"
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
VERSION = 1
RESPONSE_HEADER_BYTES = 4
LIMIT_MS = 3.3
LIMIT_P99 = 2.0
RECORD = 100


def run(context: Context) -> Iterator[Row]:
    logins = context.sized(2_000, 400)
    costs: list[float] = []
    alone: list[float] = []
    beside: list[float] = []
    with context.scratch("logins") as directory:
        files = make_files(directory)
        users = directory / "users.properties"
        users.write_text(users_text({USER: {MECHANISM: new_credential(MECHANISM, PASSWORD)}}))
        port = free_port()
        settings = {
            **files.server_settings(),
            "sasl.enabled.mechanisms": MECHANISM.sasl_name,
            "moldau.initial.users.file": str(users),
            "max.connections.per.ip": "100000",
        }
        texts = [f"{name}={value}" for name, value in settings.items()]
        with Broker(directory / "data", texts, other_listeners=[f"SASL_SSL://{HOST}:{port}"]) as broker:
            broker.start()
            broker.create_topic("latency", 1)
            trust = _context(files.authority)
            for _ in range(20):
                _log_in(trust, port)
            for _ in range(context.repeats):
                before = broker.cpu_seconds()
                for _ in range(logins):
                    _log_in(trust, port)
                costs.append((broker.cpu_seconds() - before) / logins * 1000)
                alone.append(_p99_ms(broker, context))
                with _Logins(files.authority, port):
                    beside.append(_p99_ms(broker, context))
                context.say(
                    f"login: {costs[-1]:.2f} ms of CPU; p99 of another client {alone[-1]:.2f} ms alone, "
                    f"{beside[-1]:.2f} beside logins"
                )
    note = f"TLS 1.3, ECDSA P-256, SCRAM-SHA-256 with 4,096 iterations; {logins} logins a round, {spread(costs)}"
    yield Row("Login: broker CPU", median(costs), "ms", LIMIT_MS, note=note)
    note = f"{median(beside):.2f} ({spread(beside)}) against {median(alone):.2f} ({spread(alone)}) ms, one connection"
    yield Row("Login: p99 of another client", median(beside) / median(alone), "x alone", LIMIT_P99, note=note)


def _context(authority: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    context.options |= ssl.OP_NO_TICKET
    return context


def _log_in(trust: ssl.SSLContext, port: int) -> None:
    with (
        socket.create_connection((HOST, port)) as plain,
        trust.wrap_socket(plain, server_hostname=HOST) as connection,
    ):
        handshake = SaslHandshakeRequest(mechanism=MECHANISM.sasl_name).encode(VERSION)
        answer = frames.call(connection, frames.request(SASL_HANDSHAKE, VERSION, handshake))
        found = SaslHandshakeResponse.decode(memoryview(answer)[RESPONSE_HEADER_BYTES:], VERSION)
        assert found.error_code == 0, found
        client = ScramSaslClient(MECHANISM.sasl_name, USER, PASSWORD)
        message: bytes | None = client.first()
        while message is not None:
            body = SaslAuthenticateRequest(auth_bytes=message).encode(VERSION)
            answer = frames.call(connection, frames.request(SASL_AUTHENTICATE, VERSION, body))
            reply = SaslAuthenticateResponse.decode(memoryview(answer)[RESPONSE_HEADER_BYTES:], VERSION)
            assert reply.error_code == 0, reply
            message = client.respond(bytes(reply.auth_bytes))


class _Logins:
    """Logins one after the other, in a process of their own, as long as the context lasts."""

    def __init__(self, authority: Path, port: int) -> None:
        context = get_context("fork")
        self._stop = context.Event()
        self._process = context.Process(target=self._run, args=(authority, port))

    def _run(self, authority: Path, port: int) -> None:
        trust = _context(authority)
        while not self._stop.is_set():
            _log_in(trust, port)

    def __enter__(self) -> None:
        self._process.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._process.join()


def _p99_ms(broker: Broker, context: Context) -> float:
    """The latency of one-record requests on one connection."""
    request = frames.produce("latency", 0, frames.batch(1, RECORD))
    times = []
    with frames.connect(HOST, broker.port) as connection:
        for _ in range(context.sized(4_000, 1_500)):
            began = time.perf_counter()
            frames.call(connection, request)
            times.append(time.perf_counter() - began)
    return percentile(times, 0.99) * 1000
