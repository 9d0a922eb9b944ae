"""A handler's answer on its way to the client, taken out of its hands: held back, exchanged, or thrown away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from moldau.broker.registry import Answer, Body, Later, Message, Reply
from moldau.broker.session import Request

Then = Callable[[Body, Reply], None]
"""What is done with the answer's bytes instead of sending them at once."""


class Silence(Later):
    """An answer that never comes."""

    __slots__ = ()

    def start(self, reply: Reply) -> None:
        pass


class Intercepted(Later):
    """The handler's own answer, whatever its kind, given to `then` when it is there."""

    __slots__ = ("_answer", "_request", "_task", "_then", "_timer")

    def __init__(self, request: Request, answer: Answer, then: Then) -> None:
        self._request = request
        self._answer: Answer | None = answer
        self._then = then
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, reply: Reply) -> None:
        answer = self._answer
        if isinstance(answer, Later):
            answer.start(lambda body: self._then(body, reply))
        elif isinstance(answer, Coroutine):
            self._task = self._request.broker.loop.create_task(self._await(answer, reply))
        elif isinstance(answer, Sequence):
            self._then(answer, reply)
        else:
            assert answer is not None
            self._then([_encoded(answer, self._request)], reply)

    async def _await(self, work: Coroutine[Any, Any, Message], reply: Reply) -> None:
        """As a session does: no further request of the connection begins before this one is done."""
        session = self._request.session
        session.hold()
        try:
            message = await work
        finally:
            if session.transport is not None:
                session.release()
        self._then([_encoded(message, self._request)], reply)

    def abandon(self) -> None:
        if isinstance(self._answer, Later):
            self._answer.abandon()
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def after(self, seconds: float, body: Body, reply: Reply) -> None:
        """For `then`: sends it later, if the client is still there."""
        self._timer = self._request.broker.loop.call_later(seconds, reply, body)


def _encoded(answer: Any, request: Request) -> bytes:
    encoded: bytes = answer.encode(request.version)
    return encoded
