"""The views of all customers, computed by plain Python."""

from __future__ import annotations

from typing import Any

from moldau.examples.customer_360.generator import CARDS, PAYMENTS, PEOPLE
from moldau.examples.customer_360.pipeline import VIEWS
from moldau.examples.study import Content, Read


def expected(read: Read) -> dict[str, Content]:
    people = {record.key: record.value for record in read(PEOPLE)}
    cards = {record.key: record.value for record in read(CARDS)}
    payments: dict[str, list[int]] = {}
    for record in read(PAYMENTS):
        payments.setdefault(record.key, []).append((record.value or {})["cents"])
    return {
        VIEWS: {
            customer: view(person, cards.get(customer) or {}, payments.get(customer, []))
            for customer, person in people.items()
            if person is not None
        }
    }


def view(person: dict[str, Any], card: dict[str, Any], cents: list[int]) -> dict[str, Any]:
    return {
        **person,
        "card": card.get("card"),
        "card_state": card.get("state"),
        "payments": len(cents),
        "paid_cents": sum(cents),
    }
