"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's side, with Kafka's delegation tokens.

The messages are parsed here because scramp refuses Kafka's extension `tokenauth=true` and a user that names itself as
authorization id (docs/decisions/0013-scram-and-tls-handshakes.md). Hashes are hashlib's and hmac's.

librdkafka before 2.6.1, and so kcat of most distributions, sends its own nonce twice in the final message. That form is
accepted, too: it has the whole nonce of this exchange, and the proof covers it. Kafka accepted it until version 4.

An unknown user gets a salt and a number of iterations like everyone else, and fails at the same step as with a wrong
password (`ScramUsers`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from moldau.security.credentials import MIN_SCRAM_ITERATIONS, ScramCredential, ScramMechanism
from moldau.security.resources import Principal
from moldau.security.sasl_server import Identity, SaslFailure, SaslStep

MAX_NONCE: Final = 512
MAX_NAME: Final = 1024
"""Limits of a client's nonce and name, in characters. Both are kept, and hashed again, until the login ends."""

_SALT_BYTES: Final = 24

_NAME = r"(?:[^,=\0]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\0]+)*"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramAccount(NamedTuple):
    """Whom a name stands for, and the credential to check."""

    credential: ScramCredential
    identity: Identity | None
    """None for a name that does not exist: the exchange goes on with made-up keys, and fails at its end."""


FindAccount = Callable[[str, bool], ScramAccount]
"""The account of a name; the second argument says whether the name is the id of a delegation token."""


class ScramExchange:
    """One login: client-first, server-first, client-final, server-final."""

    __slots__ = (
        "_account",
        "_client_nonce",
        "_expected",
        "_find",
        "_gs2",
        "_mechanism",
        "_nonce",
        "_opened",
        "_so_far",
    )

    def __init__(self, mechanism: ScramMechanism, find: FindAccount, server_nonce: str) -> None:
        self._mechanism = mechanism
        self._find = find
        self._nonce = server_nonce
        self._client_nonce = ""
        self._account: ScramAccount | None = None
        self._so_far = ""
        self._gs2 = ""
        self._expected = 1

    def is_costly(self, token: bytes) -> bool:
        """The keys of a delegation token are derived from its secret, which takes milliseconds."""
        return self._expected == 1 and b",tokenauth=" in token

    def respond(self, token: bytes) -> SaslStep:
        step, self._expected = self._expected, 0
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._malformed("not UTF-8") from None
        if step == 1:
            answer = self._server_first(text)
            self._expected = 2
            return answer
        if step == 2:
            return self._server_final(text)
        raise self._malformed("unexpected token after the end of the exchange")

    def _server_first(self, text: str) -> SaslStep:
        first = _CLIENT_FIRST.fullmatch(text)
        if first is None:
            raise self._malformed("Invalid SCRAM client first message format")
        if len(first["nonce"]) > MAX_NONCE or len(first["name"]) > MAX_NAME:
            raise self._malformed("name or nonce too long")
        name = unescaped(first["name"])
        if first["authzid"] is not None and unescaped(first["authzid"]) != name:
            raise SaslFailure(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._account = self._find(name, _by_token(first["extensions"]))
        self._client_nonce = first["nonce"]
        self._nonce = first["nonce"] + self._nonce
        credential = self._account.credential
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._gs2 = first["gs2"]
        self._so_far = f"{first['bare']},{answer}"
        return SaslStep(answer.encode())

    def _server_final(self, text: str) -> SaslStep:
        final = _CLIENT_FINAL.fullmatch(text)
        if final is None:
            raise self._malformed("Invalid SCRAM client final message format")
        if final["nonce"] not in (self._nonce, self._client_nonce + self._nonce):
            raise self._malformed("Invalid client nonce in the final client message.")
        binding, proof = _decoded(final["binding"]), _decoded(final["proof"])
        if binding is None or proof is None or binding != self._gs2.encode():
            raise self._malformed("Invalid SCRAM client final message format")
        assert self._account is not None
        credential, identity = self._account
        message = f"{self._so_far},{final['without_proof']}".encode()
        # Both are computed for unknown names, too.
        proven = self._proves(credential, message, proof)
        signature = self._hmac(credential.server_key, message)
        if not proven or identity is None:
            raise self._refused()
        return SaslStep(b"v=" + base64.b64encode(signature), identity)

    def _proves(self, credential: ScramCredential, message: bytes, proof: bytes) -> bool:
        client_signature = self._hmac(credential.stored_key, message)
        if len(proof) != len(client_signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(client_signature, proof, strict=True))
        stored_key = hashlib.new(self._mechanism.hash_name, client_key).digest()
        return hmac.compare_digest(stored_key, credential.stored_key)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._mechanism.hash_name)

    def _refused(self) -> SaslFailure:
        return SaslFailure(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism.sasl_name}",
            "wrong user or password",
        )

    def _malformed(self, why: str) -> SaslFailure:
        return SaslFailure(f"Authentication failed: {why}")


class ScramUsers:
    """The accounts of users with one mechanism, at one moment. Unknown names get keys that are made up.

    What is made up for a name is always the same, on every broker, because it is derived from a stored key that nobody
    but the brokers has. Otherwise a second try, or a second broker, would tell that the name does not exist.
    """

    __slots__ = ("_credentials", "_model", "_secret")

    def __init__(
        self,
        credentials: Mapping[str, Mapping[ScramMechanism, ScramCredential]],
        mechanism: ScramMechanism,
        secret: bytes,
    ) -> None:
        self._credentials = {name: one[mechanism] for name, one in credentials.items() if mechanism in one}
        self._secret = secret
        self._model = ScramCredential(MIN_SCRAM_ITERATIONS, bytes(_SALT_BYTES), b"", b"")
        if self._credentials:
            self._model = self._credentials[min(self._credentials)]
            self._secret = hashlib.sha256(b"unknown users" + self._model.server_key).digest()

    def find(self, name: str) -> ScramAccount:
        made_up = self.made_up(name)  # always, so that it takes the same time
        credential = self._credentials.get(name)
        if credential is None:
            return ScramAccount(made_up, None)
        return ScramAccount(credential, Identity(Principal("User", name)))

    def made_up(self, name: str) -> ScramCredential:
        """The credential for a name that does not exist: nobody can prove it."""
        digest = hmac.digest(self._secret, name.encode(errors="surrogatepass"), "sha512")
        size = max(1, len(self._model.salt))
        salt = (digest * (size // len(digest) + 1))[:size]
        return ScramCredential(self._model.iterations, salt, digest, digest)


def unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _by_token(extensions: str) -> bool:
    pairs = (extension.partition("=") for extension in extensions.split(",") if extension)
    return any(name == "tokenauth" and value.lower() == "true" for name, _, value in pairs)


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
