"""The settings of an admin client, as Kafka 4 names them."""

from __future__ import annotations

from typing import Any

from moldau.client.settings.client import ClientTable
from moldau.client.settings.common import addresses, api_timeout_covers_requests, kept_for_kafka, waiting
from moldau.settings.setting import INT_MAX, Setting, SettingType

CALLS = (
    Setting(
        "default.api.timeout.ms",
        SettingType.INT,
        60_000,
        "How long a call without a time-out of its own may take.",
        low=0,
    ),
    Setting("retries", SettingType.INT, INT_MAX, "How often a request is sent again.", low=0, high=INT_MAX),
)

NOT_HERE = (
    Setting(
        "bootstrap.controllers",
        SettingType.LIST,
        (),
        "Addresses of controllers, to be asked instead of brokers.",
        no_effect="brokers are asked, see bootstrap.servers",
    ),
)


def rules(values: dict[str, Any], given: frozenset[str]) -> None:
    """What Kafka's admin client says about settings that do not go together."""
    api_timeout_covers_requests(values, given)


ADMIN = ClientTable(
    "admin",
    {
        "Where the cluster is": addresses(receive_buffer_bytes=65_536),
        "Waiting": (*CALLS, *waiting(idle_ms=300_000)),
        "Accepted for Kafka's sake": (*kept_for_kafka(metrics_push=False), *NOT_HERE),
    },
    rules,
)
