"""Endpoints below `/connectors`: configurations, states, tasks, topics and offsets of connectors."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.requests import Request

from moldau.connect.herder import Herder, TaskId
from moldau.connect.herder.errors import BadRequestError, NotFoundError, OtherWorkerError
from moldau.connect.rest.bodies import info_body, offsets_body, progress_body, state_body, status_body, task_body
from moldau.connect.rest.dispatch import Reply, RestError, base_url
from moldau.connect.rest.request_bodies import parse_config, parse_create, parse_offsets

MAX_TASK = 2**31 - 1


class ConnectorsResource:
    """Handlers of the endpoints. `topic.tracking.enable=false` and its like answer 403, as in Kafka Connect."""

    def __init__(self, herder: Herder, *, topic_tracking: bool = True, topic_reset: bool = True) -> None:
        self._herder = herder
        self._topic_tracking = topic_tracking
        self._topic_reset = topic_reset

    # -- connectors ---------------------------------------------------------------------------------------------------

    async def list(self, request: Request) -> Reply:
        names = await self._herder.connectors()
        expansions = request.query_params.getlist("expand")
        if not expansions:
            return Reply(body=names)
        body = {}
        for name in names:
            try:
                body[name] = {one: await self._expanded_here(name, one) for one in expansions if one in _EXPANSIONS}
            except NotFoundError:
                continue  # deleted since the list was made
        return Reply(body=body)

    async def _expanded(self, name: str, expansion: str) -> Any:
        if expansion == "status":
            return status_body(await self._herder.status(name))
        if expansion == "info":
            return info_body(await self._herder.connector_info(name))
        progress = await self._herder.progress(name)
        return None if progress is None else progress_body(progress)

    async def _expanded_here(self, name: str, expansion: str) -> Any:
        """As `_expanded`; null for the progress of a connector that another worker runs."""
        try:
            return await self._expanded(name, expansion)
        except OtherWorkerError:
            return None

    async def create(self, request: Request) -> Reply:
        asked = parse_create(await request.body())
        config = _named(asked.config, asked.name)
        info = await self._herder.create(asked.name, config, asked.initial_state)
        return Reply(201, info_body(info), _location(request, asked.name))

    async def info(self, request: Request) -> Reply:
        return Reply(body=info_body(await self._herder.connector_info(_name(request))))

    async def delete(self, request: Request) -> Reply:
        await self._herder.delete(_name(request))
        return Reply(204)

    async def config(self, request: Request) -> Reply:
        return Reply(body=await self._herder.connector_config(_name(request)))

    async def put_config(self, request: Request) -> Reply:
        name = _name(request)
        config = _named(parse_config(await request.body()), name)
        done = await self._herder.put_config(name, config)
        headers = _location(request, name) if done.created else {}
        return Reply(201 if done.created else 200, info_body(done.info), headers)

    async def patch_config(self, request: Request) -> Reply:
        done = await self._herder.patch_config(_name(request), parse_config(await request.body()))
        return Reply(body=info_body(done.info))

    # -- states -------------------------------------------------------------------------------------------------------

    async def status(self, request: Request) -> Reply:
        name = _name(request)
        body = status_body(await self._herder.status(name))
        if "progress" in request.query_params.getlist("expand"):
            body["progress"] = await self._progress(name)
        return Reply(body=body)

    async def _progress(self, name: str) -> Any:
        try:
            return await self._expanded(name, "progress")
        except OtherWorkerError as error:
            if error.url is not None:
                raise
            return None  # no worker runs it at the moment

    async def pause(self, request: Request) -> Reply:
        await self._herder.pause(_name(request))
        return Reply(202)

    async def resume(self, request: Request) -> Reply:
        await self._herder.resume(_name(request))
        return Reply(202)

    async def stop(self, request: Request) -> Reply:
        await self._herder.stop(_name(request))
        return Reply(204)

    async def restart(self, request: Request) -> Reply:
        include_tasks, only_failed = _flag(request, "includeTasks"), _flag(request, "onlyFailed")
        status = await self._herder.restart(_name(request), include_tasks=include_tasks, only_failed=only_failed)
        return Reply(204) if status is None else Reply(202, status_body(status))

    # -- tasks --------------------------------------------------------------------------------------------------------

    async def tasks(self, request: Request) -> Reply:
        return Reply(body=[task_body(task) for task in await self._herder.tasks(_name(request))])

    async def task_status(self, request: Request) -> Reply:
        return Reply(body=state_body(await self._herder.task_status(_task(request))))

    async def restart_task(self, request: Request) -> Reply:
        await self._herder.restart_task(_task(request))
        return Reply(204)

    # -- topics -------------------------------------------------------------------------------------------------------

    async def topics(self, request: Request) -> Reply:
        if not self._topic_tracking:
            raise RestError(403, "Topic tracking is disabled.")
        found = await self._herder.active_topics(_name(request))
        return Reply(body={found.connector: {"topics": list(found.topics)}})

    async def reset_topics(self, request: Request) -> Reply:
        if not self._topic_tracking:
            raise RestError(403, "Topic tracking is disabled.")
        if not self._topic_reset:
            raise RestError(403, "Topic tracking reset is disabled.")
        await self._herder.reset_active_topics(_name(request))
        return Reply(202)

    # -- offsets ------------------------------------------------------------------------------------------------------

    async def offsets(self, request: Request) -> Reply:
        return Reply(body=offsets_body(await self._herder.offsets(_name(request))))

    async def alter_offsets(self, request: Request) -> Reply:
        offsets = parse_offsets(await request.body())
        return Reply(body={"message": await self._herder.alter_offsets(_name(request), offsets)})

    async def reset_offsets(self, request: Request) -> Reply:
        return Reply(body={"message": await self._herder.reset_offsets(_name(request))})


_EXPANSIONS = ("status", "info", "progress")


def _name(request: Request) -> str:
    return str(request.path_params["connector"])


def _task(request: Request) -> TaskId:
    text = str(request.path_params["task"])
    if not text.isascii() or not text.isdecimal() or int(text) > MAX_TASK:
        raise RestError(404)
    return TaskId(_name(request), int(text))


def _flag(request: Request, name: str) -> bool:
    """A query parameter that is true for `true` only, as Java's Boolean."""
    return request.query_params.get(name, "false").lower() == "true"


def _named(config: dict[str, str | None], name: str) -> dict[str, str]:
    """The configuration with the connector's name in it. Raises BadRequestError for another name, and for nulls."""
    included = config.get("name")
    if included is not None and included != name:
        raise BadRequestError(
            f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})"
        )
    nulls = [one for one, text in config.items() if text is None and one != "name"]
    if nulls:
        raise BadRequestError(
            f"Null value can not be supplied as the configuration value: {', '.join(nulls)}. Leave the setting out"
        )
    return {**{one: text for one, text in config.items() if text is not None}, "name": name}


def _location(request: Request, name: str) -> dict[str, str]:
    return {"Location": f"{base_url(request)}/connectors/{quote(name, safe='')}"}
