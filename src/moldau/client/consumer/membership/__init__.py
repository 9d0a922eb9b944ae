"""Membership of consumer groups: two pure state machines, one a protocol, and the shell that runs them in the loop."""

from __future__ import annotations

from moldau.client.consumer.membership.membership import GroupMetadata, Membership

__all__ = ["GroupMetadata", "Membership"]
