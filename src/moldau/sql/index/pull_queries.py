"""Pull queries of a server: the indexes of the tables that its queries write, and the answers from them.

    pulls = PullQueries(spark, {"bootstrap.servers": brokers}, "/var/lib/moldau/sql")
    pulls.open(definition)               # a query that the server runs
    pulls.answer(select.query)           # rows, or None: the query is not one for an index
    pulls.close(definition.id, remove=True)

`answer` never guesses: a query that is not understood as a whole gets None, and a bounded scan of the topic answers it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.host.event_log import event_logger
from moldau.sql.declarations import Declaration, RelationKind
from moldau.sql.index.direct_rows import DirectRows, NotDirect
from moldau.sql.index.key_index import ANSWER_TIMEOUT_S, KeyIndex
from moldau.sql.index.pull_query import PullQuery, read_pull_query
from moldau.sql.index.spark_rows import SparkRows
from moldau.sql.index.table_keys import KeyValue, TableKeys, accepts
from moldau.sql.queries import QueryDefinition
from moldau.sql.results import ResultRows
from moldau.sql.statements import QueryText

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = event_logger(__name__)

DIRECTORY: Final = "index"
"""The index of a query is in STATE/ID/index, where STATE is the directory given to PullQueries."""
MAX_INDEXES: Final = 200
"""The largest number of tables with an index; further tables are answered by scans."""


class PullQueries:
    """The indexes of one server. Any thread may use it.

    `spark` is the session, or a function that gives the current one: a server replaces it when its JVM has died.
    """

    def __init__(
        self, spark: SparkSession | Callable[[], SparkSession], client_settings: Mapping[str, Any], directory: str
    ) -> None:
        self._spark: Callable[[], SparkSession] = spark if callable(spark) else lambda: spark
        self._client_settings = dict(client_settings)
        self._directory = directory
        self._guard = threading.Lock()
        self._indexes: dict[str, KeyIndex] = {}
        """By the lower-case name of the table."""
        self._users: dict[str, str] = {}
        """The table of each query, by the id of the query. Several queries may write one table."""
        self._spark_rows = SparkRows()

    def open(self, definition: QueryDefinition) -> bool:
        """Start the index of the table that the query writes. False: it writes no table that can be asked by key."""
        table = definition.target
        name = table.name.lower()
        if table.kind is not RelationKind.TABLE or not TableKeys(table).supported:
            return False
        with self._guard:
            if definition.id in self._users:
                return True
            if name not in self._indexes:
                if len(self._indexes) >= MAX_INDEXES:
                    log.warning("too many indexes", extra={"table": table.name, "limit": MAX_INDEXES})
                    return False
                self._indexes[name] = KeyIndex(
                    table, self._client_settings, f"{self._directory}/{definition.id}/{DIRECTORY}"
                )
            self._users[definition.id] = name
        return True

    def close(self, query_id: str, *, remove: bool = False) -> None:
        """End the index of a query, unless another query writes the same table. `remove` also deletes its file."""
        with self._guard:
            name = self._users.pop(query_id, None)
            if name is None or name in self._users.values():
                return
            index = self._indexes.pop(name)
        index.close(remove=remove)

    def close_all(self) -> None:
        """Stop all indexes; their files stay, and are continued by the next `open`."""
        for query_id in list(self._users):
            self.close(query_id)

    def positions(self, table: str) -> dict[int, int]:
        """The next offset of each partition that the index of a table has read up to; empty without an index."""
        with self._guard:
            index = self._indexes.get(table.lower())
        return {} if index is None else index.positions()

    def answer(self, query: QueryText, timeout_s: float = ANSWER_TIMEOUT_S) -> ResultRows | None:
        """The rows, including all that was committed before the call; None if no index can answer the query.

        Raises SqlError if the index does not reach the end of the topic within `timeout_s`, and for a query that Spark
        refuses.
        """
        if query.continuous or query.as_of or query.limit is not None:
            return None
        if query.within or query.grace or query.window:
            return None
        if not self._indexes:
            return None
        spark = self._spark()
        asked = _read(spark, query.text)
        if asked is None:
            return None
        with self._guard:
            index = self._indexes.get(asked.relation.lower())
        if index is None:
            return None
        values = key_values(asked, index.declaration)
        lookups = None if values is None else index.keys.lookups(values)
        if lookups is None:
            return None
        direct = _direct_rows(asked, index.declaration)
        records = index.get(lookups, timeout_s)
        if direct is not None:
            try:
                rows = direct.rows(records, asked.literals)
                return ResultRows(direct.columns, iter(rows))
            except NotDirect:
                pass
        return self._spark_rows.answer(spark, query, index.declaration, records)


def _read(spark: SparkSession, text: str) -> PullQuery | None:
    from pyspark.errors import PySparkException

    try:
        parser = spark._jsparkSession.sessionState().sqlParser()
        return read_pull_query(str(parser.parsePlan(text).toJSON()))
    except PySparkException:
        return None  # the bounded query reports the error, with its position


def key_values(asked: PullQuery, table: Declaration) -> dict[str, tuple[KeyValue, ...]] | None:
    """The values of the key columns in the query, by name; None if it does not give all, or of another type."""
    found = {}
    for column in TableKeys(table).columns:
        values = asked.literals.get(column.name.lower())
        if values is None or not all(accepts(column, value) for value in values):
            return None
        found[column.name] = values
    return found


def _direct_rows(asked: PullQuery, table: Declaration) -> DirectRows | None:
    """The way without Spark, if the query has only plain columns, and conditions on comparable key columns."""
    if asked.plain is None:
        return None
    comparable = {column.name.lower() for column in TableKeys(table).columns}
    if not comparable.issuperset(asked.literals):
        return None
    try:
        return DirectRows(table, asked.plain)
    except NotDirect:
        return None
