"""Small shop: orders are events in a topic, and shipping reads them.

`OrderDesk` accepts orders. An order is placed only after the broker has acknowledged it. `Shipping` commits only after
packing, so an event may arrive twice. It still packs every order once, because it remembers the ids.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass

from moldau import Consumer, MoldauError, Producer


@dataclass(frozen=True)
class Order:
    id: str
    customer: str
    item: str
    quantity: int


class OrderNotPlaced(Exception):
    """The order was not acknowledged: do not confirm it to the customer."""


class OrderDesk:
    def __init__(self, bootstrap_servers: str, topic: str = "orders", *, patience_ms: int = 10_000) -> None:
        self._topic = topic
        self._producer = Producer(
            bootstrap_servers=bootstrap_servers,
            client_id="order-desk",
            request_timeout_ms=patience_ms // 2,
            delivery_timeout_ms=patience_ms,
            max_block_ms=patience_ms,
            linger_ms=0,
        )

    def place(self, customer: str, item: str, quantity: int = 1) -> Order:
        """Return the order after it is acknowledged. Orders of one customer stay in order: they share a partition."""
        order = Order(uuid.uuid4().hex, customer, item, quantity)
        try:
            self._producer.send(self._topic, json.dumps(asdict(order)).encode(), key=customer.encode()).result()
        except MoldauError as error:
            raise OrderNotPlaced(f"the order of {customer} for {item} was not placed: {error}") from error
        return order

    def close(self) -> None:
        self._producer.close()


class Shipping:
    def __init__(
        self, bootstrap_servers: str, pack: Callable[[Order], None], topic: str = "orders", *, group: str = "shipping"
    ) -> None:
        self._pack = pack
        self._packed: set[str] = set()
        self._consumer = Consumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            client_id="shipping",
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    def work(self, timeout: float) -> int:
        """Pack the orders that arrive within `timeout` seconds. Returns the number of new orders."""
        new = 0
        for record in self._consumer.poll(timeout=timeout):
            order = Order(**json.loads(record.value))
            if order.id not in self._packed:
                self._pack(order)
                self._packed.add(order.id)
                new += 1
        self._consumer.commit()
        return new

    def close(self) -> None:
        self._consumer.close()
