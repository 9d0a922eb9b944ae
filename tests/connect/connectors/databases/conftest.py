"""Databases of their own for the tests of this folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.connect.connectors.databases.support import TestDatabase
from tests.support.databases import MariaDBServer, PostgreSQLServer

_NUMBERS = itertools.count(1)


@pytest.fixture
def postgresql_database(postgresql: PostgreSQLServer) -> Iterator[TestDatabase]:
    # A new schema is there at once; a new database would take 200 ms.
    with closing(TestDatabase.on_server("postgresql", postgresql, "postgres")) as found:
        yield found
    found.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def mariadb_database(mariadb: MariaDBServer) -> Iterator[TestDatabase]:
    name = f"test{next(_NUMBERS)}"
    mariadb.execute(None, f"CREATE DATABASE {name}")
    with closing(TestDatabase.on_server("mariadb", mariadb, name)) as found:
        yield found


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[TestDatabase]:
    with closing(TestDatabase.in_file(tmp_path / "test.db")) as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> TestDatabase:
    """The same test on every database."""
    found: TestDatabase = request.getfixturevalue(f"{request.param}_database")
    return found
