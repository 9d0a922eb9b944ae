"""SASL mechanisms of a client: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, without I/O.

`first` returns the first message to the server. `respond` takes each answer of the server and returns the next message,
or None when the exchange is complete. The server reports a refused login outside of the exchange, with an error code.
SaslError means that the server broke the rules of the mechanism: with SCRAM, that it does not know the password either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

PLAIN: Final = "PLAIN"
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)

_SEPARATOR: Final = "\x01"


class SaslError(Exception):
    """The server's part of an exchange is wrong. The message has no secret."""


class SaslClient(ABC):
    """One exchange; a new one is needed for each login."""

    mechanism: str
    slow: ClassVar[bool] = False
    """Whether `respond` computes for milliseconds, so that it belongs in a thread."""

    @abstractmethod
    def first(self) -> bytes:
        """Return the first message."""

    @abstractmethod
    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next message, or None if the exchange is complete. Raises SaslError."""


class PlainClient(SaslClient):
    """PLAIN (RFC 4616): user name and password as they are, so only for TLS connections."""

    mechanism = PLAIN

    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        return None


class _RawText:
    """A user name or password in UTF-8. Kafka does not apply SASLprep, and scramp would."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __bytes__(self) -> bytes:
        return self._text.encode()

    def escape(self) -> str:
        return self._text.replace("=", "=3D").replace(",", "=2C")


class ScramSaslClient(SaslClient):
    """SCRAM (RFC 5802): proves that both sides know the password, and sends it to nobody."""

    slow = True

    def __init__(
        self, mechanism: str, username: str, password: str, *, token: bool = False, nonce: str | None = None
    ) -> None:
        """`token` tells the server that the user name is the id of a delegation token (KIP-48)."""
        from scramp import ScramClient

        self.mechanism = mechanism
        self._exchange = ScramClient([mechanism], "user", "password", c_nonce=nonce)
        self._exchange.username = _RawText(username)
        self._exchange.password = _RawText(password)
        self._token = token
        self._proved = False
        self._complete = False

    def first(self) -> bytes:
        message: str = self._exchange.get_client_first()
        if self._token:
            # The proof covers the extension: `client_first_bare` is part of what is signed.
            extension = ",tokenauth=true"
            self._exchange.client_first_bare += extension
            message += extension
        return message.encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._complete:
            raise SaslError(f"the server goes on after the end of {self.mechanism}")
        from scramp import ScramException

        try:
            text = challenge.decode()
            if self._proved:
                self._exchange.set_server_final(text)
                self._complete = True
                return None
            self._exchange.set_server_first(text)
            proof: str = self._exchange.get_client_final()
            self._proved = True
            return proof.encode()
        except (ScramException, ValueError):
            # scramp's message may quote the server's: it is not kept.
            raise SaslError(self._problem()) from None

    def _problem(self) -> str:
        if self._proved:
            return (
                f"the server did not prove with {self.mechanism} that it knows the password; it may be another server "
                "that pretends to be the broker"
            )
        return f"the server sent an invalid {self.mechanism} message, or one with fewer than 4096 iterations"


class OAuthBearerClient(SaslClient):
    """OAUTHBEARER (RFC 7628): a token, so only for TLS connections; with Kafka's extensions (KIP-342)."""

    mechanism = OAUTHBEARER

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        parts = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in (extensions or {}).items())]
        self._message = f"n,,{_SEPARATOR}{_SEPARATOR.join(parts)}{_SEPARATOR}{_SEPARATOR}".encode()

    def first(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        # A challenge is the description of an error. The server wants this byte before it refuses the login.
        return _SEPARATOR.encode() if challenge else None
