"""For tests of whatever talks to a broker: a broker in the test's own process, movable time, faults on demand.

    from moldau.testing import Broker, Cluster

    with Broker() as broker:
        ...                               # clients connect to broker.bootstrap_servers
        broker.advance(hours=1)           # time-outs and retention without waiting
        broker.faults.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER")

    with Cluster(3) as cluster:
        cluster.brokers[cluster.leader_of("orders", 0)].crash()

Also here: the file system that fails (`faulty_fs`) and the disk in memory that loses power (`memory_disk`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.testing.broker import Broker
    from moldau.testing.cluster import Cluster
    from moldau.testing.faults import Fault, Faults
    from moldau.testing.life import BrokerNotRunning

__all__ = ["Broker", "BrokerNotRunning", "Cluster", "Fault", "Faults"]

_HOMES = {
    "Broker": "moldau.testing.broker",
    "BrokerNotRunning": "moldau.testing.life",
    "Cluster": "moldau.testing.cluster",
    "Fault": "moldau.testing.faults",
    "Faults": "moldau.testing.faults",
}


def __getattr__(name: str) -> Any:
    """Imported when asked for: pytest loads the plugin of this package in every run, also where no broker is needed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
