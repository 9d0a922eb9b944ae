"""Server-sent events: `GET /topics/TOPIC/events`, which a web page follows with an EventSource.

    const events = new EventSource("/topics/orders/events");
    events.onmessage = event => show(JSON.parse(event.data));

The browser sends the id of the last event when it connects again, and continues there. What ends a stream is an event
`error`. A comment every 15 s shows that the connection works.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any, Final

from moldau.host.clock import SystemClock
from moldau.rest.endpoints import INT32, INT64, ProxyCall, ProxyEndpoint, one_of
from moldau.rest.follow.events import Positions, parse_positions
from moldau.rest.follow.feed import FollowWanted
from moldau.rest.follow.follower import EventFollower, FollowEnded
from moldau.rest.follow.followers import Followers
from moldau.rest.record_formats import RecordFormat
from moldau.rest.streamed_response import StreamedResponse
from moldau.service.request_guard import TIME_LIMIT

TAG = "Follow a topic"
EVENT_STREAM: Final = "text/event-stream"
KEEP_ALIVE_S: Final = 15.0
CLOCK: Final = SystemClock()

FORMATS: Final = one_of(*(one.lower() for one in RecordFormat))
QUERY: Final[dict[str, Any]] = {
    "from": {
        "type": "string",
        "default": "latest",
        "pattern": r"^(latest|earliest|[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*)$",
        "description": "`latest`, `earliest`, or the id of an event such as `0:17,1:4`.",
    },
    "partition": {**INT32, "description": "Only this partition."},
    "format": {**FORMATS, "default": "auto", "description": "The format of values. `auto`: JSON, or text, or base64."},
    "key_format": {**FORMATS, "default": "auto", "description": "The format of keys."},
    "limit": {**INT64, "minimum": 1, "description": "End after so many records."},
}


def wanted_of(topic: str, query: dict[str, Any]) -> FollowWanted:
    key, value = RecordFormat(query["key_format"].upper()), RecordFormat(query["format"].upper())
    return FollowWanted(topic, query.get("partition"), key, value)


def start_of(query: dict[str, Any], last_event_id: str | None) -> Positions | str:
    """Where to begin: the id of the last event is stronger than the query, which the browser repeats."""
    text: str = last_event_id or query["from"]
    return text if text in ("latest", "earliest") else parse_positions(text)


class ServerSentEvents:
    """The endpoint."""

    def __init__(self, followers: Followers) -> None:
        self._followers = followers

    async def follow_topic(self, call: ProxyCall) -> Any:
        query = dict(call.query)
        wanted = wanted_of(call.path["topic_name"], query)
        start = start_of(query, call.request.headers.get("last-event-id"))
        async with AsyncExitStack() as opened:
            follower = await opened.enter_async_context(self._followers.following(call.session, wanted, start))
            call.request.scope[TIME_LIMIT].reschedule(None)
            stream = self._events(follower, query.get("limit"), opened.pop_all())
            await anext(stream)  # from here the generator closes the follower
        return StreamedResponse(stream, EVENT_STREAM, {"X-Accel-Buffering": "no"}, watch=True)

    async def _events(
        self, follower: EventFollower, limit: int | None, opened: AsyncExitStack
    ) -> AsyncGenerator[bytes]:
        left = limit
        max_age_s = self._followers.max_age_s
        until = None if max_age_s is None else CLOCK.monotonic() + max_age_s
        async with opened:
            yield b""  # taken by `follow_topic`
            yield b"retry: 1000\n: following\n\n"
            try:
                while left != 0 and (until is None or CLOCK.monotonic() < until):
                    wait_s = KEEP_ALIVE_S if until is None else min(KEEP_ALIVE_S, until - CLOCK.monotonic())
                    chunk = await follower.next(wait_s)
                    if chunk is None:
                        yield b": keep-alive\n\n"
                        continue
                    if left is not None:
                        chunk = type(chunk)(chunk.events[:left])
                        left -= len(chunk.events)
                    yield chunk.sse
            except FollowEnded as ended:
                if ended.error is not None:
                    yield f"event: error\ndata: {json.dumps(ended.error.body)}\n\n".encode()

    def endpoints(self) -> tuple[ProxyEndpoint, ...]:
        return (
            ProxyEndpoint(
                "GET",
                "/topics/{topic_name}/events",
                self.follow_topic,
                "Follow a topic by server-sent events",
                TAG,
                query=QUERY,
                answers={200: "An event for each record; it does not end by itself."},
                answer_types=(EVENT_STREAM,),
            ),
        )
