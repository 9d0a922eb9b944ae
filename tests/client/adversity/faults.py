"""Rounds of faults: the most important kinds first, then random ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from threading import Event

from moldau.wire.api import ApiKey
from tests.support.adversity import AdversityProxy, Spoil
from tests.support.process import BrokerProcess

Fault = Callable[[], None]

LONGEST_S = 0.2


def killed(broker: BrokerProcess) -> Fault:
    def fault() -> None:
        broker.kill()
        broker.start()

    return fault


def restarted(broker: BrokerProcess) -> Fault:
    def fault() -> None:
        assert broker.stop() == 0, broker.log
        broker.start()

    return fault


def all_bytes_held(proxy: AdversityProxy, seconds: float) -> Fault:
    """Hold all bytes back for longer than clients wait for an answer."""

    def fault() -> None:
        with proxy.black_hole():
            Event().wait(seconds)  # the duration of the fault; this waits for no condition

    return fault


def spoiled(proxy: AdversityProxy, how: Spoil, api: ApiKey) -> Fault:
    def fault() -> None:
        proxy.spoil(how, api)
        proxy.wait_until_spoiled()

    return fault


def random_faults(proxy: AdversityProxy, broker: BrokerProcess, chance: random.Random) -> Iterator[Fault]:
    """Random faults without end; one in ten kills the broker."""
    while True:
        kind = chance.randrange(20)
        if kind == 0:
            yield killed(broker)
        elif kind == 1:
            yield restarted(broker)
        else:
            yield lambda: print(proxy.misbehave(chance, LONGEST_S))
