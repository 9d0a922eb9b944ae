"""Security part of the cluster image: rules, credentials, tokens and quotas at one moment.

As in `cluster/image.py`, mappings are plain dicts that are never modified after the image is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from moldau.security.acls import AclEntry, ResourcePattern
from moldau.security.credentials import DelegationToken, ScramCredential, ScramMechanism
from moldau.security.quota_entities import QuotaEntity

UserCredentials = Mapping[ScramMechanism, ScramCredential]


@dataclass(frozen=True, slots=True)
class SecurityImage:
    """Everything that decides who may connect, what they may do, and how fast."""

    acls: Mapping[ResourcePattern, tuple[AclEntry, ...]] = field(default_factory=dict)
    """Entries by pattern. A pattern without entries is not in it."""
    scram_credentials: Mapping[str, UserCredentials] = field(default_factory=dict)
    """By user name."""
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    """By token id."""
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    """Quota values by quota name. An entity without quotas is not in it."""

    def changed(self, part: str, changes: Mapping[Any, Any]) -> SecurityImage:
        """This image with new values of some keys of one part, which is named by its attribute. An empty value, or
        None, removes the key. The other parts stay the same objects."""
        merged = {**getattr(self, part), **changes}
        for key, value in changes.items():
            if not value:
                del merged[key]
        return replace(self, **{part: merged})


NO_SECURITY: Final = SecurityImage()
