"""Moldau broker for the denial matrix: in this process, with access control and logins by SASL PLAIN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from moldau.testing import Broker
from tests.authorization.cases import SETTINGS
from tests.authorization.matrix import NODE_ID
from tests.authorization.play import Server
from tests.compat.apache_kafka.processes import secured_by_plain


@contextmanager
def moldau_server(users: Mapping[str, str]) -> Iterator[Server]:
    settings = {
        **secured_by_plain(users),
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "node.id": NODE_ID,
        **SETTINGS,
    }
    with Broker(settings) as broker:
        yield Server(broker.bootstrap_servers)
