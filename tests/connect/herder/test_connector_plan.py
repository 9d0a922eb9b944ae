"""Plan of one worker: nothing is restarted without need."""

from __future__ import annotations

from moldau.connect.herder.connector_plan import ConnectorPlan, WantedConnector, plan, wanted_connectors
from moldau.connect.states import TargetState
from moldau.connect.stores import config_store
from moldau.connect.stores.config_store import ConfigState
from moldau.service.state_topic import StateRecord

A = WantedConnector({"x": "1"}, TargetState.STARTED)


def test_what_runs_as_it_is_wanted_is_left_alone() -> None:
    assert not plan({"a": A}, {"a": WantedConnector({"x": "1"}, TargetState.STARTED)})


def test_what_is_no_longer_assigned_is_stopped_and_what_is_new_is_started() -> None:
    assert plan({"a": A}, {"b": A}) == ConnectorPlan(stop=("a",), start=("b",))


def test_another_configuration_starts_the_connector_again_whatever_its_target() -> None:
    wanted = {"a": WantedConnector({"x": "2"}, TargetState.PAUSED)}
    assert plan({"a": A}, wanted) == ConnectorPlan(start=("a",))


def test_another_target_state_does_not_start_the_connector_again() -> None:
    wanted = {"a": WantedConnector({"x": "1"}, TargetState.STOPPED)}
    assert plan({"a": A}, wanted) == ConnectorPlan(retarget=("a",))


def test_an_assigned_connector_that_was_deleted_is_not_wanted() -> None:
    configs = ConfigState()
    entries = config_store.connector_entries("a", {"x": "1"}, TargetState.PAUSED)
    for offset, (key, value) in enumerate(entries):
        configs.apply(StateRecord(0, offset, 0, key, value))
    found = wanted_connectors(configs, {"a", "gone"})
    assert found == {"a": WantedConnector({"x": "1"}, TargetState.PAUSED)}
