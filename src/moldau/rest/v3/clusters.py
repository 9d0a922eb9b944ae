"""Clusters (API v3): the one cluster of the proxy's brokers."""

from __future__ import annotations

from typing import Any

from moldau.rest.endpoints import ProxyCall, ProxyEndpoint
from moldau.rest.v3.resources import CLUSTER, check_cluster, crn, listing, related, resource, url

TAG = "Clusters"


async def list_clusters(call: ProxyCall) -> Any:
    return listing("KafkaClusterList", f"{call.base}/v3/clusters", [await _cluster(call)])


async def get_cluster(call: ProxyCall) -> Any:
    check_cluster(call)
    return await _cluster(call)


async def _cluster(call: ProxyCall) -> dict[str, Any]:
    found = await (await call.session.admin()).describe_cluster()
    links = {
        name.replace("-", "_"): related(call, name)
        for name in ("acls", "brokers", "broker-configs", "consumer-groups", "topics")
    }
    links["partition_reassignments"] = related(call, "topics", "-", "partitions", "-", "reassignment")
    if found.controller is not None:
        links["controller"] = related(call, "brokers", found.controller)
    return resource("KafkaCluster", url(call), crn(call), cluster_id=call.session.cluster_id, **links)


ENDPOINTS = (
    ProxyEndpoint("GET", "/v3/clusters", list_clusters, "List clusters: the one of this proxy", TAG),
    ProxyEndpoint("GET", CLUSTER, get_cluster, "Get the cluster", TAG),
)
