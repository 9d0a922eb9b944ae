"""Tasks that finish although their caller was cancelled."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from moldau.host.tasks import outcome
from tests.support.waiting import loop_turns


def test_the_caller_gets_the_result_or_the_error() -> None:
    async def scenario() -> None:
        async def well() -> int:
            return 1

        async def badly() -> int:
            raise LookupError

        assert await outcome(asyncio.ensure_future(well())) == 1
        with pytest.raises(LookupError):
            await outcome(asyncio.ensure_future(badly()))

    asyncio.run(scenario())


@pytest.mark.parametrize("fails", [False, True])
def test_work_finishes_although_its_caller_was_cancelled_and_its_error_is_not_logged(fails: bool) -> None:
    complaints: list[dict[str, Any]] = []
    ended: list[bool] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
        gate = asyncio.Event()

        async def work() -> None:
            await gate.wait()
            ended.append(True)
            if fails:
                raise LookupError

        task = asyncio.ensure_future(work())
        waiting = asyncio.ensure_future(outcome(task))
        await loop_turns()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        gate.set()
        await asyncio.wait([task])
        del task
        gc.collect()
        await loop_turns()

    asyncio.run(scenario())
    assert ended == [True]
    assert complaints == []
