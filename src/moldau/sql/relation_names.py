"""Names of the relations in a query, from Spark's own parser, and the nearest of the names that exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def names_in(spark: SparkSession, text: str) -> list[str]:
    """The relations of a query as written, each once, without the names that its WITH clause defines.

    Raises Spark's ParseException for a text that Spark cannot parse.
    """
    from moldau.sql.query_shape import shape_of

    return shape_of(spark, text).relation_names


def quoted(name: str) -> str:
    """The name as SQL writes it: with backticks where it needs them."""
    return name if PLAIN_NAME.match(name) else "`" + name.replace("`", "``") + "`"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the given one, ignoring case; None if none is similar."""
    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_lower, 1)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The hint of an error about an unknown name."""
    near = nearest(name, known)
    return None if near is None else f"did you mean {quoted(near)}?"
