"""Thread pool: bounded, fair between lanes, and errors reach the caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from moldau.host.threads import Threads, ThreadsBusy, ThreadsClosed
from tests.support.waiting import loop_turns


def run(scenario: Callable[[], object]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), timeout=10))  # type: ignore[arg-type]


def test_a_job_returns_its_result_or_raises_its_error() -> None:
    async def scenario() -> None:
        threads = Threads(threads=2)
        assert await threads.run("a", lambda x: x + 1, 41) == 42
        with pytest.raises(ZeroDivisionError):
            await threads.run("a", lambda: 1 / 0)
        # a coroutine cannot raise StopIteration; the caller must not hang
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run("a", next, iter(()))
        await threads.close()

    run(scenario)


def test_a_lane_never_takes_more_than_its_share_of_threads() -> None:
    async def scenario() -> None:
        threads = Threads(threads=4, per_lane=2)
        gate = threading.Event()
        slow = [asyncio.ensure_future(threads.run("slow", gate.wait, 10)) for _ in range(6)]
        await loop_turns()
        assert (threads.running, threads.waiting) == (2, 4)
        assert await threads.run("other", lambda: "served") == "served"
        gate.set()
        await asyncio.gather(*slow)
        await threads.close()

    run(scenario)


def test_lanes_take_turns() -> None:
    async def scenario() -> None:
        threads = Threads(threads=1, per_lane=1)
        gate = threading.Event()
        order: list[str] = []
        first = asyncio.ensure_future(threads.run("first", gate.wait, 10))
        await loop_turns()
        jobs = [
            asyncio.ensure_future(threads.run(name[0], order.append, name))
            for name in ("a1", "a2", "a3", "b1", "b2", "c1")
        ]
        await loop_turns()
        gate.set()
        await asyncio.gather(first, *jobs)
        assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]
        await threads.close()

    run(scenario)


def test_a_job_cancelled_while_it_waits_never_runs() -> None:
    async def scenario() -> None:
        threads = Threads(threads=1)
        gate = threading.Event()
        ran: list[int] = []
        first = asyncio.ensure_future(threads.run("a", gate.wait, 10))
        await loop_turns()
        waiting = [asyncio.ensure_future(threads.run("a", ran.append, n)) for n in range(3)]
        await loop_turns()
        waiting[0].cancel()
        waiting[1].cancel()
        gate.set()
        await first
        await waiting[2]
        assert ran == [2]
        await threads.close()

    run(scenario)


def test_a_job_cancelled_while_it_runs_keeps_its_slot_until_it_ends() -> None:
    async def scenario() -> None:
        threads = Threads(threads=1)
        started, gate = threading.Event(), threading.Event()

        def work() -> None:
            started.set()
            gate.wait(10)

        job = asyncio.ensure_future(threads.run("a", work))
        await loop_turns()
        started.wait(10)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert threads.running == 1
        gate.set()
        await threads.close()
        assert threads.running == 0

    run(scenario)


def test_more_waiting_jobs_than_the_bound_are_refused() -> None:
    async def scenario() -> None:
        threads = Threads(threads=1, max_waiting=1)
        gate = threading.Event()
        jobs = [asyncio.ensure_future(threads.run("a", gate.wait, 10)) for _ in range(2)]
        await loop_turns()
        with pytest.raises(ThreadsBusy):
            await threads.run("a", print)
        gate.set()
        await asyncio.gather(*jobs)
        await threads.close()

    run(scenario)


def test_a_closed_pool_has_finished_accepted_jobs_and_refuses_others() -> None:
    async def scenario() -> None:
        threads = Threads(threads=2)
        done: list[int] = []
        jobs = [asyncio.ensure_future(threads.run("a", done.append, n)) for n in range(5)]
        await loop_turns()
        await threads.close()
        assert sorted(done) == [0, 1, 2, 3, 4]
        with pytest.raises(ThreadsClosed):
            await threads.run("a", print)
        await asyncio.gather(*jobs)

    run(scenario)
