"""Session of streaming SQL: runs statements, one after the other, on one Spark session and one cluster.

    with SqlSession({"bootstrap.servers": brokers}) as session:
        for statement in parser.parse("SELECT count(*) FROM orders;"):
            result = session.execute(statement)

Every error is a SqlError. Continuous queries with a name are only written to the catalogue: servers run them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.sql import bounded_select, statements
from moldau.sql.errors import SqlError
from moldau.sql.results import Notice, Result
from moldau.sql.session_context import SessionContext
from moldau.sql.session_settings import SessionSettings
from moldau.sql.spark_errors import in_sql_terms, quiet_spark_logging
from moldau.sql.tables.relations import Relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.sql.catalogue import Catalogue

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"


class SqlSession:
    """Runs statements. Any thread may call `execute`; statements wait for each other while they are planned."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        *,
        master: str | None = None,
        catalogue: Catalogue | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """Without a catalogue the session opens one. Without a Spark session it starts one, and stops it at the end."""
        quiet_spark_logging()
        self.client_settings = dict(client_settings)
        self._owns_spark = spark is None
        self._owns_catalogue = catalogue is None
        with in_sql_terms():
            self.catalogue = _opened(self.client_settings) if catalogue is None else catalogue
            try:
                parent = _started(master) if spark is None else spark
                self.spark = _own_session(parent)
            except BaseException:
                if self._owns_catalogue:
                    self.catalogue.close()
                raise
        self.relations = Relations(self.spark, self.client_settings, self.catalogue)
        self.settings = SessionSettings(self.spark, self.relations)
        self._context = SessionContext(self.spark, self.relations, self.catalogue, self.settings, self.client_settings)
        self._lock = threading.RLock()

    def close(self) -> None:
        self.relations.close()
        if self._owns_catalogue:
            self.catalogue.close()
        if self._owns_spark:
            self.spark.stop()

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, statement: statements.Statement) -> Result:
        """Run a statement. Raises SqlError."""
        with self._lock:
            try:
                with in_sql_terms(None, self.spark):
                    self.catalogue.refresh()
                    return self._run(statement)
            except SqlError as error:
                raise _placed(error, statement) from None

    def _run(self, statement: statements.Statement) -> Result:
        # The code of a statement is imported at its first use: a shell is ready sooner.
        from moldau.sql import (
            declared_relations,
            descriptions,
            explanations,
            inserted_values,
            listings,
            printed_records,
            query_statements,
        )

        match statement:
            case statements.SelectStatement():
                return self._select(statement.query)
            case statements.CreateDeclaredStatement():
                return declared_relations.create(self._context, statement)
            case statements.DropStatement():
                return declared_relations.drop(self._context, statement)
            case statements.InsertValuesStatement():
                return inserted_values.insert(self._context, statement)
            case statements.ShowStatement():
                return listings.show(self._context, statement)
            case statements.DescribeStatement():
                return descriptions.describe(self._context, statement)
            case statements.PrintStatement():
                return printed_records.print_records(self._context, statement)
            case statements.ExplainStatement():
                return explanations.explain(self._context, statement)
            case statements.CreateAsStatement():
                return query_statements.create_as(self._context, statement)
            case statements.InsertSelectStatement():
                return query_statements.insert_select(self._context, statement)
            case statements.ChangeQueryStatement():
                return query_statements.change_query(self._context, statement)
            case statements.SetStatement():
                return self._set(statement)
            case statements.DefineStatement():
                return Notice(f"{statement.name} is {'undefined' if statement.value is None else 'defined'}")
            case _:
                raise SqlError("this statement runs in the shell only")

    def _select(self, query: statements.QueryText) -> Result:
        if not query.continuous:
            return bounded_select.select(self.spark, self.relations, query)
        from moldau.sql import continuous

        return continuous.changes(continuous.plan(self.spark, query, self.relations))

    def _set(self, statement: statements.SetStatement) -> Notice:
        name = self.settings.set(statement.name, statement.value)
        if statement.value is None:
            return Notice(f"{name} has its default again")
        return Notice(f"{name} is {statement.value}")


def _placed(error: SqlError, statement: statements.Statement) -> SqlError:
    """The error with the place of the statement, if it has none of its own."""
    if error.line is not None:
        return error
    return SqlError(error.message, line=statement.position.line, column=statement.position.column, hint=error.hint)


def _opened(client_settings: Mapping[str, Any]) -> Catalogue:
    from moldau.sql.catalogue import Catalogue

    catalogue = Catalogue(client_settings)
    catalogue.open()
    return catalogue


def _started(master: str | None) -> SparkSession:
    try:
        from moldau.spark import session
    except ImportError as missing:
        raise SqlError(f"streaming SQL needs {missing.name}", hint="pip install 'moldau[sql]'") from None
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    started = session("moldau sql", master=master, config=quiet)
    started.sparkContext.setLogLevel("OFF")
    return started


def _own_session(parent: SparkSession) -> SparkSession:
    """A session with views and settings of its own on the same Spark."""
    own = parent.newSession()
    for name in (SHUFFLE_PARTITIONS, "spark.sql.session.timeZone"):
        own.conf.set(name, str(parent.conf.get(name)))
    return own
