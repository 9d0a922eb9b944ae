from __future__ import annotations

from typing import Any

import pytest

from moldau.settings import ListenerAddress, SettingError
from moldau.settings.broker import BROKER, connection_overrides
from moldau.settings.listeners import ListenerPlan, parse_protocol_map, plan_listeners


def plan(listeners: str, advertised: str | None = None, **more: Any) -> ListenerPlan:
    more.setdefault("protocol_map", "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,SSL:SSL")
    return plan_listeners(
        listeners=listeners.split(","), advertised=None if advertised is None else advertised.split(","), **more
    )


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://127.0.0.1:9092", "127.0.0.1", 9092),
        ("PLAINTEXT://:9092", "", 9092),
        ("plaintext://Host-1.example_x:0", "Host-1.example_x", 0),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
        ("PLAINTEXT://[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
    ],
)
def test_an_address_has_a_name_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert plan(text).bound == (ListenerAddress("PLAINTEXT", host, port, "PLAINTEXT"),)


def test_an_address_is_formatted_as_it_was_parsed() -> None:
    for text in ("PLAINTEXT://[::1]:9092", "INTERNAL://host:1", "EXTERNAL://:2"):
        assert str(plan(text).bound[0]) == text


@pytest.mark.parametrize(
    "text", ["9092", "PLAINTEXT://host", "PLAINTEXT://host:", "PLAINTEXT://::1:9092", "PLAINTEXT://h:9092/x", "://h:1"]
)
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"listeners: .* is not of the form NAME://HOST:PORT"):
        plan(text)


@pytest.mark.parametrize(
    ("listeners", "complaint"),
    [
        ("PLAINTEXT://h:65536", "port above 65535"),
        ("OTHER://h:1", "listener OTHER has no security protocol"),
        ("PLAINTEXT://h:1,PLAINTEXT://h:2", "listener PLAINTEXT is given twice"),
        ("PLAINTEXT://h:1,INTERNAL://h:1", "claim the same port"),
        ("PLAINTEXT://:1,INTERNAL://h:1", "claim the same port"),
        ("PLAINTEXT://0.0.0.0:1,INTERNAL://127.0.0.1:1", "claim the same port"),
    ],
)
def test_listeners_that_cannot_be_opened_are_refused(listeners: str, complaint: str) -> None:
    with pytest.raises(SettingError) as caught:
        plan(listeners)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "listeners",
    ["PLAINTEXT://127.0.0.1:1,INTERNAL://[::1]:1", "PLAINTEXT://h:0,INTERNAL://h:0", "PLAINTEXT://a:1,INTERNAL://b:1"],
)
def test_listeners_on_different_interfaces_may_share_a_port_number(listeners: str) -> None:
    assert len(plan(listeners).bound) == 2


def test_no_listener_at_all_is_refused() -> None:
    with pytest.raises(SettingError, match="at least one listener is needed"):
        plan_listeners(listeners=(), advertised=None, protocol_map="PLAINTEXT:PLAINTEXT")


def test_bound_addresses_are_advertised_unless_others_are_given() -> None:
    assert [str(one) for one in plan("PLAINTEXT://h:1").advertised] == ["PLAINTEXT://h:1"]
    assert [str(one) for one in plan("PLAINTEXT://h:1", "PLAINTEXT://outside:2").advertised] == [
        "PLAINTEXT://outside:2"
    ]


def test_two_listeners_may_be_advertised_under_one_address() -> None:
    assert len(plan("PLAINTEXT://h:1,INTERNAL://h:2", "PLAINTEXT://proxy:5,INTERNAL://proxy:5").advertised) == 2


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_a_wildcard_address_is_not_advertised(host: str) -> None:
    with pytest.raises(SettingError, match=r"advertised\.listeners: clients cannot connect to"):
        plan("PLAINTEXT://h:1", f"PLAINTEXT://{host}:1")
    with pytest.raises(SettingError, match=r"advertised\.listeners: required"):
        plan(f"PLAINTEXT://{host}:1")
    assert plan(f"PLAINTEXT://{host}:1", "PLAINTEXT://name:1").advertised[0].host == "name"


def test_only_listeners_that_exist_are_advertised() -> None:
    with pytest.raises(SettingError, match="INTERNAL is not in listeners"):
        plan("PLAINTEXT://h:1", "INTERNAL://h:1")


def test_brokers_use_the_listener_named_for_them() -> None:
    two = "EXTERNAL://h:1,INTERNAL://h:2"
    assert plan(two, inter_broker_name="internal").inter_broker == "INTERNAL"
    assert plan(two).inter_broker == "EXTERNAL"
    assert plan("EXTERNAL://h:1,PLAINTEXT://h:2").inter_broker == "PLAINTEXT"
    assert plan("EXTERNAL://h:1,PLAINTEXT://h:2", inter_broker_protocol="PLAINTEXT").inter_broker == "PLAINTEXT"


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"inter_broker_name": "INTERNAL"}, "inter.broker.listener.name: INTERNAL is not an advertised listener"),
        ({"inter_broker_protocol": "SSL"}, "security.inter.broker.protocol: no advertised listener is named SSL"),
        ({"inter_broker_name": "PLAINTEXT", "inter_broker_protocol": "PLAINTEXT"}, "cannot be set together with"),
    ],
)
def test_a_listener_between_brokers_that_does_not_exist_is_refused(more: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingError) as caught:
        plan("PLAINTEXT://h:1", **more)
    assert complaint in str(caught.value)


def test_listeners_of_kafkas_controllers_are_not_opened() -> None:
    only_clients = plan("PLAINTEXT://:1,CONTROLLER://:2", controller_names=["CONTROLLER"])
    assert [one.name for one in only_clients.bound] == ["PLAINTEXT"]
    with pytest.raises(SettingError, match="add one for clients"):
        plan("CONTROLLER://:2", controller_names=["CONTROLLER"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("A", "'A' is not of the form NAME:PROTOCOL"),
        ("A:TLS", "'TLS' is not one of"),
        ("A:SSL,a:SSL", "A is mapped twice"),
    ],
)
def test_a_malformed_protocol_map_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_protocol_map(text)
    assert complaint in str(caught.value)


def test_connection_limits_of_single_hosts_are_read() -> None:
    assert connection_overrides("10.0.0.1:5, [::1]:7 ,host:0") == {"10.0.0.1": 5, "::1": 7, "host": 0}
    assert connection_overrides("") == {}
    for text in ("10.0.0.1", "host:", ":5", "host:-1", "host:99999999999"):
        with pytest.raises(SettingError):
            BROKER["max.connections.per.ip.overrides"].parse(text)
