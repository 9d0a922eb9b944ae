"""Group of the SQL servers of one service id: its leader runs all queries.

The group's coordinator is the broker. The membership ends by this process's own clock as soon as the coordinator has
not confirmed it for the session time-out, so that a server that cannot reach the brokers stops before another one
begins. A process that was stopped (SIGSTOP) for longer learns of it when it continues; until then the fencing of the
sink's transactions keeps it from making anything visible.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.client.errors import MoldauError
from moldau.host.event_log import event_logger
from moldau.service.group_member import GroupAssignment, GroupMember, GroupView

log = event_logger(__name__)

PROTOCOL_TYPE: Final = "moldau-sql"
PROTOCOL: Final = "v1"
GROUP_PREFIX: Final = "_moldau_sql_"


def group_of(service_id: str) -> str:
    """The id of the group of these servers."""
    return f"{GROUP_PREFIX}{service_id}"


class ServerGroup:
    """The membership of this server. Used from one event loop."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        service_id: str,
        url: str,
        *,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        rebalance_timeout_ms: int,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called in the loop whenever `leads`, `leader_url` or `failure` may have changed."""
        self._url = url
        self._on_change = on_change
        self._leader_url: str | None = None
        self.failure: MoldauError | None = None
        """Why the membership has ended for good, for example because it is not allowed."""
        self._member = GroupMember(
            client_settings,
            group_id=group_of(service_id),
            protocol_type=PROTOCOL_TYPE,
            protocols={PROTOCOL: self._metadata},
            assign=self._assign,
            listener=self,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
        )

    @property
    def joined(self) -> bool:
        """Whether this server is a member at this moment."""
        return self._member.assignment is not None and self._member.valid

    @property
    def leads(self) -> bool:
        """Whether this server may run queries at this moment."""
        held = self._member.assignment
        return held is not None and held.leads and self._member.valid

    @property
    def leader_url(self) -> str | None:
        """Where the leader can be reached; None if that is not known."""
        return self._leader_url if self.joined else None

    async def start(self) -> None:
        await self._member.start()

    async def stop(self) -> None:
        await self._member.stop()

    # -- the group's calls ---------------------------------------------------------------------------------------------

    def _metadata(self) -> bytes:
        return json.dumps({"url": self._url}).encode()

    def _assign(self, view: GroupView) -> Mapping[str, bytes]:
        """The leader's part of a rebalance: everyone learns its URL."""
        leader = view.members[view.leader_id]
        return dict.fromkeys(view.members, leader)

    async def revoked(self, old: GroupAssignment) -> None:
        """A rebalance has begun: the queries run on."""

    async def assigned(self, new: GroupAssignment) -> None:
        try:
            self._leader_url = str(json.loads(new.assignment)["url"])
        except (ValueError, KeyError, TypeError):
            log.warning("the leader's address is not known", extra={"generation": new.generation})
            self._leader_url = None
        log.info("servers have a leader", extra={"leader": self._leader_url, "this": new.leads})
        self._on_change()

    async def lost(self, old: GroupAssignment) -> None:
        log.warning("membership lost", extra={"generation": old.generation})
        self._leader_url = None
        self._on_change()

    def failed(self, error: MoldauError) -> None:
        self.failure = error
        self._on_change()
