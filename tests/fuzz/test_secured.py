"""Random bytes to listeners with TLS and logins: nobody gets in, nothing changes, and a client beside notices nothing.

A failure shows its seed; `pytest tests/fuzz --fuzz-seed=SEED` sends the same bytes again.
"""

from __future__ import annotations

import base64
import random
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.broker.connection.login_session import LoginSession
from moldau.security.sasl_client import OAuthBearerClient, PlainClient, SaslClient, ScramSaslClient
from moldau.security.sasl_server import Identity
from moldau.wire.api import ApiKey
from moldau.wire.header import encode_request_header
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.fuzz.attack import Attack
from tests.fuzz.frames import Frame, Frames
from tests.support.raw import RawConnection
from tests.support.secured import ADMIN, ADMIN_PASSWORD, MECHANISMS, SecuredBroker
from tests.support.waiting import wait_until

SETTINGS = {"connection.failed.authentication.delay.ms": "0", "moldau.authentication.timeout.ms": "5000"}
KNOWN_CLIENTS = 1


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path, SETTINGS) as broker:
        yield broker


class Beside:
    """A client that has logged in before the attack."""

    def __init__(self, secured: SecuredBroker) -> None:
        self._secured = secured
        self._logins: list[Identity] = []
        original = LoginSession._authenticated

        def recorded(session: LoginSession, identity: Identity) -> None:
            self._logins.append(identity)
            original(session, identity)

        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(LoginSession, "_authenticated", recorded)
        self._raw = RawConnection(secured.address("SASL_PLAINTEXT")).log_in(ADMIN, ADMIN_PASSWORD)

    def check(self) -> None:
        """Its requests are answered, nobody else has logged in, and nothing has changed."""
        answer = self._raw.call(ApiKey.METADATA, 12, MetadataRequest(topics=None), MetadataResponse)
        assert [topic.name for topic in answer.topics] == []
        assert [str(login.principal) for login in self._logins] == [f"User:{ADMIN}"]  # its own
        broker = self._secured.broker
        wait_until(lambda: self._secured.call(lambda: len(broker.connections)) == KNOWN_CLIENTS, timeout_s=20)
        assert self._secured.call(lambda: broker.connections.unauthenticated) == 0
        assert self._secured.call(lambda: broker.metrics.handler_failures) == 0
        assert self._secured.call(lambda: broker.login_memory.in_use) == 0
        assert not self._secured.call(lambda: broker.image.broker_configs)

    def close(self) -> None:
        self._patch.undo()
        self._raw.close()


def test_no_frame_is_served_without_a_login(
    secured: SecuredBroker, seed: int, count: Callable[[int, int], int]
) -> None:
    beside = Beside(secured)
    attack = Attack(secured.address("SASL_PLAINTEXT"), Frames(seed, {"any": bytes(16)}, node_id=1), seed)
    attack.send(count(10_000, 500_000))
    attack.close()
    beside.check()
    beside.close()


class LoginFrames(Iterator[Frame]):
    """Logins of every mechanism whose bytes are damaged somewhere, or that never end."""

    def __init__(self, secured: SecuredBroker, seed: int) -> None:
        self._rng = random.Random(seed)
        self._tokens = [secured.issuer.token(exp=1), secured.issuer.token(aud="other")]
        self._waiting: list[Frame] = []

    def __next__(self) -> Frame:
        if not self._waiting:
            self._waiting = self._login()
        return self._waiting.pop(0)

    def _login(self) -> list[Frame]:
        rng = self._rng
        mechanism = rng.choice(MECHANISMS)
        version = rng.randrange(2)
        frames = [_request(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism).encode(version))]
        for _ in range(rng.randrange(1, 4)):
            token = _damaged(self._client(mechanism).first(), rng)
            if version:
                body = SaslAuthenticateRequest(auth_bytes=token).encode(1)
                frames.append(_request(ApiKey.SASL_AUTHENTICATE, 1, body))
            else:
                frames.append(token)
        if rng.random() < 0.3:
            frames = [_damaged(frame, rng) for frame in frames]
        rng.shuffle(frames) if rng.random() < 0.1 else None
        return [Frame(struct.pack(">i", len(frame)) + frame, False) for frame in frames]

    def _client(self, mechanism: str) -> SaslClient:
        if mechanism == "PLAIN":
            return PlainClient(ADMIN, "no change of a few bytes makes the right password of this")
        if mechanism == "OAUTHBEARER":
            return OAuthBearerClient(self._rng.choice(self._tokens))
        return ScramSaslClient(mechanism, ADMIN, ADMIN_PASSWORD)


