"""Connectors that rest (paused, stopped, idle, failed): the engine's thread waits, and does not turn in a loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from moldau.connect.config_def import ConfigDef
from moldau.connect.connector import Slice, SourceConnector, SourceOffsets
from moldau.connect.engine import ConnectorState
from moldau.connect.engine.engine import Engine
from moldau.connect.record_batch import ConnectBatch
from moldau.host.clock import SystemClock
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0
LOOK_S = 0.6
MOST_LOOKS_AT_THE_CLOCK = 100
"""A thread that waits looks a few times per second; one that turns in a loop, tens of thousands of times."""


class CountingClock(SystemClock):
    """Counts how often it is asked."""

    asked = 0

    def monotonic(self) -> float:
        self.asked += 1
        return super().monotonic()


class Resting(SourceConnector):
    """Has nothing to read, or fails."""

    config_def = ConfigDef()

    def slices(self, offsets: SourceOffsets) -> list[Slice]:
        if self.name == "broken":
            raise ValueError("broken")
        return []

    def read(self, part: Slice) -> Iterator[ConnectBatch]:
        raise AssertionError("there is nothing to read")


@pytest.mark.parametrize(
    ("name", "target", "state"),
    [
        ("idle", ConnectorState.RUNNING, ConnectorState.RUNNING),
        ("paused", ConnectorState.PAUSED, ConnectorState.PAUSED),
        ("stopped", ConnectorState.STOPPED, ConnectorState.STOPPED),
        ("broken", ConnectorState.RUNNING, ConnectorState.FAILED),
    ],
)
def test_the_engine_waits(bootstrap: str, name: str, target: ConnectorState, state: ConnectorState) -> None:
    clock = CountingClock()
    engine = Engine({"bootstrap.servers": bootstrap, "group.id": "resting"}, load=lambda _: Resting, clock=clock)
    try:
        engine.start(name, {"name": name, "connector.class": "Resting"}, target)
        wait_until(lambda: (found := engine.state(name)) is not None and found.state is state)
        if name == "paused":  # it has run before: its next step would be due
            engine.resume(name)
            wait_until(lambda: (found := engine.state(name)) is not None and found.state is ConnectorState.RUNNING)
            engine.pause(name)
            wait_until(lambda: (found := engine.state(name)) is not None and found.state is state)
        before = clock.asked
        threading.Event().wait(LOOK_S)
        assert clock.asked - before < MOST_LOOKS_AT_THE_CLOCK
    finally:
        engine.close().result(TIMEOUT_S)
