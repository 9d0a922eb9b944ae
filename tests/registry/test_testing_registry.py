"""`moldau.testing.Registry`: the registry that other people's tests start."""

from __future__ import annotations

import time

import httpx
import pytest

from moldau.registry.refusals import RegistryRefusal
from moldau.schemas.schema import Schema, SchemaType
from moldau.testing import Registry


def test_it_serves_what_a_test_registers(registry: Registry) -> None:
    assert registry.register("a", '"int"') == 1
    assert registry.register("b", Schema('{"type": "object"}', SchemaType.JSON)) == 2
    assert httpx.get(f"{registry.url}/subjects").json() == ["a", "b"]
    assert httpx.get(f"{registry.url}/schemas/ids/2").json()["schemaType"] == "JSON"
    assert list(registry.requests) == [("GET", "/subjects"), ("GET", "/schemas/ids/2")]
    assert registry.schema("a").registered.schema.text == '"int"'


def test_it_refuses_what_a_registry_refuses(registry: Registry) -> None:
    registry.register("a", '"int"')
    with pytest.raises(RegistryRefusal, match="incompatible"):
        registry.register("a", '"string"')
    registry.set_compatibility("NONE", "a")
    assert registry.register("a", '"string"') == 2


def test_requests_can_be_made_to_fail(registry: Registry) -> None:
    registry.fail_next(503, times=2)
    assert [httpx.get(f"{registry.url}/subjects").status_code for _ in range(3)] == [503, 503, 200]


def test_it_keeps_its_content_and_its_port_while_it_is_away() -> None:
    registry = Registry()
    with registry:
        url = registry.url
        registry.register("a", '"int"')
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/subjects")
    with pytest.raises(RuntimeError, match="start"):
        registry.register("b", '"int"')
    with registry:
        assert httpx.get(f"{url}/subjects").json() == ["a"]
    with Registry(entries=registry.entries) as copy:
        assert httpx.get(f"{copy.url}/subjects").json() == ["a"]


def test_it_starts_in_milliseconds(registry: Registry) -> None:
    """The modules are loaded (by the fixture); the time of this process counts, not that of others on the machine."""
    began = time.process_time()
    for _ in range(10):
        with Registry():
            pass
    assert (time.process_time() - began) / 10 < 0.1
