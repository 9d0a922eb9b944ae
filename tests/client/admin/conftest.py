"""Fixtures for tests of the admin client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau import Admin


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Iterator[Admin]:
    """The blocking client, through which every call of the asyncio one goes; one for all tests, as applications do."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        yield admin
