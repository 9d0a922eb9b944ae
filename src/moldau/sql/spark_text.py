"""Text of a query for Spark: names with dots get backticks, and a star leaves out the record columns.

`* EXCEPT (…)` takes the place of `*` where a declared relation is in the FROM clause. Positions stay those of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moldau.sql.query_shape import QueryShape
from moldau.sql.relation_names import quoted
from moldau.sql.statements import EVENT_TIME, QueryText
from moldau.sql.text_positions import TextEdit


def spark_text(query: QueryText, shape: QueryShape, hidden: Callable[[str], Iterable[str]]) -> QueryText:
    """The query with a text for Spark. `hidden(name)` gives the columns of a relation that a star leaves out."""
    text = query.text
    edits = {
        one.start: TextEdit(one.start, one.stop + 1, quoted(one.name))
        for one in shape.relations
        if one.parts > 1 and text[one.start : one.stop + 1] != quoted(one.name)
    }
    for star in shape.stars:
        columns = [f"{quoted(one.alias)}.{quoted(name)}" for one in star.relations for name in hidden(one.name)]
        if columns and text[star.stop] == "*":
            edits[star.stop + 1] = TextEdit(star.stop + 1, star.stop + 1, f" EXCEPT ({', '.join(columns)})", star.start)
        elif columns and text[star.stop] == ")":  # the user's own * EXCEPT (…)
            edits[star.stop] = TextEdit(star.stop, star.stop, f", {', '.join(columns)}", star.start)
    return query.edited(list(edits.values())) if edits else query


def with_event_time(query: QueryText, shape: QueryShape, event_time: Callable[[str], str]) -> QueryText:
    """The query with the event time of its first relation in ksqlDB's WINDOW clause: the column `event_time(name)`."""
    if EVENT_TIME not in query.text or not shape.relations:
        return query
    first = shape.relations[0]
    return query.with_event_time(f"{quoted(first.alias)}.{quoted(event_time(first.name))}")
