"""Endpoints about the worker itself: `/`, `/health` and `/admin/loggers`."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from moldau.connect.herder import Herder
from moldau.connect.herder.errors import NotFoundError
from moldau.connect.rest.bodies import logger_body
from moldau.connect.rest.dispatch import Reply
from moldau.connect.rest.request_bodies import parse_level

LEVELS: Final = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")
_HEALTH_STATUS: Final = {"healthy": 200, "starting": 503}


class WorkerResource:
    """Handlers of the endpoints."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    async def root(self, request: Request) -> Reply:
        info = await self._herder.cluster_info()
        return Reply(body={"version": info.version, "commit": info.commit, "kafka_cluster_id": info.kafka_cluster_id})

    async def health(self, request: Request) -> Reply:
        found = await self._herder.health()
        return Reply(_HEALTH_STATUS.get(found.status, 500), {"status": found.status, "message": found.message})

    async def loggers(self, request: Request) -> Reply:
        found = await self._herder.loggers()
        return Reply(body={name: logger_body(level) for name, level in sorted(found.items())})

    async def logger(self, request: Request) -> Reply:
        return Reply(body=logger_body(await self._herder.logger(str(request.path_params["logger"]))))

    async def set_logger(self, request: Request) -> Reply:
        """Another scope than `cluster` means this worker, as in Kafka Connect."""
        name = str(request.path_params["logger"])
        level = parse_level(await request.body())
        if level.upper() not in LEVELS:
            raise NotFoundError(f"invalid log level '{level}'.")
        if request.query_params.get("scope", "worker").lower() == "cluster":
            await self._herder.set_cluster_logger(name, level.upper())
            return Reply(204)
        return Reply(body=sorted(await self._herder.set_logger(name, level.upper())))
