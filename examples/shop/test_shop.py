"""Tests of the shop: real clients, a real broker in this process, injected faults and an advanced clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from shop import Order, OrderDesk, OrderNotPlaced, Shipping

from moldau.testing import Broker, Faults

PATIENCE_S = 30.0


@pytest.fixture
def desk(moldau_bootstrap: str, moldau_topic: str) -> Iterator[OrderDesk]:
    desk = OrderDesk(moldau_bootstrap, moldau_topic, patience_ms=30_000)
    yield desk
    desk.close()


def shipped(bootstrap: str, topic: str, count: int) -> list[Order]:
    """The first `count` orders that shipping packs."""
    packed: list[Order] = []
    shipping = Shipping(bootstrap, packed.append, topic)
    try:
        while len(packed) < count:
            assert shipping.work(PATIENCE_S) > 0, f"no order arrived within {PATIENCE_S} s"
        return packed
    finally:
        shipping.close()


def test_orders_are_shipped(desk: OrderDesk, moldau_bootstrap: str, moldau_topic: str) -> None:
    orders = [desk.place("ada", "punch cards", 1000), desk.place("ada", "tea")]
    assert shipped(moldau_bootstrap, moldau_topic, 2) == orders


def test_a_lost_acknowledgement_does_not_ship_twice(
    desk: OrderDesk, moldau_faults: Faults, moldau_bootstrap: str, moldau_topic: str
) -> None:
    fault = moldau_faults.drop_next("Produce", applied=True, topic=moldau_topic)
    first = desk.place("ada", "tea")  # the producer retries automatically
    assert fault.struck == 1
    second = desk.place("ada", "milk")
    assert shipped(moldau_bootstrap, moldau_topic, 2) == [first, second]


def test_a_refused_order_raises_an_error(desk: OrderDesk, moldau_faults: Faults) -> None:
    moldau_faults.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED", client_id="order-desk")
    with pytest.raises(OrderNotPlaced, match="the order of ada for tea"):
        desk.place("ada", "tea")


@pytest.mark.moldau_topic(partitions=3)
def test_orders_of_a_customer_keep_their_order(desk: OrderDesk, moldau_bootstrap: str, moldau_topic: str) -> None:
    items = [f"book {number}" for number in range(20)]
    for item in items:
        desk.place("ada", item)
    assert [order.item for order in shipped(moldau_bootstrap, moldau_topic, 20)] == items


def test_orders_survive_a_crash_of_the_broker(moldau_own_broker: Broker) -> None:
    moldau_own_broker.create_topic("orders")
    desk = OrderDesk(moldau_own_broker.bootstrap_servers, patience_ms=30_000)
    order = desk.place("ada", "tea")
    moldau_own_broker.crash()
    moldau_own_broker.start()
    assert shipped(moldau_own_broker.bootstrap_servers, "orders", 1) == [order]
    desk.close()


def test_orders_are_kept_for_a_week_and_no_longer(moldau_own_broker: Broker) -> None:
    moldau_own_broker.create_topic("orders")
    desk = OrderDesk(moldau_own_broker.bootstrap_servers, patience_ms=30_000)
    old = desk.place("ada", "tea")
    moldau_own_broker.advance(days=6)
    assert shipped(moldau_own_broker.bootstrap_servers, "orders", 1) == [old]
    moldau_own_broker.advance(days=2)
    new = desk.place("ada", "milk")
    packed: list[Order] = []
    late = Shipping(moldau_own_broker.bootstrap_servers, packed.append, group="second-shipping")
    assert late.work(PATIENCE_S) == 1
    assert packed == [new]
    late.close()
    desk.close()


def test_every_new_topic_has_its_own_name(moldau_new_topic: Callable[..., str]) -> None:
    assert moldau_new_topic() != moldau_new_topic()
