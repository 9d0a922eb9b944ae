"""Precedence of quotas: which of the configured quotas applies to a user and a client id, as in Kafka.

The first of these entities that has a quota of the wanted name applies; the others are ignored, not added. Each quota
name is looked up separately: a client may have its produce quota from its user and its fetch quota from the default.

| entity | clients that share the rate |
|---|---|
| user and client id | those with this user and client id |
| user and default client id | those with the same user and client id |
| user | all clients of the user |
| default user and client id | those with the same user and client id |
| default user and default client id | those with the same user and client id |
| default user | all clients of the same user |
| client id | all clients with this client id, of any user |
| default client id | all clients with the same client id, of any user |

No function here measures anything or has state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.security.quota_entities import CONNECTION_CREATION_RATE, DEFAULT, QuotaEntity

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class Measured(NamedTuple):
    """The clients that share one rate: all with this user, this client id, or both. None: any."""

    user: str | None
    client_id: str | None


class AppliedQuota(NamedTuple):
    """A quota that applies to a client, and whose use counts against it."""

    measured: Measured
    value: float


class _Level(NamedTuple):
    """One row of the precedence: whether the entity names user and client id (True), a default (False) or neither."""

    user: bool | None
    client_id: bool | None

    def entity(self, user: str, client_id: str) -> QuotaEntity:
        return QuotaEntity(_name(self.user, user), _name(self.client_id, client_id))

    def measured(self, user: str, client_id: str) -> Measured:
        return Measured(None if self.user is None else user, None if self.client_id is None else client_id)


PRECEDENCE: Final = (
    _Level(True, True),
    _Level(True, False),
    _Level(True, None),
    _Level(False, True),
    _Level(False, False),
    _Level(False, None),
    _Level(None, True),
    _Level(None, False),
)


def _name(named: bool | None, name: str) -> str | None:
    if named is None:
        return None
    return name if named else DEFAULT


def applied_quota(quotas: Quotas, quota: str, user: str, client_id: str) -> AppliedQuota | None:
    """The quota of this name that applies to a client; None if its rate is unlimited."""
    for level in PRECEDENCE:
        value = quotas.get(level.entity(user, client_id), {}).get(quota)
        if value is not None:
            return AppliedQuota(level.measured(user, client_id), value)
    return None


def connection_rate_of(quotas: Quotas, address: str) -> float | None:
    """New connections per second that an IP address may open; None if there is no limit."""
    for ip in (address, DEFAULT):
        value = quotas.get(QuotaEntity(ip=ip), {}).get(CONNECTION_CREATION_RATE)
        if value is not None:
            return value
    return None
