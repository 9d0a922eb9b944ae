"""Live view: the products in the database and in its replica, and how far the replica is behind."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from moldau.examples.database_rebuild.generator import CHANGES, DATABASE
from moldau.examples.database_rebuild.pipeline import REPLICA
from moldau.examples.results import Results


def picture(results: Results) -> RenderableType:
    database: dict[str, Any] = dict(results.stored.get(DATABASE, {}))
    replica: dict[str, Any] = dict(results.stored.get(REPLICA, {}))
    table = Table("product", "stock", "in the replica", "price", "in the replica", title="products")
    for place, row in database.items():
        if place.startswith("products/"):
            copy = replica.get(place, {"stock": "", "cents": ""})
            table.add_row(
                row["name"], *(str(one) for one in (row["stock"], copy["stock"], row["cents"], copy["cents"]))
            )
    different = sum(database.get(place) != replica.get(place) for place in {*database, *replica})
    return Group(
        table,
        Text(f"{results.count(CHANGES):,} changes in the topic; {len(database):,} rows in the database"),
        Text(f"{different} rows of the replica are behind" if different else "the replica is equal"),
    )
