"""Admin client settings, with the names of Kafka 4."""

from __future__ import annotations

from typing import Any

from moldau.client.settings import security
from moldau.client.settings.client import ClientTable
from moldau.client.settings.common import addresses, api_timeout_covers_requests, kept_for_kafka, waiting
from moldau.settings.setting import INT_MAX, Setting, SettingType

CALLS = (
    Setting(
        "default.api.timeout.ms",
        SettingType.INT,
        60_000,
        "Timeout of calls that have no timeout argument.",
        low=0,
    ),
    Setting("retries", SettingType.INT, INT_MAX, "Maximum number of retries of a request.", low=0, high=INT_MAX),
)

NOT_HERE = (
    Setting(
        "bootstrap.controllers",
        SettingType.LIST,
        (),
        "Addresses of controllers, which get the requests instead of brokers.",
        no_effect="requests go to brokers; set bootstrap.servers",
    ),
)


def rules(values: dict[str, Any], given: frozenset[str]) -> None:
    """Check combinations of settings, with the rules of Kafka's admin client."""
    security.security_rules(values, given)
    api_timeout_covers_requests(values, given)


ADMIN = ClientTable(
    "admin",
    {
        "Addresses and sockets": addresses(receive_buffer_bytes=65_536),
        "TLS": security.TLS,
        "Login": security.SASL,
        "Timeouts and retries": (*CALLS, *waiting(idle_ms=300_000)),
        "Accepted without effect": (*kept_for_kafka(metrics_push=False), *security.NOT_HERE, *NOT_HERE),
    },
    rules,
)
