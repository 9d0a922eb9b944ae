"""Interception of responses: delays, replaces or drops a handler's response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import Answer, Body, DeferredAnswer, Reply

Then = Callable[[Body, Reply], None]
"""Called with the response's bytes instead of sending them at once."""


class Silence(DeferredAnswer):
    """A response that is never sent."""

    __slots__ = ()

    def start(self, reply: Reply) -> None:
        pass


class Intercepted(DeferredAnswer):
    """A handler's response of any kind, passed to `then` when it is ready."""

    __slots__ = ("_answer", "_request", "_task", "_then", "_timer")

    def __init__(self, request: Request, answer: Answer, then: Then) -> None:
        self._request = request
        self._answer: Answer | None = answer
        self._then = then
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, reply: Reply) -> None:
        answer = self._answer
        if isinstance(answer, DeferredAnswer):
            answer.start(lambda body: self._then(body, reply))
        elif isinstance(answer, Coroutine):
            # As a session does: no further request of the connection begins before this one is done. The task is the
            # handler's own coroutine, which is closed also where it is cancelled before its first step.
            self._request.session.hold()
            self._task = self._request.broker.loop.create_task(answer)
            self._task.add_done_callback(partial(self._worked, reply))
        elif isinstance(answer, Sequence):
            self._then(answer, reply)
        else:
            assert answer is not None
            self._then([_encoded(answer, self._request)], reply)

    def _worked(self, reply: Reply, task: asyncio.Task[Any]) -> None:
        session = self._request.session
        if session.transport is not None:
            session.release()
        if not task.cancelled():
            self._then([_encoded(task.result(), self._request)], reply)

    def abandon(self) -> None:
        if isinstance(self._answer, DeferredAnswer):
            self._answer.abandon()
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def after(self, seconds: float, body: Body, reply: Reply) -> None:
        """For `then`: send the response later, if the client is still connected."""
        self._timer = self._request.broker.loop.call_later(seconds, reply, body)


def _encoded(answer: Any, request: Request) -> bytes:
    encoded: bytes = answer.encode(request.version)
    return encoded
