"""Live view: the customers whose views have changed last."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from moldau.examples.customer_360.pipeline import VIEWS
from moldau.examples.results import Results

ROWS = 15


def picture(results: Results) -> RenderableType:
    views = results.table(VIEWS)
    table = Table("customer", "name", "city", "card", "payments", "paid", title="customers that changed last")
    for customer, view in list(views.items())[: -ROWS - 1 : -1]:
        card = "" if view["card"] is None else f"{view['card']} {view['card_state']}"
        paid = f"{view['paid_cents'] / 100:,.2f}"
        table.add_row(customer, view["name"], view["city"], card, str(view["payments"]), paid)
    forgotten = [record.key for record in results.recent(VIEWS) if record.value is None]
    return Group(table, Text(f"{len(views)} customers; forgotten just now: {', '.join(forgotten) or 'none'}"))
