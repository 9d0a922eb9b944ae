"""Keys of bearer tokens: a JWKS document from a file or a server, read in threads and kept.

The document is read at start, again when it is older than `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token
names a key that is not in it, because the issuer may have a new key. Tokens with made-up key ids cannot cause many
reads: between two reads passes at least `MIN_PAUSE_S`, and after failures a pause that grows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.host.documents import read_document, read_problem
from moldau.host.event_log import event_logger
from moldau.host.threads import Lock
from moldau.security.token_validation import read_keys

if TYPE_CHECKING:
    from jwt import PyJWK

    from moldau.security.sasl_config import JwksSource

log = event_logger(__name__)

MAX_DOCUMENT_BYTES = 1024 * 1024
MIN_PAUSE_S = 5.0
"""The shortest time between two reads because of unknown key ids."""


class JwksUnavailable(Exception):
    """The document cannot be read, or is not a JWKS document."""


class JwksKeys:
    """The keys of one source. `find` runs in several threads."""

    def __init__(self, source: JwksSource, now: Callable[[], float]) -> None:
        self.source = source
        self._now = now
        self._keys: dict[str | None, PyJWK] = {}
        self._read_at = float("-inf")
        self._failures = 0
        self._reading = Lock()

    def load(self) -> None:
        """Read the document now. Raises JwksUnavailable."""
        try:
            self._keys = read_keys(read_document(self.source.url, MAX_DOCUMENT_BYTES))
        except (OSError, ValueError) as error:
            raise JwksUnavailable(f"the keys at {self.source.url} cannot be read: {read_problem(error)}") from None
        finally:
            self._read_at = self._now()

    def find(self, key_id: str | None) -> PyJWK | None:
        """The key of a token. Reads the document again if it is old or does not have the key."""
        age = self._now() - self._read_at
        if self._failures:
            due = age >= min(self.source.max_retry_s, self.source.retry_s * 2**self._failures)
        else:
            due = age >= self.source.refresh_s or (key_id not in self._keys and age >= MIN_PAUSE_S)
        # One thread reads; the others decide by the keys that are known.
        if due and self._reading.acquire(blocking=False):
            try:
                self._load_again()
            finally:
                self._reading.release()
        return self._keys.get(key_id)

    def _load_again(self) -> None:
        try:
            self.load()
            self._failures = 0
        except JwksUnavailable as error:
            self._failures = min(self._failures + 1, 30)
            log.error("keys of bearer tokens not read", extra={"reason": str(error), "failures": self._failures})
