"""Resources of API v3 as JSON: kind, links to themselves and to others, and lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from moldau.rest.endpoints import ProxyCall
from moldau.rest.errors import not_found

CLUSTER: Final = "/v3/clusters/{cluster_id}"


def url(call: ProxyCall, *parts: str | int) -> str:
    """The URL of something in the cluster of the request."""
    return "/".join(
        [call.base, "v3/clusters", *(quote(str(part), safe=":-") for part in (call.session.cluster_id, *parts))]
    )


def crn(call: ProxyCall, *parts: str | int) -> str:
    """Confluent's name of a resource: crn:///kafka=CLUSTER/topic=NAME."""
    pairs = [f"{kind}={quote(str(name), safe='')}" for kind, name in zip(parts[::2], parts[1::2], strict=True)]
    return "/".join([f"crn:///kafka={call.session.cluster_id}", *pairs])


def related(call: ProxyCall, *parts: str | int) -> dict[str, str]:
    return {"related": url(call, *parts)}


def resource(kind: str, self_url: str, resource_name: str, /, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"self": self_url, "resource_name": resource_name}, **fields}


def listing(kind: str, self_url: str, data: Sequence[Any]) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"self": self_url, "next": None}, "data": list(data)}


def check_cluster(call: ProxyCall) -> None:
    """ProxyError 404 if the request is about another cluster."""
    wanted = call.path["cluster_id"]
    if wanted != call.session.cluster_id:
        raise not_found(f"there is no cluster {wanted!r} here; the cluster is {call.session.cluster_id!r}")
