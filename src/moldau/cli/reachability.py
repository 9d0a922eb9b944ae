"""Reachability of bootstrap addresses: whether all of them refuse connections, or one accepts them.

All addresses are tried at the same time, each in its own thread, because a slow name resolution cannot be interrupted.
An attempt that has not ended after a moment counts as neither accepted nor refused.
"""

from __future__ import annotations

import errno
import queue
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

TIMEOUT_S: Final = 1.5
"""Enough time for a reachable machine to refuse a connection to a closed port."""

Address = tuple[str, int]


class Outcome(Enum):
    """The result of an attempt to connect."""

    ACCEPTED = 1
    REFUSED = 2
    UNKNOWN = 3


def all_refuse(addresses: Sequence[Address]) -> bool:
    """Whether nothing listens at any of these addresses. Returns at the first other result."""
    refused = 0
    for outcome in _outcomes(addresses, TIMEOUT_S):
        if outcome is not Outcome.REFUSED:
            return False
        refused += 1
    return refused == len(addresses)


def any_accepts(addresses: Sequence[Address], timeout_s: float) -> bool:
    """Whether something listens at one of these addresses. Returns at the first that accepts."""
    return any(outcome is Outcome.ACCEPTED for outcome in _outcomes(addresses, timeout_s))


def _outcomes(addresses: Sequence[Address], timeout_s: float) -> Iterator[Outcome]:
    """The outcomes in the order of arrival; those after the timeout are missing."""
    outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def attempt(address: Address) -> None:
        outcomes.put(_outcome(address, timeout_s))

    for address in addresses:
        threading.Thread(target=attempt, args=(address,), daemon=True).start()
    deadline = time.monotonic() + timeout_s
    for _ in addresses:
        try:
            yield outcomes.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return


def _outcome(address: Address, timeout_s: float) -> Outcome:
    """Try one address. A name may have several IP addresses (localhost: IPv6 and IPv4); those that this machine does
    not support are ignored."""
    try:
        socket.create_connection(address, timeout_s, all_errors=True).close()
    except ExceptionGroup as group:
        codes = {error.errno for error in group.exceptions if isinstance(error, OSError)}
        absent = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
        return Outcome.REFUSED if codes - absent == {errno.ECONNREFUSED} else Outcome.UNKNOWN
    except OSError:
        return Outcome.UNKNOWN  # the name cannot be resolved
    return Outcome.ACCEPTED
