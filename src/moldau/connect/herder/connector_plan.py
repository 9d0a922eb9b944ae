"""Plan of one worker: the connectors to stop, start and pause after a change of configuration or assignment.

No I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from moldau.connect.states import TargetState
from moldau.connect.stores.config_store import ConfigState


@dataclass(frozen=True)
class WantedConnector:
    """How a connector is to run."""

    config: Mapping[str, str]
    target: TargetState


@dataclass(frozen=True)
class ConnectorPlan:
    """What to do, in this order."""

    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    """New here, or with another configuration."""
    retarget: tuple[str, ...] = ()
    """Running here with this configuration; only the target state is another one."""

    def __bool__(self) -> bool:
        return bool(self.stop or self.start or self.retarget)


def wanted_connectors(configs: ConfigState, assigned: Collection[str]) -> dict[str, WantedConnector]:
    """How the assigned connectors are to run. Assigned connectors that were deleted since are not among them."""
    return {
        name: WantedConnector(configs.connectors[name], configs.target(name))
        for name in sorted(assigned)
        if name in configs.connectors
    }


def plan(running: Mapping[str, WantedConnector], wanted: Mapping[str, WantedConnector]) -> ConnectorPlan:
    """What leads from what runs to what is wanted."""
    stop = [name for name in running if name not in wanted]
    start, retarget = [], []
    for name, one in wanted.items():
        now = running.get(name)
        if now is None or now.config != one.config:
            start.append(name)
        elif now.target is not one.target:
            retarget.append(name)
    return ConnectorPlan(tuple(stop), tuple(start), tuple(retarget))
