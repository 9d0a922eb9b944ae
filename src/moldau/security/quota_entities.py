"""Quota entities: to whom a client quota applies, with Kafka's entity types and quota names."""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT: Final = "<default>"
"""As user, client id or IP address: everyone who has no quota of their own."""

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

CLIENT_QUOTAS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""Quotas of users and client ids. An entity by IP address has CONNECTION_CREATION_RATE only."""


class QuotaEntity(NamedTuple):
    """A user, a client id, both together, or an IP address. None: the entity does not name one; `DEFAULT`: the
    default for those without a quota of their own."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
