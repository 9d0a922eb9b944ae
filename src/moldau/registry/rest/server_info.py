"""Endpoints about the registry itself: `/` and `/v1/metadata`."""

from __future__ import annotations

from dataclasses import dataclass

from moldau import __version__
from moldau.registry.rest.body_schemas import ANY_OBJECT, reference
from moldau.registry.rest.endpoint import ApiCall, ApiReply, operation


@dataclass(frozen=True)
class ServerInfo:
    """What the registry says about itself, and the handlers of the endpoints."""

    kafka_cluster_id: str = ""
    group_id: str = "schema-registry"

    @operation("GET /", "getRoot", "An empty object: the registry answers", ANY_OBJECT)
    async def root(self, call: ApiCall) -> ApiReply:
        return ApiReply({})

    @operation("GET /v1/metadata/id", "getServerId", "The clusters of brokers and registries", reference("ServerId"))
    async def id(self, call: ApiCall) -> ApiReply:
        clusters = {"kafka-cluster": self.kafka_cluster_id, "schema-registry-cluster": self.group_id}
        return ApiReply({"scope": {"path": [], "clusters": clusters}, "id": ""})

    @operation(
        "GET /v1/metadata/version", "getServerVersion", "The version of the registry", reference("ServerVersion")
    )
    async def version(self, call: ApiCall) -> ApiReply:
        return ApiReply({"version": __version__, "commitId": ""})
