"""Start of a continuous query from its definition, in a Spark session of its own.

The text is that of the user's statement. Its relations are those of the definition, as they were declared or inferred
when the query was created: a topic whose records have changed, or a stream that was declared again, does not change a
query that runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from moldau.sql import continuous
from moldau.sql.catalogue_names import NameMap
from moldau.sql.declarations import Declaration
from moldau.sql.errors import SqlError
from moldau.sql.parser import parse
from moldau.sql.queries import QueryDefinition
from moldau.sql.statements import CreateAsStatement, InsertSelectStatement, QueryText

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class StoredDeclarations:
    """The relations of one definition: for `Relations`, in place of the catalogue."""

    def __init__(self, definition: QueryDefinition) -> None:
        self.declarations: Mapping[str, Declaration] = NameMap({one.name: one for one in definition.sources})


@contextmanager
def started_query(
    spark: SparkSession, definition: QueryDefinition, client_settings: Mapping[str, str], checkpoint: str
) -> Iterator[StreamingQuery]:
    """The query, started in this session, which no other query uses. It must have ended when the context is left.

    Raises SqlError if it cannot run.
    """
    from moldau.sql.session_settings import apply_settings
    from moldau.sql.tables.relations import Relations

    stored: Any = StoredDeclarations(definition)
    relations = Relations(spark, client_settings, stored)
    try:
        apply_settings(spark, relations, definition.settings)
        plan = continuous.plan(spark, query_text(definition), relations)
        yield continuous.start(plan, definition.target, client_settings, checkpoint, definition.name)
    finally:
        relations.close()


def query_text(definition: QueryDefinition) -> QueryText:
    """The SELECT of the definition's statement."""
    statements = parse(definition.text)
    if len(statements) != 1 or not isinstance(statements[0], (CreateAsStatement, InsertSelectStatement)):
        raise SqlError(
            f"the text of query {definition.name} in the catalogue is not one CREATE … AS or INSERT … SELECT"
        )
    return statements[0].query
