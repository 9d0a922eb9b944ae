"""Membership of consumer groups: one state machine per protocol, and the code that runs it on the event loop."""

from __future__ import annotations

from moldau.client.consumer.membership.membership import GroupMembership, GroupMetadata

__all__ = ["GroupMembership", "GroupMetadata"]
