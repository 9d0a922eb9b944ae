"""A registry, and a client of it, for tests of serializers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.schemas import RegistryClient
from moldau.testing import Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as found:
        yield found


@pytest.fixture
def client(registry: Registry) -> Iterator[RegistryClient]:
    with RegistryClient({"schema.registry.url": registry.url, "retries.wait.ms": 1}) as found:
        yield found
