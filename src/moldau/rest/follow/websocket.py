"""WebSocket: `/topics/TOPIC/socket` sends each record as a message, and takes records to produce.

    const socket = new WebSocket("ws://127.0.0.1:8082/topics/orders/socket");
    socket.onmessage = message => show(JSON.parse(message.data));
    socket.send(JSON.stringify({value: {type: "JSON", data: {id: 1}}}));

The query has the parameters of the server-sent events; `from=none` follows nothing. A message of a record also has the
field `id`, with which `from` continues. Messages to the proxy are records as API v3 produces them. The answer has the
same fields as there, and `"produced": true`, so that it is not taken for a record.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from moldau.client.errors import MoldauError
from moldau.rest.endpoints import path_value, query_value
from moldau.rest.errors import ProxyError, bad_request, rest_error
from moldau.rest.follow.follower import EventFollower, FollowEnded
from moldau.rest.follow.followers import Followers
from moldau.rest.follow.server_sent_events import QUERY, start_of, wanted_of
from moldau.rest.record_sender import RecordSender
from moldau.rest.schema_formats import SchemaFormats
from moldau.rest.sessions import BrokerSession, Sessions
from moldau.service.request_guard import refuse_websocket

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PATH: Final = "/topics/{topic_name}/socket"
WAIT_S: Final = 15.0
SEND_TIMEOUT_S: Final = 30.0
GOING_AWAY, TRY_LATER, POLICY = 1001, 1013, 1008


class TopicSocket:
    """The endpoint."""

    def __init__(self, sessions: Sessions, followers: Followers, schemas: SchemaFormats | None) -> None:
        self._sessions = sessions
        self._followers = followers
        self._schemas = schemas

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection. What is wrong before it is open is answered as HTTP."""
        socket = WebSocket(scope, receive, send)
        try:
            async with contextlib.AsyncExitStack() as opened:
                session = await self._sessions.take(socket.headers.get("authorization"))
                opened.callback(self._sessions.give_back, session)
                topic = path_value("topic_name", socket.path_params["topic_name"])
                query = _query(socket)
                await session.check_partition(topic, None)
                follower = None
                if query["from"] != "none":
                    start = start_of(query, None)
                    following = self._followers.following(session, wanted_of(topic, query), start)
                    follower = await opened.enter_async_context(following)
                await socket.accept()
                await self._serve(socket, session, topic, follower)
        except (ProxyError, MoldauError) as error:
            problem = error if isinstance(error, ProxyError) else rest_error(error, v2=True)
            if socket.application_state is not WebSocketState.CONNECTING:
                return  # it was open
            with contextlib.suppress(RuntimeError, OSError):  # the client is gone
                await receive()
                await refuse_websocket(scope, send, problem.status, problem.body)

    async def _serve(
        self, socket: WebSocket, session: BrokerSession, topic: str, follower: EventFollower | None
    ) -> None:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._produce(socket, session, topic), name="REST proxy: socket")]
        if follower is not None:
            tasks.append(loop.create_task(_send_events(socket, follower), name="REST proxy: socket events"))
        try:
            done, _ = await asyncio.wait(tasks, timeout=self._followers.max_age_s, return_when=asyncio.FIRST_COMPLETED)
            codes = [task.result() for task in done]
            code, reason = codes[0] if codes else (TRY_LATER, "log in again")
            if code:
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                    await socket.close(code, reason)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _produce(self, socket: WebSocket, session: BrokerSession, topic: str) -> tuple[int, str]:
        """Produce what the client sends, in its order, until it is gone."""
        sender: RecordSender | None = None
        while True:
            try:
                text = await socket.receive_text()
            except (WebSocketDisconnect, KeyError, RuntimeError):
                return 0, ""
            if sender is None:
                sender = RecordSender(session, topic, await session.producer(), self._schemas)
            try:
                record: Any = json.loads(text)
            except (ValueError, RecursionError):
                line = json.dumps(bad_request("the message is not JSON").body)
            else:
                line = await sender.answer(await sender.send(record))
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await socket.send_text('{"produced":true,' + line[1:])


async def _send_events(socket: WebSocket, follower: EventFollower) -> tuple[int, str]:
    """Send events until they end or the client is gone. Returns the code and reason to close with."""
    try:
        while True:
            chunk = await follower.next(WAIT_S)
            if chunk is None:
                continue
            async with asyncio.timeout(SEND_TIMEOUT_S):
                for event in chunk.events:
                    await socket.send_text(f'{{"id":"{event.id}",{event.data[1:]}')
    except FollowEnded as ended:
        if ended.error is None:
            return GOING_AWAY, "the proxy stops"
        return (TRY_LATER if ended.error.status in (429, 503) else POLICY), ended.error.message[:120]
    except TimeoutError:
        return TRY_LATER, "nothing was read for a long time"
    except (WebSocketDisconnect, RuntimeError):
        return 0, ""


def _query(socket: WebSocket) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, schema in QUERY.items():
        text = socket.query_params.get(name)
        if text is not None:
            found[name] = text if name == "from" and text == "none" else query_value(name, text, schema)
        elif "default" in schema:
            found[name] = schema["default"]
    return found


def socket_route(sessions: Sessions, followers: Followers, schemas: SchemaFormats | None) -> WebSocketRoute:
    return WebSocketRoute(PATH, TopicSocket(sessions, followers, schemas))
