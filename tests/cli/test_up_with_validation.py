"""`moldau up --registry`: the broker knows the registry, for topics with schema validation."""

from __future__ import annotations

import pytest

from moldau.cli.registry_child import RegistryChild


@pytest.mark.parametrize(
    ("port", "settings"), [(8081, ["confluent.schema.registry.url=http://127.0.0.1:8081"]), (0, [])]
)
def test_the_broker_gets_the_address_if_it_is_known_before(port: int, settings: list[str]) -> None:
    assert RegistryChild(port, []).broker_settings == settings
