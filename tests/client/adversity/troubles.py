"""Rounds of faults: the most important kinds first, then random ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from threading import Event

from moldau.wire.api import ApiKey
from tests.support.adversity import AdversityProxy, Spoil
from tests.support.process import BrokerProcess

Trouble = Callable[[], None]

LONGEST_S = 0.2


def killed(broker: BrokerProcess) -> Trouble:
    def trouble() -> None:
        broker.kill()
        broker.start()

    return trouble


def restarted(broker: BrokerProcess) -> Trouble:
    def trouble() -> None:
        assert broker.stop() == 0, broker.log
        broker.start()

    return trouble


def swallowed(proxy: AdversityProxy, seconds: float) -> Trouble:
    """Nothing comes through for longer than clients wait for an answer."""

    def trouble() -> None:
        with proxy.black_hole():
            Event().wait(seconds)  # a trouble has a length; nothing is being waited for

    return trouble


def spoiled(proxy: AdversityProxy, how: Spoil, api: ApiKey) -> Trouble:
    def trouble() -> None:
        proxy.spoil(how, api)
        proxy.wait_until_spoiled()

    return trouble


def by_chance(proxy: AdversityProxy, broker: BrokerProcess, chance: random.Random) -> Iterator[Trouble]:
    """Troubles without end; one in ten is a broker that dies."""
    while True:
        kind = chance.randrange(20)
        if kind == 0:
            yield killed(broker)
        elif kind == 1:
            yield restarted(broker)
        else:
            yield lambda: print(proxy.misbehave(chance, LONGEST_S))
