"""Connection rates of a running broker: refused addresses wait, and a paused listener loses no connection."""

from __future__ import annotations

import contextlib

from moldau.broker.connection import connection_limits
from moldau.security.quota_entities import CONNECTION_CREATION_RATE, DEFAULT, QuotaEntity
from moldau.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from moldau.wire.messages.metadata import MetadataRequest
from tests.compat.wire import ask
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until
from tests.system.quotas.worlds import World, is_quiet, world

SAVED_UP_S = 10
LOCAL = "127.0.0.1"


def limit(one: World, ip: str, rate: float) -> None:
    one.set({QuotaEntity(ip=ip): {CONNECTION_CREATION_RATE: rate}})


def open_connections(one: World) -> int:
    return int(one.ask(lambda broker: len(broker.connections)))


def test_an_address_above_its_rate_is_closed_after_a_pause_and_served_again_later() -> None:
    with world() as one, contextlib.ExitStack() as stack:
        limit(one, LOCAL, 1)
        admitted = [stack.enter_context(one.connect()) for _ in range(SAVED_UP_S)]
        for connection in admitted:
            ask(connection, MetadataRequest(topics=[]))
        one.life.call(lambda: None)
        late: list[RawConnection] = []
        while one.throttled(CONNECTION_CREATION_RATE) == 0:
            late.append(stack.enter_context(one.connect()))
            assert len(late) < 20
        refused = late[-1]
        assert is_quiet(refused)  # not closed at once: the client would try again at once
        one.broker.advance(1)
        assert refused.closed_by_peer()
        one.broker.advance(10)
        with one.connect() as connection:
            ask(connection, MetadataRequest(topics=[]))
        ask(admitted[0], MetadataRequest(topics=[]))  # open connections are not affected


def test_another_address_is_not_limited() -> None:
    with world() as one, contextlib.ExitStack() as stack:
        limit(one, "10.0.0.1", 0)
        for _ in range(20):
            ask(stack.enter_context(one.connect()), MetadataRequest(topics=[]))


def test_connections_that_are_closed_later_are_limited() -> None:
    with world() as one, contextlib.ExitStack() as stack:
        limit(one, DEFAULT, 0)
        most = 3
        one.life.call(setattr, connection_limits, "MAX_LATE_CLOSES", most)
        stack.callback(setattr, connection_limits, "MAX_LATE_CLOSES", 1_000)
        waiting = [stack.enter_context(one.connect()) for _ in range(most)]
        wait_until(lambda: one.ask(lambda broker: len(broker.connections._closed_later)) == most)
        with one.connect() as connection:
            assert connection.closed_by_peer()
        assert all(is_quiet(connection) for connection in waiting)
        assert open_connections(one) == 0


def test_a_broker_above_its_rate_accepts_later_and_loses_no_connection() -> None:
    with world({"max.connection.creation.rate": 1}) as one, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(one.connect()) for _ in range(SAVED_UP_S + 1)]
        for connection in connections:
            ask(connection, MetadataRequest(topics=[]))
        wait_until(lambda: one.ask(lambda broker: broker.metrics.accept_pauses) >= 1)
        waiting = stack.enter_context(one.connect())  # the operating system has completed the connection
        waiting.send_frame(b"")
        assert open_connections(one) == SAVED_UP_S + 1
        ask(connections[0], MetadataRequest(topics=[]))
        one.broker.advance(10)
        wait_until(lambda: one.ask(lambda broker: broker.metrics.connections_accepted) == SAVED_UP_S + 2)


def test_a_broker_stops_while_its_listener_is_paused() -> None:
    with world({"max.connection.creation.rate": 1}) as one, contextlib.ExitStack() as stack:
        for _ in range(SAVED_UP_S + 1):
            ask(stack.enter_context(one.connect()), MetadataRequest(topics=[]))
        one.broker.restart()
        with one.connect() as connection:
            ask(connection, MetadataRequest(topics=[]))


def test_a_rate_can_be_changed_at_run_time() -> None:
    with world() as one:
        config = IncrementalAlterConfigsRequestConfig(name="max.connection.creation.rate", value="1")
        resource = IncrementalAlterConfigsRequestResource(resource_type=4, resource_name="", configs=[config])
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(one.connect())
            response = ask(first, IncrementalAlterConfigsRequest(resources=[resource]))
            assert response.responses[0].error_code == 0, response
            for _ in range(SAVED_UP_S + 1):
                ask(stack.enter_context(one.connect()), MetadataRequest(topics=[]))
            wait_until(lambda: one.ask(lambda broker: broker.metrics.accept_pauses) >= 1)
