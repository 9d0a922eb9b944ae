"""Cluster calls of the admin client: brokers, controller, features, and the APIs that each broker serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from moldau.client import arguments
from moldau.client.admin.calls import Calls, Target
from moldau.client.admin.outcome import checked
from moldau.client.data_types import Node
from moldau.client.errors import BrokerUnavailable, UnsupportedByBroker
from moldau.client.network import ANY_NODE
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.wire.messages.metadata import MetadataResponse
from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

NO_CONTROLLER = -1
CLIENT_NAME = "moldau"


@dataclass(frozen=True)
class ClusterDescription:
    """A cluster: its id, controller and brokers, in the order of broker ids."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()
    """The ids of fenced brokers; empty unless `include_fenced` was set."""


class VersionRange(NamedTuple):
    """The lowest and the highest version."""

    low: int
    high: int


@dataclass(frozen=True)
class Features:
    """The features that the brokers support, and the finalized versions that are in use."""

    supported: Mapping[str, VersionRange]
    finalized: Mapping[str, VersionRange]
    epoch: int | None


def read_cluster(response: DescribeClusterResponse) -> ClusterDescription:
    checked(response.error_code, "describing the cluster", response.error_message)
    return ClusterDescription(
        response.cluster_id,
        None if response.controller_id == NO_CONTROLLER else response.controller_id,
        tuple(sorted(Node(one.broker_id, one.host, one.port, one.rack) for one in response.brokers)),
        frozenset(one.broker_id for one in response.brokers if one.is_fenced),
    )


def read_metadata(response: MetadataResponse) -> ClusterDescription:
    """Read the cluster from a Metadata response, for brokers without DescribeCluster."""
    return ClusterDescription(
        response.cluster_id,
        None if response.controller_id == NO_CONTROLLER else response.controller_id,
        tuple(sorted(Node(one.node_id, one.host, one.port, one.rack) for one in response.brokers)),
    )


def read_features(response: ApiVersionsResponse) -> Features:
    checked(response.error_code, "describing the features")
    return Features(
        {one.name: VersionRange(one.min_version, one.max_version) for one in response.supported_features},
        {one.name: VersionRange(one.min_version_level, one.max_version_level) for one in response.finalized_features},
        None if response.finalized_features_epoch < 0 else response.finalized_features_epoch,
    )


def read_api_versions(response: ApiVersionsResponse) -> dict[int, VersionRange]:
    checked(response.error_code, "asking for the versions of APIs")
    return {one.api_key: VersionRange(one.min_version, one.max_version) for one in response.api_keys}


class ClusterCalls(Calls):
    """Admin calls about the cluster."""

    async def describe_cluster(
        self, *, include_fenced: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """Return the cluster id, the brokers and the controller; with `include_fenced` also fenced brokers."""
        deadline = self._deadline(timeout)
        try:
            return await self._once(
                ANY_NODE,
                DescribeClusterRequest(include_fenced_brokers=include_fenced),
                read_cluster,
                deadline=deadline,
                what="describing the cluster",
                min_version=2 if include_fenced else 0,
            )
        except UnsupportedByBroker:
            if include_fenced:
                raise
        network = await self._ready()
        response = await network.retrying(
            lambda: self._metadata((), deadline), deadline=deadline, what="describing the cluster"
        )
        return read_metadata(response)

    async def describe_features(self, *, timeout: float | None = None) -> Features:
        """Return the features that the brokers support, and their finalized versions."""
        return await self._once(
            ANY_NODE,
            _versions_request(),
            read_features,
            deadline=self._deadline(timeout),
            what="describing the features",
            min_version=3,
        )

    async def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        """Remove the registration of a broker that is shut down for good. Raises if it is not registered."""
        deadline = self._deadline(timeout)
        arguments.number("broker", broker)

        def read(response: UnregisterBrokerResponse) -> None:
            checked(response.error_code, f"unregistering broker {broker}", response.error_message)

        await self._once(
            ANY_NODE,
            UnregisterBrokerRequest(broker_id=broker),
            read,
            deadline=deadline,
            what=f"unregistering broker {broker}",
        )

    async def api_versions(self, broker: int, *, timeout: float | None = None) -> dict[int, VersionRange]:
        """Return the API keys that a broker serves, with their versions. Raises BrokerUnavailable for an unknown id."""
        deadline = self._deadline(timeout)
        arguments.number("broker", broker)
        nodes = await self._nodes(deadline)
        if broker not in nodes:
            raise BrokerUnavailable(f"there is no broker {broker}; the brokers are {', '.join(map(str, nodes))}")
        target: Target = broker
        return await self._once(
            target,
            _versions_request(),
            read_api_versions,
            deadline=deadline,
            what=f"asking broker {broker} for its APIs",
        )


def _versions_request() -> ApiVersionsRequest:
    from moldau import __version__

    return ApiVersionsRequest(client_software_name=CLIENT_NAME, client_software_version=__version__)
