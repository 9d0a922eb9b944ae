"""Fixtures for tests of the admin client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau import Admin


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Iterator[Admin]:
    """One blocking client for all tests. Each of its calls uses the asyncio client."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        yield admin
