"""Moldau broker for the denial matrix: in this process, with access control."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from moldau.broker.connection.session import Session
from moldau.broker.requests.handler_registry import HANDLERS
from moldau.security import Principal
from moldau.security.acls import AclEntry, AclRule, ResourcePattern
from moldau.settings.authorization import KAFKA_AUTHORIZERS
from moldau.testing import Broker
from moldau.wire.api import ApiKey
from tests.authorization.cases import SETTINGS
from tests.authorization.play import ADMIN, Server
from tests.support.raw import RawConnection


class MoldauServer(Server):
    """Clients are who their client id says they are."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.bootstrap_servers)
        self._broker = broker

    def connect(self, user: str) -> RawConnection:
        return RawConnection(self.bootstrap, client_id=user)

    def add_rules(self, rules: Sequence[AclRule]) -> None:
        if ApiKey.CREATE_ACLS in HANDLERS:
            super().add_rules(rules)
            return
        acls: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
        for pattern, entry in rules:
            acls[pattern] = (*acls.get(pattern, ()), entry)
        life = self._broker._running()
        life.call(life.broker.authorizer.follow, acls)


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
        with Broker({name: value for name, value in settings.items() if name not in NOT_YET}) as broker:
            yield MoldauServer(broker)
    finally:
        Session.principal = known  # type: ignore[method-assign]


NOT_YET = {"delegation.token.secret.key"} if ApiKey.CREATE_DELEGATION_TOKEN not in HANDLERS else set()
