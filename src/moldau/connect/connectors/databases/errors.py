"""Errors of databases: which of them pass by themselves, and messages that never contain a password."""

from __future__ import annotations

from moldau.client.errors import MoldauError
from moldau.connect.config_def import HIDDEN
from moldau.connect.connector import RetriableError
from moldau.connect.connectors.databases.jdbc_url import DatabaseAddress


class DatabaseError(MoldauError):
    """The database refused something. It will refuse it again: somebody has to change something first."""


class RefusedRowError(DatabaseError):
    """The database refused a value of a row: too long, a duplicate, null where null is forbidden."""


class ConflictError(RetriableError):
    """A transaction that the database ended in favour of another one, or a lock that it waited for too long."""


class FencedError(MoldauError):
    """Another process has taken over this connector; what this one wrote was rolled back."""


def login_refused(address: DatabaseAddress, detail: str) -> DatabaseError:
    return DatabaseError(
        f"{address.shown} refused the login of user {address.user}: {clean(address, detail)}. "
        "Correct connection.user and connection.password, or allow this user in the database, and restart the connector"
    )


def unreachable(address: DatabaseAddress, detail: str) -> RetriableError:
    return RetriableError(
        f"{address.shown} does not answer: {clean(address, detail)}. "
        "Check that the database runs and that connection.url is right"
    )


def refused(address: DatabaseAddress, detail: str, hint: str = "") -> DatabaseError:
    ending = f". {hint}" if hint else ""
    return DatabaseError(f"{address.shown} refused a statement: {clean(address, detail)}{ending}")


def refused_row(address: DatabaseAddress, detail: str) -> RefusedRowError:
    return RefusedRowError(f"{address.shown} refused a row: {clean(address, detail)}")


def conflict(address: DatabaseAddress, detail: str) -> ConflictError:
    return ConflictError(f"{address.shown} ended a transaction: {clean(address, detail)}")


def clean(address: DatabaseAddress, detail: str) -> str:
    """A message of the database on one line, without the password, should a driver ever repeat it."""
    text = " ".join(detail.split()).rstrip(".")
    return text.replace(address.password, HIDDEN) if address.password else text


MISSING_TABLE_HINT = "Create the table, or set auto.create=true for a sink"
MISSING_RIGHT_HINT = "Grant the right to the user of connection.user"
