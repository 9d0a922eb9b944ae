"""Server for the examples: a test broker without the initial rebalance delay."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the server under test."""
    given: str | None = request.config.getoption("--bootstrap")
    return given if given is not None else str(request.getfixturevalue("moldau_bootstrap"))
