"""Registries for the tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.testing import Registry


@pytest.fixture
def registry() -> Iterator[Registry]:
    """An empty registry for this test only, with its REST API."""
    with Registry() as found:
        yield found
