"""Configurations that follow one another faster than a connector ends: the last one counts, with the last target."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType
from moldau.connect.connector import Slice, SourceConnector, SourceOffsets
from moldau.connect.engine import ConnectorState
from moldau.connect.engine.engine import Engine
from moldau.connect.record_batch import ConnectBatch
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0


class Stage:
    """What the connectors of one test do, and what they wait for."""

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.may_end = threading.Event()


stage = Stage()


class SlowToEnd(SourceConnector):
    """Has nothing to read. The one with the configuration `first` stays in its call until the test lets it go."""

    config_def = ConfigDef([ConfigKey("number", ConfigType.STRING, "The number of the configuration.")])

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.number: str = config["number"]

    def slices(self, offsets: SourceOffsets) -> list[Slice]:
        stage.looked.append(self.number)
        if self.number == "first":
            stage.may_end.wait(TIMEOUT_S)
        return []

    def read(self, part: Slice) -> Iterator[ConnectBatch]:
        raise AssertionError("there is nothing to read")


def new_engine(bootstrap: str) -> Engine:
    global stage
    stage = Stage()
    return Engine({"bootstrap.servers": bootstrap, "group.id": "replaced"}, load=lambda name: SlowToEnd)


@pytest.fixture
def engine(bootstrap: str) -> Iterator[Engine]:
    made = new_engine(bootstrap)
    yield made
    stage.may_end.set()
    made.close().result(TIMEOUT_S)


def config(number: str) -> dict[str, str]:
    return {"name": "slow", "connector.class": "SlowToEnd", "number": number}


def state(engine: Engine) -> ConnectorState | None:
    found = engine.state("slow")
    return None if found is None else found.state


def begin_first(engine: Engine) -> None:
    engine.start("slow", config("first"))
    wait_until(lambda: stage.looked == ["first"], "the first configuration is in its call")


def test_of_two_configurations_that_wait_only_the_last_one_runs(engine: Engine) -> None:
    begin_first(engine)
    engine.start("slow", config("second"))
    engine.start("slow", config("third"))
    assert stage.looked == ["first"], "no other one begins while it runs"
    stage.may_end.set()
    wait_until(lambda: "third" in stage.looked)
    wait_until(lambda: state(engine) is ConnectorState.RUNNING)
    assert "second" not in stage.looked


def test_a_pause_reaches_the_configuration_that_waits(engine: Engine) -> None:
    begin_first(engine)
    engine.start("slow", config("second"))
    engine.pause("slow")
    stage.may_end.set()
    wait_until(lambda: state(engine) is ConnectorState.PAUSED, "the new one is paused")
    engine.resume("slow")
    wait_until(lambda: "second" in stage.looked)


def test_a_connector_that_is_stopped_while_another_configuration_waits_does_not_begin(engine: Engine) -> None:
    begin_first(engine)
    engine.start("slow", config("second"))
    stopped = engine.stop("slow")
    assert not stopped.done(), "the first one still runs"
    stage.may_end.set()
    stopped.result(TIMEOUT_S)
    assert engine.state("slow") is None
    assert stage.looked == ["first"]


def test_an_engine_closes_with_a_configuration_that_waits(bootstrap: str) -> None:
    engine = new_engine(bootstrap)
    begin_first(engine)
    engine.start("slow", config("second"))
    closed = engine.close()
    stage.may_end.set()
    closed.result(TIMEOUT_S)
    assert stage.looked == ["first"]
