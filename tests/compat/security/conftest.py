"""A broker with a listener of each security protocol, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.broker.connection import connection_limits
from tests.support.secured import LogLines, SecuredBroker


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[LogLines]:
    """All log lines. The limit of lines about clients is lifted: tests before this one may have reached it."""
    monkeypatch.setattr(connection_limits, "CLIENT_ERRORS_LOGGED_PER_SECOND", 10_000)
    with LogLines() as lines:
        yield lines
