"""SHOW TOPICS, STREAMS, TABLES, QUERIES, FUNCTIONS and SETTINGS."""

from __future__ import annotations

from typing import Final

from moldau.host.clock import SystemClock
from moldau.sql.catalogue import Catalogue
from moldau.sql.declarations import Declaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.queries import QueryDefinition, QueryStatus, WantedState
from moldau.sql.results import ResultRows
from moldau.sql.session_context import SessionContext, listed
from moldau.sql.spark_errors import function_names
from moldau.sql.statements import Shown, ShowStatement

REPORT_TIMEOUT_MS: Final = 30_000
"""A query whose last report is older than this is not run by any server at present."""
MAX_TEXT: Final = 200


def show(context: SessionContext, statement: ShowStatement) -> ResultRows:
    """Run SHOW."""
    match statement.what:
        case Shown.TOPICS:
            return _topics(context)
        case Shown.STREAMS:
            return _relations(context, RelationKind.STREAM)
        case Shown.TABLES:
            return _relations(context, RelationKind.TABLE)
        case Shown.QUERIES:
            return _queries(context)
        case Shown.FUNCTIONS:
            return _functions(context)
        case Shown.SETTINGS:
            rows = context.settings.rows()
            return listed([("name", "string"), ("value", "string"), ("meaning", "string")], rows)
        case _:
            raise SqlError(f"SHOW {statement.what} is a statement of the shell")


def _topics(context: SessionContext) -> ResultRows:
    lookup = context.relations.lookup
    topics = sorted(lookup.topics(lookup.names()).values(), key=lambda topic: topic.name)
    counts = lookup.counts(topics)
    declared: dict[str, list[str]] = {}
    for one in context.catalogue.declarations.values():
        declared.setdefault(one.topic, []).append(f"{one.kind} {one.name}")
    rows = [
        (topic.name, topic.partitions, counts[topic.name], ", ".join(sorted(declared.get(topic.name, ()))))
        for topic in topics
    ]
    return listed([("topic", "string"), ("partitions", "int"), ("records", "bigint"), ("declared", "string")], rows)


def _relations(context: SessionContext, kind: RelationKind) -> ResultRows:
    found = sorted(
        (one for one in context.catalogue.declarations.values() if one.kind is kind), key=lambda one: one.name.lower()
    )
    columns = [("name", "string"), ("topic", "string"), ("key", "string"), ("key_format", "string")]
    columns += [("value_format", "string"), ("query", "string")]
    rows = [(one.name, one.topic, key_text(one), one.key_format, one.value_format, one.query) for one in found]
    notes = () if rows else (f"no {kind.lower()} is declared; topics can be queried without a declaration",)
    return listed(columns, rows, notes)


def key_text(declaration: Declaration) -> str:
    return ", ".join(column.name for column in declaration.key_columns) or declaration.options.get("key", "")


def _queries(context: SessionContext) -> ResultRows:
    catalogue = context.catalogue
    columns = [("name", "string"), ("state", "string"), ("target", "string"), ("rows", "bigint")]
    columns += [("rows_per_s", "double"), ("lag", "bigint"), ("dropped", "bigint"), ("restarts", "int")]
    columns += [("server", "string"), ("query", "string")]
    rows = []
    for definition in sorted(catalogue.queries.values(), key=lambda one: one.name.lower()):
        status = catalogue.statuses.get(definition.name)
        text = " ".join(definition.text.split())
        rows.append(
            (
                definition.name,
                state_text(definition, status),
                definition.target.name,
                *_numbers(status),
                None if status is None else status.server,
                text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…",
            )
        )
    return listed(columns, rows, no_server_warning(catalogue) if rows else ())


def _numbers(status: QueryStatus | None) -> tuple[int | None, float | None, int | None, int | None, int | None]:
    if status is None:
        return None, None, None, None, None
    return status.rows, status.rows_per_s, status.lag, sum(status.dropped.values()), status.restarts


def state_text(definition: QueryDefinition, status: QueryStatus | None) -> str:
    """What a query does. WAITING: no server has taken it yet, or the server that ran it no longer reports."""
    if status is None or not is_fresh(status):
        return "PAUSED" if definition.wanted is WantedState.PAUSED else "WAITING"
    return str(status.state)


def is_fresh(status: QueryStatus) -> bool:
    return SystemClock().now_ms() - status.reported_ms < REPORT_TIMEOUT_MS


def no_server_warning(catalogue: Catalogue) -> tuple[str, ...]:
    """A warning if no server has reported on any query lately."""
    if any(is_fresh(status) for status in catalogue.statuses.values()):
        return ()
    seconds = REPORT_TIMEOUT_MS // 1000
    return (f"no server has reported in the last {seconds} s: start one with `moldau sql serve`",)


def _functions(context: SessionContext) -> ResultRows:
    rows = [(name,) for name in function_names(context.spark)]
    return listed([("function", "string")], rows, ("DESCRIBE FUNCTION name describes one",))
