"""Supervision of continuous queries: decisions without Spark, brokers or clocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moldau.sql.declarations import Declaration, RelationKind
from moldau.sql.queries import QueryDefinition, QueryState, QueryStatus, WantedState
from moldau.sql.server.supervision import (
    LIVE,
    NEVER,
    Action,
    QueryPhase,
    QuerySupervision,
    RemoveQuery,
    RestartRules,
    StartQuery,
    StopQuery,
)

RULES = RestartRules(first_pause_s=1.0, longest_pause_s=8.0, max_failures=3, works_after_s=60.0)
TARGET = Declaration("out", RelationKind.STREAM, "out")


def definition(name: str, query_id: str | None = None, **facts: Any) -> QueryDefinition:
    return replace(QueryDefinition(name, query_id or f"id-{name}", "", TARGET, ()), **facts)


def leading(*definitions: QueryDefinition) -> QuerySupervision:
    found = QuerySupervision(RULES)
    found.lead(True)
    found.want(definitions, {})
    return found


def running(*definitions: QueryDefinition) -> QuerySupervision:
    """All queries run, the first with run 1."""
    found = leading(*definitions)
    for action in found.actions(0.0):
        assert isinstance(action, StartQuery)
        found.started(action.definition.id, action.run, 0.0)
    return found


def state(found: QuerySupervision, name: str) -> QueryState:
    return found.entries[f"id-{name}"].state


A, B = definition("a"), definition("b")
PAUSED_A = replace(A, wanted=WantedState.PAUSED)


# -- leadership --------------------------------------------------------------------------------------------------------


def test_a_server_that_does_not_lead_starts_nothing() -> None:
    found = QuerySupervision(RULES)
    found.want([A], {})
    assert found.actions(0.0) == []
    assert found.due() == NEVER


def test_a_server_that_no_longer_leads_stops_all_queries_and_removes_nothing() -> None:
    found = running(A, B)
    found.lead(False)
    assert found.actions(1.0) == [StopQuery(A, 1), StopQuery(B, 2)]
    assert found.actions(1.0) == []
    found.ended(A.id, 1, 2.0, "interrupted")
    found.ended(B.id, 2, 2.0)
    assert found.actions(2.0) == []
    assert not found.entries


def test_a_query_terminated_while_the_server_stops_is_not_removed_by_a_server_that_does_not_lead() -> None:
    found = running(A)
    found.lead(False)
    found.actions(1.0)
    found.want([], {})
    found.ended(A.id, 1, 2.0)
    assert found.actions(2.0) == []


def test_a_server_that_leads_again_before_its_queries_have_stopped_waits_for_them() -> None:
    found = running(A)
    found.lead(False)
    found.actions(1.0)
    found.lead(True)
    assert found.actions(1.0) == []
    found.ended(A.id, 1, 2.0)
    assert found.actions(2.0) == [StartQuery(A, 2)]


# -- pause, resume, terminate ------------------------------------------------------------------------------------------


def test_a_paused_query_is_stopped_and_goes_on_when_resumed() -> None:
    found = running(A, B)
    found.want([PAUSED_A, B], {})
    assert found.actions(1.0) == [StopQuery(PAUSED_A, 1)]
    found.ended(A.id, 1, 1.5)
    assert found.actions(1.5) == []
    assert state(found, "a") is QueryState.PAUSED
    resumed = replace(A, resumes=1)
    found.want([resumed, B], {})
    assert found.actions(2.0) == [StartQuery(resumed, 3)]


def test_a_query_that_is_paused_at_the_start_stays_paused() -> None:
    found = leading(PAUSED_A)
    assert found.actions(0.0) == []
    assert state(found, "a") is QueryState.PAUSED


def test_a_query_resumed_before_it_has_stopped_begins_again_after_that() -> None:
    found = running(A)
    found.want([PAUSED_A], {})
    found.actions(1.0)
    resumed = replace(A, resumes=1)
    found.want([resumed], {})
    assert found.actions(1.0) == []
    found.ended(A.id, 1, 2.0)
    assert found.actions(2.0) == [StartQuery(resumed, 2)]


def test_a_terminated_query_is_stopped_then_removed_once() -> None:
    found = running(A)
    found.want([], {})
    assert found.actions(1.0) == [StopQuery(A, 1)]
    found.ended(A.id, 1, 2.0)
    assert found.actions(2.0) == [RemoveQuery(A)]
    assert found.actions(2.0) == []
    found.removed(A.id)
    assert not found.entries


def test_another_definition_of_the_same_name_begins_after_the_first_is_removed() -> None:
    found = running(A)
    other = definition("A", "id-other")
    found.want([other], {})
    assert found.actions(1.0) == [StopQuery(A, 1)]
    found.ended(A.id, 1, 2.0)
    assert found.actions(2.0) == [RemoveQuery(A)]
    assert found.actions(3.0) == []
    found.removed(A.id)
    assert found.actions(4.0) == [StartQuery(other, 2)]


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_query_that_fails_is_tried_again_after_pauses_that_double_and_is_then_failed_alone() -> None:
    found = running(A, B)
    now, pauses = 0.0, []
    for run in (1, 3, 4):
        found.ended(A.id, run, now, "bad cast")
        if run == 4:
            break
        assert state(found, "a") is QueryState.RESTARTING
        assert found.actions(found.due() - 0.01) == []
        pauses.append(found.due() - now)
        now = found.due()
        assert found.actions(now) == [StartQuery(A, run + 2 if run == 1 else run + 1)]
        found.started(A.id, found.entries[A.id].run, now)
    assert pauses == [1.0, 2.0]
    assert state(found, "a") is QueryState.FAILED
    assert found.entries[A.id].trace == "bad cast"
    assert found.due() == NEVER
    assert found.actions(now + 1e9) == []
    assert state(found, "b") is QueryState.RUNNING


def test_a_failed_query_is_tried_again_when_it_is_resumed_with_all_its_tries() -> None:
    found = running(A)
    for run in (1, 2, 3):
        found.ended(A.id, run, 100.0 * run, "bad cast")
        found.actions(100.0 * run + 50)
    assert state(found, "a") is QueryState.FAILED
    resumed = replace(A, resumes=1)
    found.want([resumed], {})
    assert found.actions(500.0) == [StartQuery(resumed, 4)]
    assert state(found, "a") is QueryState.STARTING
    found.ended(A.id, 4, 501.0, "bad cast")
    assert state(found, "a") is QueryState.RESTARTING


def test_a_failed_query_that_is_paused_and_resumed_is_tried_again() -> None:
    found = running(A)
    for run in (1, 2, 3):
        found.ended(A.id, run, 100.0 * run, "x")
        found.actions(100.0 * run + 50)
    found.want([PAUSED_A], {})
    assert found.actions(500.0) == []
    assert state(found, "a") is QueryState.FAILED
    resumed = replace(A, resumes=1)
    found.want([resumed], {})
    assert found.actions(501.0) == [StartQuery(resumed, 4)]


def test_a_query_that_works_in_between_never_becomes_failed() -> None:
    found = running(A)
    now = 0.0
    for run in range(1, 20):
        found.started(A.id, run, now)
        found.progressed(A.id, run)
        now += 1
        found.ended(A.id, run, now, "x")
        now = found.due()
        assert found.actions(now) == [StartQuery(A, run + 1)]
    assert found.entries[A.id].restarts == 19


def test_a_resume_ends_the_pause_before_the_next_try() -> None:
    found = running(A)
    found.ended(A.id, 1, 0.0, "x")
    assert found.actions(0.1) == []
    resumed = replace(A, resumes=1)
    found.want([resumed], {})
    assert found.actions(0.2) == [StartQuery(resumed, 2)]


def test_deaths_of_the_jvm_make_pauses_longer_but_never_fail_a_query() -> None:
    found = running(A)
    now, pauses = 0.0, []
    for run in range(1, 12):
        found.ended(A.id, run, now, "the JVM has died", died=True)
        pauses.append(found.due() - now)
        now = found.due()
        assert found.actions(now) == [StartQuery(A, run + 1)]
        found.started(A.id, run + 1, now)
    assert pauses[:5] == [1.0, 2.0, 4.0, 8.0, 8.0]


def test_a_start_that_fails_counts_as_a_failure() -> None:
    found = leading(A)
    assert found.actions(0.0) == [StartQuery(A, 1)]
    found.ended(A.id, 1, 0.0, "no such column")
    assert state(found, "a") is QueryState.RESTARTING
    assert found.entries[A.id].restarts == 1


def test_reports_of_an_earlier_run_change_nothing() -> None:
    found = running(A)
    found.ended(A.id, 1, 0.0, "x")
    found.actions(found.due())
    found.ended(A.id, 1, 5.0, "again")
    found.started(A.id, 1, 5.0)
    found.progressed(A.id, 1)
    assert found.entries[A.id].phase is QueryPhase.STARTING
    assert found.entries[A.id].restarts == 1


# -- what an earlier leader has reported -------------------------------------------------------------------------------


def status(of: QueryDefinition, state: QueryState, **facts: Any) -> dict[str, QueryStatus]:
    return {of.name: replace(QueryStatus(of.name, of.id, state, "http://other"), **facts)}


def test_a_query_that_failed_on_an_earlier_leader_stays_failed_until_it_is_resumed() -> None:
    found = QuerySupervision(RULES)
    found.lead(True)
    found.want([A], status(A, QueryState.FAILED, trace="bad cast", restarts=3))
    assert found.actions(0.0) == []
    assert (state(found, "a"), found.entries[A.id].trace) == (QueryState.FAILED, "bad cast")
    resumed = replace(A, resumes=1)
    found.want([resumed], status(A, QueryState.FAILED))
    assert found.actions(1.0) == [StartQuery(resumed, 1)]
    assert found.entries[A.id].restarts == 3


def test_a_query_that_was_resumed_while_no_server_ran_is_started() -> None:
    found = QuerySupervision(RULES)
    found.lead(True)
    resumed = replace(A, resumes=1)
    found.want([resumed], status(A, QueryState.FAILED, resumes=0))
    assert found.actions(0.0) == [StartQuery(resumed, 1)]


def test_the_status_of_an_earlier_definition_does_not_count() -> None:
    found = QuerySupervision(RULES)
    found.lead(True)
    found.want([A], status(replace(A, id="old"), QueryState.FAILED))
    assert found.actions(0.0) == [StartQuery(A, 1)]


# -- any order of events -----------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["lead", "leave", "want", "pause", "resume", "drop", "other", "start", "end", "die", "gone"]),
        st.sampled_from(["a", "b"]),
    ),
    max_size=60,
)


@given(EVENTS)
def test_in_any_order_of_events_a_query_has_one_run_at_most_and_none_without_leadership(
    events: list[tuple[str, str]],
) -> None:
    found = QuerySupervision(RULES)
    wanted: dict[str, QueryDefinition] = {}
    live: dict[tuple[str, int], bool] = {}
    now = 0.0
    others = 0

    def act(actions: list[Action]) -> None:
        for action in actions:
            name = action.definition.name
            if isinstance(action, StartQuery):
                assert found.leads
                assert not any(other.split("/")[0] == name for other, _ in live), "two runs of one name"
                live[f"{name}/{action.definition.id}", action.run] = True
            elif isinstance(action, StopQuery):
                assert live[f"{name}/{action.definition.id}", action.run]
                live[f"{name}/{action.definition.id}", action.run] = False
            else:
                assert not any(query == f"{name}/{action.definition.id}" for query, _ in live)
                assert action.definition.id not in {one.id for one in wanted.values()}

    for kind, name in events:
        now += 0.7
        runs = [key for key in live if key[0].startswith(f"{name}/")]
        match kind:
            case "lead" | "leave":
                found.lead(kind == "lead")
            case "want":
                wanted.setdefault(name, definition(name))
            case "pause" if name in wanted:
                wanted[name] = replace(wanted[name], wanted=WantedState.PAUSED)
            case "resume" if name in wanted:
                wanted[name] = replace(wanted[name], wanted=WantedState.RUNNING, resumes=wanted[name].resumes + 1)
            case "drop":
                wanted.pop(name, None)
            case "other":
                others += 1
                wanted[name] = definition(name, f"id-{name}-{others}")
            case "start" if runs:
                found.started(runs[0][0].split("/")[1], runs[0][1], now)
            case "end" | "die" if runs:
                del live[runs[0]]
                found.ended(runs[0][0].split("/")[1], runs[0][1], now, "x", died=kind == "die")
            case "gone":
                for query, entry in list(found.entries.items()):
                    if entry.phase is QueryPhase.REMOVING:
                        found.removed(query)
        found.want(list(wanted.values()), {})
        act(found.actions(now))
        if not found.leads:
            assert not any(live.values())
        for query, entry in found.entries.items():
            assert (entry.phase in LIVE) == any(key[0].endswith(f"/{query}") for key in live)
