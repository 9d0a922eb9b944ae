"""Test support: brokers and clusters in the test's own process, with movable time and injected faults.

    from moldau.testing import Broker, Cluster

    with Broker() as broker:
        ...                               # clients connect to broker.bootstrap_servers
        broker.advance(hours=1)           # timeouts and retention without waiting
        broker.faults.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER")

    with Cluster(3) as cluster:
        cluster.brokers[cluster.leader_of("orders", 0)].crash()

    with Registry() as registry:
        ...                               # serializers and other clients use registry.url

The package also has a file system that fails on demand (`faulty_fs`) and a disk in memory that can lose power
(`memory_disk`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.testing.broker import Broker
    from moldau.testing.broker_thread import BrokerNotRunning
    from moldau.testing.cluster import Cluster
    from moldau.testing.connectors import ConnectorFailed, Connectors
    from moldau.testing.faults import Fault, Faults
    from moldau.testing.registry import Registry
    from moldau.testing.security import Security, allow, deny

__all__ = [
    "Broker",
    "BrokerNotRunning",
    "Cluster",
    "ConnectorFailed",
    "Connectors",
    "Fault",
    "Faults",
    "Registry",
    "Security",
    "allow",
    "deny",
]

_HOMES = {
    "Broker": "moldau.testing.broker",
    "BrokerNotRunning": "moldau.testing.broker_thread",
    "Cluster": "moldau.testing.cluster",
    "ConnectorFailed": "moldau.testing.connectors",
    "Connectors": "moldau.testing.connectors",
    "Fault": "moldau.testing.faults",
    "Faults": "moldau.testing.faults",
    "Registry": "moldau.testing.registry",
    "Security": "moldau.testing.security",
    "allow": "moldau.testing.security",
    "deny": "moldau.testing.security",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use: pytest loads this package's plugin in every run, also in runs that need no broker."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
