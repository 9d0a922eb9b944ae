"""Endpoints of the REST API. A server that does not lead forwards requests to the one that does.

| request | answer |
|---|---|
| POST /statements `{"sql": …, "settings": {…}}` | the result of each statement |
| POST /query `{"sql": …}` | one SELECT or PRINT, as lines of JSON |
| GET /queries, /queries/NAME | continuous queries with their status |
| POST /queries/NAME/pause, /queries/NAME/resume | |
| DELETE /queries/NAME | terminates the query |
| GET /declarations | streams and tables |
| GET /health, /metrics | of this server itself |
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from moldau.host.threads import Threads
from moldau.service.app import HEALTH_PATH
from moldau.service.errors import HttpError
from moldau.service.forwarding import Forwarder
from moldau.service.request_guard import TIME_LIMIT
from moldau.sql.catalogue import Catalogue
from moldau.sql.errors import SqlError
from moldau.sql.parser import parse
from moldau.sql.queries import QueryDefinition, QueryStatus, WantedState
from moldau.sql.results import Result
from moldau.sql.server.query_manager import QueryManager
from moldau.sql.server.rest.errors import statement_error_body
from moldau.sql.server.rest.row_stream import RowStream
from moldau.sql.server.server_group import ServerGroup
from moldau.sql.server.server_settings import ServerSettings
from moldau.sql.server.statement_runner import RETRY_AFTER, StatementRunner
from moldau.sql.statements import PrintStatement, SelectStatement, Statement

CATALOGUE_LANE: Final = "catalogue"
LINES: Final = "application/x-ndjson"

Endpoint = Callable[[Request], Awaitable[Response]]


class RestContext:
    """What the endpoints use. The server begins before it leads or knows who does."""

    def __init__(
        self,
        settings: ServerSettings,
        runner: StatementRunner,
        forwarder: Forwarder,
        catalogue: Catalogue,
        threads: Threads,
    ) -> None:
        self.runner = runner
        self.forwarder = forwarder
        self.catalogue = catalogue
        self._threads = threads
        self._max_streams: int = settings.values["moldau.sql.max.streams"]
        self._manager: QueryManager | None = None
        self._leadership: ServerGroup | None = None
        self._streams: set[RowStream] = set()
        self._closing = False

    def begin(self, manager: QueryManager, leadership: ServerGroup) -> None:
        self._manager, self._leadership = manager, leadership

    def closing(self) -> None:
        """The server stops: end what has no end of its own."""
        self._closing = True
        for stream in list(self._streams):
            stream.stop()

    @property
    def leads(self) -> bool:
        return self._manager is not None and self._manager.leading

    def elsewhere(self) -> str:
        """The URL of the server that runs the queries. HttpError 503: it is not known, or this one has just begun."""
        url = None if self._leadership is None or self._leadership.leads else self._leadership.leader_url
        if url is None or self._closing:
            raise HttpError(503, "no server of this group runs the queries yet; try again in a moment", RETRY_AFTER)
        return url

    def health(self) -> dict[str, Any]:
        """What GET /health shows."""
        problem = self.catalogue.failure
        if self._leadership is not None and self._leadership.failure is not None:
            problem = self._leadership.failure
        role = "starting"
        if self._leadership is not None and self._leadership.joined:
            role = "leader" if self.leads else "starting" if self._leadership.leads else "standby"
        counts: dict[str, int] = {}
        for status in self.statuses():
            counts[status.state] = counts.get(status.state, 0) + 1
        return {
            "status": "healthy" if problem is None else "unhealthy",
            "role": role,
            "leader": None if self._leadership is None else self._leadership.leader_url,
            "queries": counts,
            **({} if problem is None else {"message": str(problem)}),
        }

    def statuses(self) -> list[QueryStatus]:
        return [] if self._manager is None else self._manager.statuses()

    async def in_catalogue(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await self._threads.run(CATALOGUE_LANE, call, *arguments)

    def stream(self, statement: Statement, settings: Mapping[str, str]) -> RowStream:
        """Begin to answer a query row by row. HttpError 429: too many run."""
        if len(self._streams) >= self._max_streams:
            raise HttpError(
                429, f"{len(self._streams)} queries are read already; the limit is moldau.sql.max.streams", RETRY_AFTER
            )
        runner = self.runner
        group = f"rows-{id(statement):x}"

        @contextmanager
        def open_result() -> Iterator[Result]:
            with runner.session(settings, group) as session:
                yield runner.execute(session, statement)

        stream = RowStream(open_result, runner.max_rows, lambda: self._streams.discard(stream))
        self._streams.add(stream)
        stream.start()
        return stream


def routes(context: RestContext) -> list[Route]:
    """All endpoints."""

    async def post_statements(request: Request) -> Response:
        text, settings = await _sql_of(request)
        return JSONResponse({"statements": await context.runner.run(text, settings)})

    async def post_query(request: Request) -> Response:
        text, settings = await _sql_of(request)
        statement = _one_query(text)
        request.scope[TIME_LIMIT].reschedule(None)
        stream = context.stream(statement, settings)
        try:
            await stream.began()
        except BaseException:
            stream.stop()
            raise
        return StreamingResponse(stream.lines(), media_type=LINES)

    async def get_queries(_: Request) -> Response:
        await context.in_catalogue(context.catalogue.refresh)
        now = {status.id: status for status in context.statuses()}
        found = context.catalogue.queries.values()
        return JSONResponse([_query_json(one, now.get(one.id)) for one in sorted(found, key=lambda one: one.name)])

    async def get_query(request: Request) -> Response:
        found = await _found(request)
        now = {status.id: status for status in context.statuses()}
        return JSONResponse(_query_json(found, now.get(found.id)))

    async def _found(request: Request) -> QueryDefinition:
        await context.in_catalogue(context.catalogue.refresh)
        name = request.path_params["name"]
        found = context.catalogue.queries.get(name)
        if found is None:
            raise HttpError(404, f"there is no query {name}")
        return found

    def want(wanted: WantedState) -> Endpoint:
        async def change_query(request: Request) -> Response:
            found = await _found(request)
            await context.in_catalogue(context.catalogue.want, found.name, wanted)
            return JSONResponse({"name": found.name, "wanted": wanted}, 202)

        return change_query

    async def delete_query(request: Request) -> Response:
        found = await _found(request)
        await context.in_catalogue(context.catalogue.remove_query, found.name)
        return JSONResponse({"name": found.name}, 202)

    async def get_declarations(_: Request) -> Response:
        await context.in_catalogue(context.catalogue.refresh)
        found = context.catalogue.declarations.values()
        return JSONResponse([one.to_json() for one in sorted(found, key=lambda one: one.name)])

    async def get_health(_: Request) -> Response:
        found = context.health()
        return JSONResponse(found, 200 if found["status"] == "healthy" else 503)

    table: list[tuple[str, str, Endpoint, bool]] = [
        ("POST", "/statements", post_statements, False),
        ("POST", "/query", post_query, True),
        ("GET", "/queries", get_queries, False),
        ("GET", "/queries/{name}", get_query, False),
        ("POST", "/queries/{name}/pause", want(WantedState.PAUSED), False),
        ("POST", "/queries/{name}/resume", want(WantedState.RUNNING), False),
        ("DELETE", "/queries/{name}", delete_query, False),
        ("GET", "/declarations", get_declarations, False),
    ]
    led = [Route(path, _led(context, endpoint, endless), methods=[method]) for method, path, endpoint, endless in table]
    return [Route(HEALTH_PATH, get_health, methods=["GET"]), *led]


def _led(context: RestContext, endpoint: Endpoint, endless: bool) -> Endpoint:
    """The endpoint at the leader; anywhere else the request is forwarded to it."""

    async def answer(request: Request) -> Response:
        try:
            if context.leads:
                return await endpoint(request)
            url = context.elsewhere()
            if not endless:
                return await context.forwarder.forward(request, url)
            request.scope[TIME_LIMIT].reschedule(None)
            return await context.forwarder.forward_stream(request, url)
        except SqlError as error:
            return JSONResponse(statement_error_body(error), 400)

    answer.__name__ = endpoint.__name__  # by which metrics count requests
    return answer


async def _sql_of(request: Request) -> tuple[str, dict[str, str]]:
    """The text and the settings of a request's body."""
    try:
        body = json.loads(await request.body())
    except ValueError:
        raise HttpError(400, 'the body is not JSON; it must be {"sql": "…", "settings": {…}}') from None
    text = body.get("sql") if isinstance(body, dict) else None
    if not isinstance(text, str):
        raise HttpError(400, 'the body has no text "sql"; it must be {"sql": "…", "settings": {…}}')
    unknown = sorted(body.keys() - {"sql", "settings"})
    if unknown:
        raise HttpError(400, f'the body has an unknown field "{unknown[0]}"; it may have sql and settings')
    settings = body.get("settings") or {}
    if not isinstance(settings, dict) or not all(isinstance(value, str) for value in settings.values()):
        raise HttpError(400, '"settings" must be an object whose values are texts')
    return text, settings


def _one_query(text: str) -> Statement:
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], (SelectStatement, PrintStatement)):
        raise SqlError("POST /query takes one SELECT or PRINT", hint="send other statements to POST /statements")
    return statements[0]


def _query_json(definition: QueryDefinition, status: QueryStatus | None) -> dict[str, Any]:
    return {
        "name": definition.name,
        "id": definition.id,
        "sql": definition.text,
        "target": definition.target.name,
        "topic": definition.target.topic,
        "sources": [source.name for source in definition.sources],
        "wanted": definition.wanted,
        "created_ms": definition.created_ms,
        "status": None if status is None else status.to_json(),
    }