def _request(api: ApiKey, version: int, body: bytes) -> bytes:
    return encode_request_header(api, version, 1, "fuzz") + body


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """The data with a few changes: bytes replaced, removed, repeated, or base64 and separators in odd places."""
    changed = bytearray(data)
    for _ in range(rng.randrange(0, 4)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            changed[at : at + 1] = rng.randbytes(1)
        elif kind == 1:
            del changed[at : at + rng.randrange(1, 9)]
        elif kind == 2:
            changed[at:at] = changed[at : at + rng.randrange(1, 40)]
        elif kind == 3:
            changed[at:at] = rng.choice((b"\0", b"\x01", b",", b"=", b"n=", b"r=", b"p=", b"\xff\xff"))
        else:
            changed[at:at] = base64.b64encode(rng.randbytes(rng.randrange(40)))
    return bytes(changed)


def test_no_damaged_login_succeeds(secured: SecuredBroker, seed: int, count: Callable[[int, int], int]) -> None:
    beside = Beside(secured)
    frames = LoginFrames(secured, seed)
    attack = Attack(secured.address("SASL_PLAINTEXT"), frames, seed)  # type: ignore[arg-type]
    attack.send(count(5_000, 300_000))
    attack.close()
    beside.check()
    beside.close()


class Bytes(Iterator[Frame]):
    """The first bytes of TLS clients, damaged, and bytes that are nothing at all."""

    def __init__(self, secured: SecuredBroker, seed: int) -> None:
        self._rng = random.Random(seed)
        self._context = ssl.create_default_context(cafile=str(secured.truststore))
        self._requests = Frames(seed, {"any": bytes(16)}, node_id=1)

    def __next__(self) -> Frame:
        rng = self._rng
        kind = rng.randrange(4)
        if kind == 0:
            data = rng.randbytes(rng.randrange(1, 3000))
        elif kind == 1:
            data = next(self._requests).data
        else:
            hello = self._hello()
            data = hello[: rng.randrange(len(hello))] if kind == 2 else _damaged(hello, rng)
        return Frame(data or b"\0", True)

    def _hello(self) -> bytes:
        outgoing = ssl.MemoryBIO()
        session = self._context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            session.do_handshake()
        return outgoing.read()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_no_bytes_pass_the_tls_handshake(
    secured: SecuredBroker, seed: int, count: Callable[[int, int], int], protocol: str
) -> None:
    beside = Beside(secured)
    attack = Attack(secured.address(protocol), Bytes(secured, seed), seed)  # type: ignore[arg-type]
    attack.send(count(1_000, 100_000))
    attack.close()
    beside.check()
    beside.close()


def test_no_frame_inside_tls_is_served_without_a_login(
    secured: SecuredBroker, seed: int, count: Callable[[int, int], int]
) -> None:
    beside = Beside(secured)
    rng = random.Random(seed)
    frames, logins = Frames(seed, {"any": bytes(16)}, node_id=1), LoginFrames(secured, seed)
    context = ssl.create_default_context(cafile=str(secured.truststore))
    for _ in range(count(150, 20_000)):
        source = frames if rng.random() < 0.5 else logins
        data = b"".join(next(source).data for _ in range(rng.randrange(1, 6)))
        plain = RawConnection(secured.address("SASL_SSL")).socket
        with context.wrap_socket(plain, server_hostname="localhost") as tls:
            _send_and_read(tls, data, rng)
    beside.check()
    beside.close()


def _send_and_read(tls: ssl.SSLSocket, data: bytes, rng: random.Random) -> None:
    try:
        if rng.random() < 0.3:  # in many small records
            for start in range(0, min(len(data), 2000), 100):
                tls.sendall(data[start : start + 100])
        else:
            tls.sendall(data)
        if rng.random() < 0.5:
            tls.settimeout(0.05)
            tls.recv(1000)
        if rng.random() < 0.2:  # the end without TLS's own end
            tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except (OSError, TimeoutError):
        return
