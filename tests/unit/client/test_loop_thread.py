"""Loop thread of blocking clients: shared by all of them, and ended with the last one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

from moldau.client.errors import ClosedError, IllegalStateError
from moldau.client.loop_thread import LoopThread
from tests.support.waiting import loop_turns, wait_until_async

TIMEOUT_S = 60.0


@pytest.fixture(autouse=True)
def _no_other_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that another test has not closed keep their own thread, and do not count here."""
    monkeypatch.setattr(LoopThread, "_current", None)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "moldau-clients"]


async def double(value: int) -> int:
    await loop_turns()
    return 2 * value


def test_the_first_client_starts_the_thread_and_the_last_one_ends_it() -> None:
    first = LoopThread.acquire()
    second = LoopThread.acquire()
    assert first is second and first._thread in threads()
    first.release()
    assert second.run(double(21)) == 42
    second.release()
    assert first._thread not in threads()


def test_the_thread_can_be_started_again_after_its_end() -> None:
    LoopThread.acquire().release()
    again = LoopThread.acquire()
    assert again.run(double(1)) == 2
    assert again.call(sum, [1, 2]) == 3
    again.release()


def test_an_error_in_the_loop_is_raised_in_the_callers_thread() -> None:
    async def fail() -> None:
        raise LookupError("there")

    loop = LoopThread.acquire()
    with pytest.raises(LookupError, match="there"):
        loop.run(fail())
    loop.release()


def test_after_its_end_the_thread_refuses_work() -> None:
    loop = LoopThread.acquire()
    loop.release()
    with pytest.raises(ClosedError):
        loop.run(double(1))


def test_a_blocking_call_from_the_loop_itself_is_an_error_and_no_deadlock() -> None:
    loop = LoopThread.acquire()
    with pytest.raises(IllegalStateError, match="would wait for itself forever"):
        loop.call(lambda: loop.run(double(1)))
    loop.release()


def test_running_tasks_are_cancelled_at_the_end() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def linger() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)  # until it is cancelled
        except asyncio.CancelledError:
            cancelled.set()
            raise

    loop = LoopThread.acquire()
    future = loop.submit(linger())
    assert begun.wait(TIMEOUT_S)
    loop.release()
    assert cancelled.is_set() and future.cancelled()


class InterruptedHandover:
    """An event loop whose caller is interrupted (Ctrl-C) just after it has handed its first callback over."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._interrupted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_soon_threadsafe(self, *arguments: Any) -> Any:
        handle = self._loop.call_soon_threadsafe(*arguments)
        if not self._interrupted:
            self._interrupted = True
            raise KeyboardInterrupt
        return handle


def test_a_call_that_is_interrupted_while_it_starts_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    async def linger() -> None:
        await asyncio.sleep(3600)  # until it is cancelled

    loop = LoopThread.acquire()
    try:
        monkeypatch.setattr(loop, "loop", InterruptedHandover(loop.loop))
        with pytest.raises(KeyboardInterrupt):
            loop.run(linger())
        monkeypatch.undo()

        async def wait_for_no_other_task() -> None:
            await wait_until_async(lambda: len(asyncio.all_tasks()) == 1, "the task of `linger` has ended")

        loop.submit(wait_for_no_other_task()).add_done_callback(lambda _: ended.set())
        assert ended.wait(TIMEOUT_S)
    finally:
        loop.release()


SCRIPTS = {
    "an interrupted call is cancelled in the loop": """
        import asyncio, os, signal, threading
        from moldau.client.loop_thread import LoopThread
        begun, cancelled = threading.Event(), threading.Event()
        async def linger():
            begun.set()
            try:
                await asyncio.sleep(3600)  # until it is cancelled
            finally:
                cancelled.set()
        loop = LoopThread.acquire()
        def interrupt():
            begun.wait()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            loop.run(linger())
        except KeyboardInterrupt:
            assert cancelled.wait(60)
            loop.release()
            print("done")
    """,
    "a forked child starts a loop of its own": """
        import asyncio, os
        from moldau.client.loop_thread import LoopThread
        async def double(value):
            await asyncio.sleep(0)
            return 2 * value
        loop = LoopThread.acquire()
        child = os.fork()
        if child == 0:
            mine = LoopThread.acquire()
            os._exit(mine.run(double(21)) if mine is not loop else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
        assert loop.run(double(1)) == 2
        loop.release()
        print("done")
    """,
    "a program that forgets to close its clients still ends": """
        from moldau.client.loop_thread import LoopThread
        LoopThread.acquire()
        print("done")
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=[name.replace(" ", "-") for name in SCRIPTS])
def test_a_script_with_clients_ends_cleanly(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.stdout == "done\n", done.stderr
    assert done.returncode == 0
