"""The tables of the database, replayed by plain Python."""

from __future__ import annotations

from typing import Any

from moldau.examples.database_rebuild.generator import CHANGES, DATABASE
from moldau.examples.database_rebuild.pipeline import REPLICA
from moldau.examples.study import Content, Read


def expected(read: Read) -> dict[str, Content]:
    """At the end, database and replica are what the log says."""
    rows = replayed([record.value or {} for record in read(CHANGES)])
    return {DATABASE: rows, REPLICA: rows}


def replayed(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows after these changes, by table and id. The changes of an incomplete transaction do not count."""
    while changes and not changes[-1]["last"]:
        changes = changes[:-1]
    rows = {f"{change['table']}/{change['id']}": change["row"] for change in changes}
    return {place: row for place, row in rows.items() if row is not None}
