"""Database servers for the tests of connectors: one of each kind per run, started by the first test that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.databases import DatabaseServer, MariaDBServer, PostgreSQLServer


def _running(kind: type[DatabaseServer]) -> Iterator[DatabaseServer]:
    missing = kind.missing()
    if missing:
        pytest.skip(missing)
    server = kind()
    try:
        server.create()
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[DatabaseServer]:
    yield from _running(PostgreSQLServer)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[DatabaseServer]:
    yield from _running(MariaDBServer)
