"""One connection to one broker, as clients have it: what the broker can do, and what is said when it fails.

How requests go out and answers come in is in `moldau.net.caller`, which brokers use among themselves as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.client.own_errors import (
    BrokerUnavailable,
    ClosedError,
    MoldauError,
    NotKafka,
    TimedOut,
    UnsupportedByBroker,
    another,
)
from moldau.net.caller import AnswerFrames, Caller
from moldau.net.connect import TLS_RECORDS
from moldau.net.framing import FrameMemory
from moldau.wire.api import APIS, ApiKey

MAX_FIRST_ANSWER_BYTES = 1024 * 1024
"""The first answer of a broker, its list of versions, is a few hundred bytes. What claims to be more is not Kafka."""

MAX_ANSWER_BYTES = 2**31 - 1
"""After that an answer may be as large as the protocol allows: the client has asked for it."""

ANSWERS_MEMORY_BYTES = 2**32
"""What all incomplete answers of one client may take together; what they can be at most follows from what it asks."""


class Connection(Caller[MoldauError]):
    """A connection to a broker. `net.connect` opens it, `handshake.py` fills in what the broker can do."""

    __slots__ = ("_on_lost", "finalized_features", "node_id", "supported_features", "versions")

    def __init__(
        self,
        node_id: int,
        name: str,
        client_id: str,
        memory: FrameMemory,
        on_lost: Callable[[Connection], None],
    ) -> None:
        super().__init__(name, client_id)
        self.node_id = node_id
        self.versions: Mapping[ApiKey, tuple[int, int]] = {}
        self.supported_features: Mapping[str, tuple[int, int]] = {}
        self.finalized_features: Mapping[str, int] = {}
        self._on_lost = on_lost
        self._frames = AnswerFrames(memory, MAX_FIRST_ANSWER_BYTES, self)

    def established(self, versions: Mapping[ApiKey, tuple[int, int]]) -> None:
        """The broker has introduced itself: from now on answers may be large."""
        self.versions = versions
        self._frames.max_frame_bytes = MAX_ANSWER_BYTES

    def version(self, key: ApiKey, at_most: int | None = None, at_least: int = 0) -> int:
        """The highest version of an API that both sides know, or UnsupportedByBroker.

        A version that its designers may still change is taken only by those who ask for it with `at_most`.
        """
        api = APIS[key]
        if key not in self.versions:
            raise UnsupportedByBroker(
                f"broker {self.name} does not have {api.name}; a newer broker is needed, or one that serves it"
            )
        low, high = self.versions[key]
        ours = api.max_stable_version if at_most is None else min(at_most, api.max_version)
        best = min(high, ours)
        if best < max(low, api.min_version, at_least):
            wanted = f"{max(api.min_version, at_least)} to {ours}"
            raise UnsupportedByBroker(
                f"broker {self.name} has {api.name} in versions {low} to {high}, this needs one of {wanted}; "
                f"the {'broker' if high < ours else 'client'} is too old"
            )
        return best

    # -- what ends are called --------------------------------------------------------------------------------------

    def _error_closed(self) -> MoldauError:
        return ClosedError(f"the connection to broker {self.name} was closed")

    def _error_lost(self, error: Exception | None) -> MoldauError:
        reason = f" ({error})" if error else ""
        if self.versions:
            return BrokerUnavailable(f"broker {self.name} closed the connection{reason}; it may be restarting")
        return BrokerUnavailable(
            f"{self.name} closed the connection before it answered{reason}: it is stopping, or it is a "
            "listener for TLS, or no Kafka broker; check the port in bootstrap.servers"
        )

    def _error_late(self, key: ApiKey) -> MoldauError:
        return TimedOut(
            f"broker {self.name} did not answer {APIS[key].name} in time; the connection was given up. "
            "It may be overloaded or unreachable; request.timeout.ms is how long is waited"
        )

    def _error_foreign(self, start: bytes) -> MoldauError:
        return NotKafka(describe_peer(self.name, start))

    def _error_again(self, error: MoldauError) -> MoldauError:
        return another(error)

    def _ended(self) -> None:
        self._on_lost(self)


def describe_peer(name: str, start: bytes) -> str:
    """What it is that speaks there, judged by its first bytes."""
    if start.startswith(b"HTTP/") or start[:4] == b"HTTP":
        return f"{name} speaks HTTP, not Kafka's protocol; check the port in bootstrap.servers"
    if len(start) >= 2 and start[0] in TLS_RECORDS and start[1] == 0x03:
        return tls_port(name)
    return f"{name} does not speak Kafka's protocol (it sent {start!r}); check the port in bootstrap.servers"


def tls_port(name: str) -> str:
    """What to say of a listener for TLS."""
    return (
        f"{name} speaks TLS, and this client spoke plain text; use a PLAINTEXT listener of the broker "
        "(TLS is not there yet)"
    )
