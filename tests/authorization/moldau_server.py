"""Moldau broker for the denial matrix: in this process, with access control."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moldau.broker.connection.session import Session
from moldau.security import Principal
from moldau.settings.authorization import KAFKA_AUTHORIZERS
from moldau.testing import Broker
from tests.authorization.cases import SETTINGS
from tests.authorization.play import ADMIN, Server
from tests.support.raw import RawConnection


class MoldauServer(Server):
    """Clients are who their client id says they are."""

    def connect(self, user: str) -> RawConnection:
        return RawConnection(self.bootstrap, client_id=user)


@contextmanager
def moldau_server() -> Iterator[MoldauServer]:
    settings = {
        "authorizer.class.name": KAFKA_AUTHORIZERS[0],
        "super.users": f"User:{ADMIN}",
        "node.id": "1",
        **SETTINGS,
    }
    known = Session.principal
    by_client_id = property(lambda self: Principal("User", self.client_id), lambda self, _: None)
    Session.principal = by_client_id  # type: ignore[assignment, method-assign]
    try:
        with Broker(settings) as broker:
            listener = broker._running().broker.listeners[0]
            # Requests for delegation tokens are answered only where clients log in.
            listener.bound = listener.bound._replace(protocol="SASL_PLAINTEXT")
            yield MoldauServer(broker.bootstrap_servers)
    finally:
        Session.principal = known  # type: ignore[method-assign]
