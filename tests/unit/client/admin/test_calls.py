"""Admin calls for many items: each gets a final answer from the right broker, in few requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from moldau.client.admin.calls import MAX_THINGS_IN_A_REQUEST, Brokers, Target, _Asking
from moldau.client.admin.outcome import Answers, SomeFailed, listed, settled
from moldau.client.errors import (
    BrokerUnavailable,
    ErrorCode,
    MoldauError,
    NotCoordinator,
    TimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedByBroker,
    error_for,
)
from moldau.client.network import Network
from tests.support.waiting import loop_turns

MAX_ATTEMPTS = 5


class Scripted:
    """A network with scripted answers: one answer per attempt for each node and item; the last one is repeated. A
    `Lost` among the answers loses the whole request."""

    def __init__(self, script: dict[tuple[int, str], list[object]]) -> None:
        self.script = script
        self.requests: list[tuple[int, list[str]]] = []

    async def call(self, node: int, request: Any, **_options: object) -> dict[str, object]:
        await loop_turns()
        things: list[str] = request
        self.requests.append((node, things))
        answers = {}
        for thing in things:
            waiting = self.script.get((node, thing), [f"{thing} by {node}"])
            answers[thing] = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        for answer in answers.values():
            if isinstance(answer, Lost):
                raise answer.error
        return answers

    async def retrying(self, attempt: Callable[[], Awaitable[Any]], *, deadline: float, what: str) -> Any:
        for _ in range(MAX_ATTEMPTS):
            try:
                return await attempt()
            except MoldauError as error:
                if not error.retriable:
                    raise
                last = error
        raise TimedOut(f"{what}: too late") from last


class Lost:
    """The answer of a request that is lost."""

    def __init__(self, error: MoldauError) -> None:
        self.error = error


class Route(Brokers[str]):
    """A route for items whose names begin with the number of their broker."""

    def __init__(self) -> None:
        super().__init__(lambda thing: int(thing[0]))
        self.failures: list[tuple[str, str]] = []

    async def targets(self, things: Sequence[str], deadline: float) -> Answers[str, Target]:
        unknown: Answers[str, Target] = {
            thing: error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, thing) for thing in things if thing[0] == "?"
        }
        return unknown | await super().targets([thing for thing in things if thing not in unknown], deadline)

    def failed(self, thing: str, error: MoldauError) -> None:
        self.failures.append((thing, type(error).__name__))


async def answers_to(network: Scripted, things: list[str], route: Route | None = None) -> Answers[str, Any]:
    asking: _Asking[str, Any] = _Asking(
        cast(Network, network),
        things,
        route or Route(),
        cast(Any, lambda some: some),
        lambda response, _some: response,
        asyncio.get_running_loop().time() + 60,
        "asking about",
        0,
        None,
    )
    return await asking.answers()


def ask(network: Scripted, things: list[str], route: Route | None = None) -> Answers[str, Any]:
    return asyncio.run(answers_to(network, things, route))


def refusal(code: ErrorCode) -> MoldauError:
    return error_for(code, "asking")


def test_items_of_one_broker_share_a_request_and_results_keep_the_order_of_the_items() -> None:
    network = Scripted({})
    answers = ask(network, ["1b", "2a", "1a"])
    assert list(answers.items()) == [("1b", "1b by 1"), ("2a", "2a by 2"), ("1a", "1a by 1")]
    assert sorted(network.requests) == [(1, ["1b", "1a"]), (2, ["2a"])]


def test_a_request_is_not_larger_than_its_bound() -> None:
    network = Scripted({})
    ask(network, [f"1-{number}" for number in range(2 * MAX_THINGS_IN_A_REQUEST + 1)])
    assert [len(things) for _, things in network.requests] == [MAX_THINGS_IN_A_REQUEST, MAX_THINGS_IN_A_REQUEST, 1]


def test_only_retriable_errors_are_retried() -> None:
    network = Scripted({(1, "1a"): [refusal(ErrorCode.NOT_COORDINATOR), "at last"]})
    route = Route()
    assert ask(network, ["1a", "1b"], route) == {"1a": "at last", "1b": "1b by 1"}
    assert network.requests == [(1, ["1a", "1b"]), (1, ["1a"])]
    assert route.failures == [("1a", "NotCoordinator")]


def test_an_unknown_topic_is_a_final_answer() -> None:
    network = Scripted({(1, "1a"): [refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]})
    answers = ask(network, ["1a", "?"])
    assert isinstance(answers["1a"], UnknownTopicOrPartition)
    assert isinstance(answers["?"], UnknownTopicOrPartition)
    assert len(network.requests) == 1


def test_a_lost_connection_is_retried_and_a_later_refusal_is_marked_as_uncertain() -> None:
    lost = Lost(BrokerUnavailable("the connection was lost"))
    network = Scripted({(1, "1a"): [lost, refusal(ErrorCode.TOPIC_ALREADY_EXISTS)]})
    answers = ask(network, ["1a", "1b"])
    assert isinstance(answers["1a"], TopicAlreadyExists)
    assert any("may have succeeded" in note for note in answers["1a"].__notes__)
    assert answers["1b"] == "1b by 1"


def test_an_unsupported_request_is_sent_once() -> None:
    network = Scripted({(1, "1a"): [Lost(UnsupportedByBroker("too old"))]})
    answers = ask(network, ["1a", "2a"])
    assert isinstance(answers["1a"], UnsupportedByBroker)
    assert answers["2a"] == "2a by 2"
    assert len(network.requests) == 2


def test_items_without_an_answer_in_time_are_reported_beside_the_others() -> None:
    network = Scripted({(1, "1a"): [refusal(ErrorCode.NOT_COORDINATOR)]})
    answers = ask(network, ["1a", "2a"])
    assert isinstance(answers["1a"], TimedOut)
    assert isinstance(answers["1a"].__cause__, NotCoordinator)
    assert answers["2a"] == "2a by 2"


def test_if_no_item_was_answered_there_is_one_error() -> None:
    network = Scripted(
        {(1, "1a"): [refusal(ErrorCode.NOT_COORDINATOR)], (1, "1b"): [refusal(ErrorCode.NOT_COORDINATOR)]}
    )
    with pytest.raises(TimedOut):
        ask(network, ["1a", "1b"])


def test_an_item_missing_in_the_answer_is_an_error() -> None:
    class Forgetful(Scripted):
        async def call(self, node: int, request: Any, **options: object) -> dict[str, object]:
            answers = await super().call(node, request, **options)
            answers.pop("1b", None)
            return answers

    answers = ask(Forgetful({}), ["1a", "1b"])
    assert answers["1a"] == "1a by 1"
    assert "missing in the response" in str(answers["1b"])


@pytest.mark.parametrize("steps", range(8))
def test_a_call_that_is_cancelled_leaves_nothing_running(steps: int) -> None:
    async def run() -> None:
        call = asyncio.ensure_future(answers_to(Scripted({}), [f"{node}a" for node in range(1, 5)]))
        await loop_turns(steps)
        call.cancel()
        await asyncio.wait([call])
        await loop_turns(2)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_an_empty_call_sends_no_request() -> None:
    network = Scripted({})
    assert ask(network, []) == {}
    assert network.requests == []


# Results of calls -----------------------------------------------------------------------------------------------------


def test_results_are_returned_if_all_items_succeed() -> None:
    assert settled({"a": 1, "b": None}) == {"a": 1, "b": None}


def test_the_error_of_a_single_item_is_raised_itself() -> None:
    with pytest.raises(TopicAlreadyExists):
        settled({"a": refusal(ErrorCode.TOPIC_ALREADY_EXISTS)})


def test_the_error_of_several_items_lists_failures_and_successes() -> None:
    error = refusal(ErrorCode.TOPIC_ALREADY_EXISTS)
    with pytest.raises(SomeFailed, match=r"4 of 5 failed: .* and 1 more") as raised:
        settled({"a": error, "b": 5, "c": error, "d": error, "e": error})
    assert raised.value.errors == dict.fromkeys("acde", error)
    assert raised.value.results == {"b": 5}


def test_a_string_is_one_item_and_duplicates_are_removed() -> None:
    assert listed("orders") == ["orders"]
    assert listed(["b", "a", "b"]) == ["b", "a"]
    assert listed(3, int) == [3]
