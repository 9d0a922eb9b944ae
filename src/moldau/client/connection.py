"""Connection of a client to a broker: the versions that the broker serves, and the errors when it fails.

`moldau.net.request_pipeline` sends requests and receives responses. Brokers use it between each other as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.client.client_errors import (
    BrokerUnavailable,
    ClosedError,
    MoldauError,
    NotKafka,
    SaslAuthenticationError,
    TimedOut,
    TlsAuthenticationError,
    UnsupportedByBroker,
    error_copy,
)
from moldau.net.connect import TLS_RECORDS
from moldau.net.framing import FrameMemory
from moldau.net.request_pipeline import AnswerFrames, RequestPipeline
from moldau.net.tls_errors import is_lasting, tls_problem
from moldau.wire.api import APIS, ApiKey

if TYPE_CHECKING:
    from moldau.net.client_logins import LoginSource
    from moldau.net.client_session import ClientSession

MAX_FIRST_ANSWER_BYTES = 1024 * 1024
"""The limit for the first response, the list of versions. It has a few hundred bytes; a larger one is not Kafka."""

MAX_ANSWER_BYTES = 2**31 - 1
"""The limit for all later responses: the maximum of the protocol, because the client has requested them."""

ANSWERS_MEMORY_BYTES = 2**32
"""The limit for all incomplete responses of one client together. Their real size depends on the requests."""


class Connection(RequestPipeline[MoldauError]):
    """A connection to a broker. `net.connect` opens it, `handshake.py` sets the versions and features."""

    __slots__ = ("_on_lost", "_session", "encrypted", "finalized_features", "node_id", "supported_features", "versions")

    def __init__(
        self,
        node_id: int,
        name: str,
        client_id: str,
        memory: FrameMemory,
        on_lost: Callable[[Connection], None],
        encrypted: bool = False,
    ) -> None:
        super().__init__(name, client_id)
        self.encrypted = encrypted
        self._session: ClientSession | None = None
        self.node_id = node_id
        self.versions: Mapping[ApiKey, tuple[int, int]] = {}
        self.supported_features: Mapping[str, tuple[int, int]] = {}
        self.finalized_features: Mapping[str, int] = {}
        self._on_lost = on_lost
        self._frames = AnswerFrames(memory, MAX_FIRST_ANSWER_BYTES, self)

    def established(self, versions: Mapping[ApiKey, tuple[int, int]]) -> None:
        """Set the versions of the broker. From now on responses may be large."""
        self.versions = versions
        self._frames.max_frame_bytes = MAX_ANSWER_BYTES

    async def log_in(self, login: LoginSource, deadline: float, timeout_s: float, random: Callable[[], float]) -> None:
        """Log in, and again before each session ends. Raises AuthenticationError, or the error of the connection."""
        from moldau.net.client_session import ClientSession  # imported late: most clients have no login

        self._session = ClientSession(
            self,
            login,
            timeout_s=timeout_s,
            random=random,
            error_of=lambda error: SaslAuthenticationError(str(error)),
            version_of=self.version,
        )
        await self._session.begin(deadline)

    def version(self, key: ApiKey, at_most: int | None = None, at_least: int = 0) -> int:
        """Return the highest version of an API that both sides know. Raises UnsupportedByBroker if there is none.

        An unstable version, which Kafka may still change, is used only if `at_most` allows it.
        """
        api = APIS[key]
        if key not in self.versions:
            raise UnsupportedByBroker(
                f"broker {self.name} does not serve {api.name}; use a broker that does, for example a newer one"
            )
        low, high = self.versions[key]
        ours = api.max_stable_version if at_most is None else min(at_most, api.max_version)
        best = min(high, ours)
        if best < max(low, api.min_version, at_least):
            wanted = f"{max(api.min_version, at_least)} to {ours}"
            raise UnsupportedByBroker(
                f"broker {self.name} serves {api.name} in versions {low} to {high}, but the client needs {wanted}; "
                f"the {'broker' if high < ours else 'client'} is too old"
            )
        return best

    # -- errors ----------------------------------------------------------------------------------------------------

    def _error_closed(self) -> MoldauError:
        return ClosedError(f"the connection to broker {self.name} was closed")

    def _error_lost(self, error: Exception | None) -> MoldauError:
        if is_lasting(error):
            # With TLS 1.3 the broker checks the client's certificate only after the handshake of the client.
            return TlsAuthenticationError(tls_problem(self.name, self.name, error))
        reason = f" ({error})" if error else ""
        if self.versions:
            return BrokerUnavailable(f"broker {self.name} closed the connection{reason}; it may be restarting")
        why = "or it refused the client's certificate" if self.encrypted else "or it is a TLS listener"
        return BrokerUnavailable(
            f"{self.name} closed the connection before it answered{reason}: it is stopping, {why}, or not a Kafka "
            "broker; check the port in bootstrap.servers"
        )

    def _error_late(self, key: ApiKey) -> MoldauError:
        return TimedOut(
            f"broker {self.name} did not answer {APIS[key].name} within the timeout (request.timeout.ms), and the "
            "connection was closed; the broker may be overloaded or unreachable"
        )

    def _error_foreign(self, start: bytes) -> MoldauError:
        return NotKafka(describe_peer(self.name, start))

    def _error_again(self, error: MoldauError) -> MoldauError:
        return error_copy(error)

    def _ended(self) -> None:
        if self._session is not None:
            self._session.end()
        self._on_lost(self)


def describe_peer(name: str, start: bytes) -> str:
    """Return an error message for a peer that is not a Kafka broker, by its first bytes."""
    if start.startswith(b"HTTP/") or start[:4] == b"HTTP":
        return f"{name} speaks HTTP, not Kafka's protocol; check the port in bootstrap.servers"
    if len(start) >= 2 and start[0] in TLS_RECORDS and start[1] == 0x03:
        return tls_port(name)
    return f"{name} does not speak Kafka's protocol (it sent {start!r}); check the port in bootstrap.servers"


def tls_port(name: str) -> str:
    """Return the error message for a TLS listener."""
    return (
        f"{name} speaks TLS, but this client uses plain text; set security.protocol to SSL or SASL_SSL, or use the "
        "port of a PLAINTEXT listener"
    )
