"""Simulated loop: virtual time, a fixed order, and processes that can be paused or ended at any point.

All sleeps are in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.testing.simulation.loop import BEGINNING_S, SimulatedLoop, Stuck
from moldau.testing.simulation.machine import Machine


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop()
    yield loop
    loop.close()


def test_an_hour_takes_no_time(loop: SimulatedLoop) -> None:
    async def sleeper() -> float:
        await asyncio.sleep(3600)
        return loop.time()

    assert loop.run_until_complete(sleeper()) == pytest.approx(BEGINNING_S + 3600, abs=0.001)
    assert loop.turns < 10


def test_timers_of_one_moment_run_in_the_order_in_which_they_were_set(loop: SimulatedLoop) -> None:
    ran: list[int] = []
    at = loop.time() + 1
    for number in range(100):
        loop.call_at(at, ran.append, number)

    async def wait() -> None:
        await asyncio.sleep(2)

    loop.run_until_complete(wait())
    assert ran == list(range(100))


def test_every_turn_takes_time_so_that_a_wait_which_rounds_to_nothing_ends(loop: SimulatedLoop) -> None:
    async def waits_for_ever_in_one_instant() -> int:
        deadline, turns = loop.time() + 1e-12, 0
        while loop.time() < deadline:
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert loop.run_until_complete(waits_for_ever_in_one_instant()) <= 1


def test_a_loop_without_any_further_event_raises(loop: SimulatedLoop) -> None:
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())


def test_task_groups_and_timeouts_work_as_they_do_elsewhere(loop: SimulatedLoop) -> None:
    async def scenario() -> list[str]:
        done: list[str] = []

        async def work(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            done.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(work("late", 2))
            group.create_task(work("early", 1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await work("never", 5)
        return done

    assert loop.run_until_complete(scenario()) == ["early", "late"]


def test_there_are_no_threads(loop: SimulatedLoop) -> None:
    with pytest.raises(RuntimeError, match="no threads"):
        loop.run_in_executor(None, print)


def ticking(loop: SimulatedLoop) -> tuple[list[float], Any]:
    """A process that notes the time once a second."""
    machine = Machine("a", "10.0.0.1", loop, 1)
    process = machine.begin("a.1")
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(round(loop.time() - BEGINNING_S, 3))

    process.run(tick())
    return ticks, process


def test_a_paused_process_stands_still_and_continues_late(loop: SimulatedLoop) -> None:
    ticks, process = ticking(loop)

    async def scenario() -> None:
        await asyncio.sleep(2.5)
        process.hold()
        await asyncio.sleep(5)
        process.release()
        await asyncio.sleep(2)

    loop.run_until_complete(scenario())
    assert ticks == [1.0, 2.0, 7.5, 8.5]
    process.end()
    process.bury()


def test_an_ended_process_never_runs_again_and_reports_no_error(loop: SimulatedLoop) -> None:
    ticks, process = ticking(loop)
    reported: list[str] = []
    loop.set_exception_handler(lambda _loop, context: reported.append(context["message"]))

    async def scenario() -> None:
        await asyncio.sleep(2.5)
        process.end()
        await asyncio.sleep(5)

    loop.run_until_complete(scenario())
    assert ticks == [1.0, 2.0]
    process.bury()
    assert reported == []
