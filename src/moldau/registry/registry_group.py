"""Group of the registries of one cluster: it has one leader, which carries out all writes.

The group's coordinator is the broker. The messages between members are Confluent's (protocol type "sr"): the member
that the coordinator chose names the leader. A leader stays the leader while it is a member; otherwise it is the member
with the smallest URL of those that may lead.

The membership ends by this process's own clock as soon as the coordinator has not confirmed it for the session
time-out. A process that was stopped (SIGSTOP) for longer learns of it when it continues; until then the fencing of the
topic's transactions keeps it from writing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.client.errors import MoldauError
from moldau.host.event_log import event_logger
from moldau.service.group_member import GroupAssignment, GroupMember, GroupView
from moldau.service.http_settings import HttpAddress

log = event_logger(__name__)

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
VERSION: Final = 1
NO_ERROR: Final = 0
DUPLICATE_URLS: Final = 1


@dataclass(frozen=True)
class RegistryIdentity:
    """A member as the others know it."""

    address: HttpAddress
    may_lead: bool
    leads: bool = False

    def encode(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "host": self.address.host,
            "port": self.address.port,
            "master_eligibility": self.may_lead,
            "scheme": self.address.scheme,
            "leader": self.leads,
        }

    @classmethod
    def decode(cls, value: Mapping[str, Any]) -> RegistryIdentity:
        address = HttpAddress(str(value.get("scheme") or "http"), str(value["host"]), int(value["port"]))
        return cls(address, bool(value["master_eligibility"]), bool(value.get("leader")))


def choose_leader(members: Mapping[str, RegistryIdentity]) -> str | None:
    """The member id of the leader; None if no member may lead."""
    eligible = {member_id: one for member_id, one in members.items() if one.may_lead}
    leading = [member_id for member_id, one in eligible.items() if one.leads]
    if len(leading) == 1:
        return leading[0]
    return min(eligible, key=lambda member_id: eligible[member_id].address.url, default=None)


def assignment_of(members: Mapping[str, RegistryIdentity]) -> bytes:
    """What every member learns. Members with the same URL cannot forward requests to each other: an error."""
    leader = choose_leader(members)
    urls = {one.address.url for one in members.values()}
    found: dict[str, Any] = {"version": VERSION, "error": NO_ERROR if len(urls) == len(members) else DUPLICATE_URLS}
    if leader is not None:
        found |= {"master": leader, "master_identity": members[leader].encode()}
    return json.dumps(found).encode()


class RegistryGroup:
    """The membership of this registry. Used from one event loop."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        group_id: str,
        address: HttpAddress,
        *,
        may_lead: bool,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        rebalance_timeout_ms: int,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called in the loop whenever `leads`, `leader_url` or `failure` may have changed."""
        self._address = address
        self._may_lead = may_lead
        self._on_change = on_change
        self._leader_id: str | None = None
        self._leader_url: str | None = None
        self.failure: str | None = None
        """Why this registry cannot take part, for example because it is not allowed to; None if it does."""
        self.generation = 0
        """It grows with every assignment: what was true in an earlier one need not be true now."""
        self._member = GroupMember(
            client_settings,
            group_id=group_id,
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
        """Whether this registry is a member at this moment."""
        return self._member.assignment is not None and self._member.valid

    @property
    def leads(self) -> bool:
        """Whether this registry carries out writes at this moment."""
        held = self._member.assignment
        return held is not None and held.member_id == self._leader_id and self._member.valid

    @property
    def leader_url(self) -> str | None:
        """Where the leader listens; None if that is not known."""
        return self._leader_url if self.joined else None

    async def start(self) -> None:
        await self._member.start()

    async def stop(self) -> None:
        await self._member.stop()

    # -- the group's calls ---------------------------------------------------------------------------------------------

    def _metadata(self) -> bytes:
        return json.dumps(RegistryIdentity(self._address, self._may_lead, self.leads).encode()).encode()

    def _assign(self, view: GroupView) -> Mapping[str, bytes]:
        members = {
            member_id: RegistryIdentity.decode(json.loads(data)) for member_id, data in sorted(view.members.items())
        }
        return dict.fromkeys(members, assignment_of(members))

    async def revoked(self, old: GroupAssignment) -> None:
        """A rebalance has begun. A leader goes on: should it end with another one, that one fences it."""

    async def assigned(self, new: GroupAssignment) -> None:
        self._leader_id = self._leader_url = None
        self.generation += 1
        try:
            found = json.loads(new.assignment)
            if found.get("error", NO_ERROR) != NO_ERROR:
                self._refuse(f"another registry of the group has the same address, {self._address.url}; set host.name")
            elif found.get("master"):
                self.failure = None
                self._leader_id = str(found["master"])
                self._leader_url = RegistryIdentity.decode(found["master_identity"]).address.url
        except (ValueError, KeyError, TypeError):
            log.warning("the leader's address is not known", extra={"generation": new.generation})
        log.info("registries have a leader", extra={"leader": self._leader_url, "this": self.leads})
        self._on_change()

    async def lost(self, old: GroupAssignment) -> None:
        log.warning("membership lost", extra={"generation": old.generation})
        self._leader_id = self._leader_url = None
        self.generation += 1
        self._on_change()

    def failed(self, error: MoldauError) -> None:
        self._refuse(str(error))
        self._on_change()

    def _refuse(self, reason: str) -> None:
        log.error("this registry cannot take part in the group", extra={"reason": reason})
        self.failure = reason
