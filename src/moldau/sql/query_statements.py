"""CREATE … AS SELECT, INSERT INTO … SELECT, PAUSE, RESUME and TERMINATE: named queries in the catalogue.

This session only checks and writes; servers run the queries. The key, the columns and the types of the target come from
the plan of the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from moldau.host.clock import SystemClock, SystemRandomness
from moldau.sql import continuous
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.declared_relations import check, checked_format, topic_for
from moldau.sql.errors import SqlError
from moldau.sql.listings import no_server_warning
from moldau.sql.queries import QueryDefinition, WantedState
from moldau.sql.relation_names import did_you_mean, quoted
from moldau.sql.results import Notice
from moldau.sql.session_context import SessionContext
from moldau.sql.statements import (
    ChangeQueryStatement,
    CreateAsStatement,
    InsertSelectStatement,
    QueryAction,
    Statement,
)
from moldau.sql.tables.key_formats import KEY_FORMAT_NAMES, KEY_FORMATS
from moldau.sql.tables.value_formats import VALUE_FORMAT_NAMES, VALUE_FORMATS


def create_as(context: SessionContext, statement: CreateAsStatement) -> Notice:
    """Run CREATE STREAM|TABLE … AS SELECT."""
    found = context.relations.declared(statement.name)
    if found is not None and statement.if_not_exists:
        return Notice(f"{found.kind.lower()} {quoted(found.name)} exists; nothing was changed")
    if found is not None and not statement.or_replace:
        raise SqlError(
            f"{found.kind} {found.name} exists",
            hint=f"CREATE OR REPLACE {found.kind}, or first: DROP {found.kind} {quoted(found.name)};",
        )
    planned = continuous.plan(context.spark, replace(statement.query, continuous=True), context.relations)
    if planned.kind is not statement.kind:
        other = "an aggregate, or it reads a table" if planned.kind is RelationKind.TABLE else "no aggregate"
        raise SqlError(
            f"the result of this query is a {planned.kind}, not a {statement.kind}: it has {other}",
            hint=f"write CREATE {planned.kind} {quoted(statement.name)} AS SELECT …",
        )
    if planned.kind is RelationKind.TABLE and not planned.record_key and "key" not in statement.settings:
        raise SqlError(
            "the result is one row without a key, and a table needs one",
            hint="add a key: SELECT 'all' AS id, count(*) … GROUP BY 'all'",
        )
    query_name = statement.settings.get("query_id", statement.name)
    target = target_of(statement, planned, query_name)
    check(context.spark, target)
    _check_not_a_source(target, planned.sources)
    topic, created = topic_for(context, target, statement.settings, partitions=_partitions(context, planned))
    definition = _definition(context, statement, query_name, target, planned)
    context.catalogue.put_query(definition, replace=statement.or_replace)
    what = f"query {quoted(query_name)} writes {target.kind.lower()} {quoted(target.name)}, "
    partitions = "1 partition" if topic.partitions == 1 else f"{topic.partitions} partitions"
    what += f"{'the new topic' if created else 'topic'} {topic.name} ({partitions})"
    return Notice(what, (*planned.warnings, *no_server_warning(context.catalogue)))


def target_of(statement: CreateAsStatement, planned: continuous.ContinuousPlan, query_name: str) -> Declaration:
    """The declaration of the result."""
    settings = statement.settings
    columns = _with_key(_columns(planned), settings, planned.record_key)
    keys = [column for column in columns if column.is_key]
    key_format = settings.get("key_format", "json" if len(keys) > 1 else "string")
    timestamp = settings.get("timestamp")
    same = [column.name for column in columns if timestamp and column.name.lower() == timestamp.lower()]
    return Declaration(
        statement.name,
        statement.kind,
        settings.get("topic", statement.name),
        columns,
        checked_format(settings.get("value_format", "json"), VALUE_FORMATS, VALUE_FORMAT_NAMES, "value_format"),
        checked_format(key_format, KEY_FORMATS, KEY_FORMAT_NAMES, "key_format"),
        same[0] if same else timestamp,
        {name: settings[name] for name in ("timestamp_format", "value_delimiter") if name in settings},
        query=query_name,
        text=statement.text,
    )


def _columns(planned: continuous.ContinuousPlan) -> tuple[ColumnDeclaration, ...]:
    names: set[str] = set()
    for column in planned.columns:
        if column.name.lower() in names:
            raise SqlError(
                f"the result has two columns {column.name!r}", hint="name one of them otherwise: expression AS name"
            )
        names.add(column.name.lower())
    return tuple(ColumnDeclaration(column.name, column.type.upper()) for column in planned.columns)


def _with_key(
    columns: tuple[ColumnDeclaration, ...], settings: Mapping[str, str], record_key: tuple[str, ...]
) -> tuple[ColumnDeclaration, ...]:
    """The columns with those of the key marked: of WITH (key=…) or PARTITION BY, else of the plan."""
    wanted = [name.strip() for name in settings["key"].split(",")] if "key" in settings else list(record_key)
    known = {column.name.lower() for column in columns}
    for name in wanted:
        if name.lower() not in known:
            names = [column.name for column in columns]
            raise SqlError(
                f"the key column {name} is not in the result",
                hint=did_you_mean(name, names) or f"add it to SELECT; the columns are {', '.join(names)}",
            )
    lower = {name.lower() for name in wanted}
    return tuple(replace(column, is_key=column.name.lower() in lower) for column in columns)


def _check_not_a_source(target: Declaration, sources: tuple[Declaration, ...]) -> None:
    if any(source.topic == target.topic for source in sources):
        raise SqlError(
            f"the query reads topic {target.topic} and would write it: it would never end", hint="write another topic"
        )


def _partitions(context: SessionContext, planned: continuous.ContinuousPlan) -> int:
    """As many partitions as the first source has."""
    return context.relations.topic_of(planned.sources[0]).partitions if planned.sources else 1


def _definition(
    context: SessionContext,
    statement: Statement,
    name: str,
    target: Declaration,
    planned: continuous.ContinuousPlan,
) -> QueryDefinition:
    return QueryDefinition(
        name,
        SystemRandomness().uuid().hex(),
        statement.text,
        target,
        tuple(planned.sources),
        dict(context.settings.changed),
        WantedState.RUNNING,
        SystemClock().now_ms(),
    )


def insert_select(context: SessionContext, statement: InsertSelectStatement) -> Notice:
    """Run INSERT INTO … SELECT."""
    found = context.relations.find(statement.target)
    planned = continuous.plan(context.spark, replace(statement.query, continuous=True), context.relations)
    target = _insert_target(found, planned, statement.settings)
    check(context.spark, target)
    _check_not_a_source(target, planned.sources)
    name = statement.settings.get("query_id", f"insert_{target.name}_{SystemRandomness().uuid().hex()[:6]}")
    context.catalogue.put_query(_definition(context, statement, name, target, planned))
    what = f"query {quoted(name)} writes {target.kind.lower()} {quoted(target.name)}, topic {target.topic}"
    return Notice(what, (*planned.warnings, *no_server_warning(context.catalogue)))


def _insert_target(found: Declaration, planned: continuous.ContinuousPlan, settings: Mapping[str, str]) -> Declaration:
    """The target with the columns of the query: those of a declaration, by name; of a mere topic, those of the plan."""
    columns = _columns(planned)
    if not found.text or not found.columns:
        keyed = _with_key(columns, settings, planned.record_key)
        several = sum(column.is_key for column in keyed) > 1
        return replace(
            found, kind=planned.kind, columns=keyed, value_format="json", key_format="json" if several else "string"
        )
    if found.kind is not planned.kind:
        raise SqlError(
            f"the result of this query is a {planned.kind}, and {quoted(found.name)} is a {found.kind}",
            hint=f"insert it into a {planned.kind}",
        )
    names = [column.name for column in found.columns]
    known = {name.lower() for name in names}
    for column in columns:
        if column.name.lower() not in known:
            raise SqlError(
                f"{quoted(found.name)} has no column {column.name}",
                hint=did_you_mean(column.name, names) or f"its columns are {', '.join(names)}: expression AS column",
            )
    return found


def change_query(context: SessionContext, statement: ChangeQueryStatement) -> Notice:
    """Run PAUSE, RESUME or TERMINATE."""
    catalogue = context.catalogue
    names = [one.name for one in catalogue.queries.values()] if statement.name is None else [statement.name]
    if not names:
        return Notice("there are no queries")
    for name in names:
        match statement.action:
            case QueryAction.PAUSE:
                catalogue.want(name, WantedState.PAUSED)
            case QueryAction.RESUME:
                catalogue.want(name, WantedState.RUNNING)
            case QueryAction.TERMINATE:
                catalogue.remove_query(name)
    done = {"PAUSE": "paused", "RESUME": "resumed", "TERMINATE": "terminated"}[statement.action]
    many = len(names) > 1
    what = (
        f"{'queries' if many else 'query'} {', '.join(quoted(name) for name in names)} {'are' if many else 'is'} {done}"
    )
    warnings = no_server_warning(catalogue) if statement.action is QueryAction.RESUME else ()
    return Notice(what, warnings)
