"""CREATE STREAM|TABLE … WITH (…) and DROP: checks a declaration, creates its topic, and writes the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.relation_names import did_you_mean, nearest, quoted
from moldau.sql.results import Notice
from moldau.sql.session_context import SessionContext
from moldau.sql.spark_errors import in_sql_terms
from moldau.sql.statements import CreateDeclaredStatement, DropStatement
from moldau.sql.tables.frames import decoded
from moldau.sql.tables.key_formats import BINARY_NUMBERS, KEY_FORMAT_NAMES, KEY_FORMATS, LATER_FORMATS
from moldau.sql.tables.topic_lookup import KnownTopic
from moldau.sql.tables.value_formats import VALUE_FORMAT_NAMES, VALUE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC_SETTINGS: Final = ("partitions", "replicas", "retention_ms")
TIME_TYPES: Final = ("timestamp", "timestamp_ltz", "timestamp_ntz", "date", "bigint", "int", "string")
WHOLE_VALUE: Final = ("string", "bytes")
"""Formats whose value is one column."""


def create(context: SessionContext, statement: CreateDeclaredStatement) -> Notice:
    """Run CREATE STREAM|TABLE … WITH (…)."""
    found = context.relations.declared(statement.name)
    if found is not None and statement.if_not_exists:
        return Notice(f"{found.kind.lower()} {quoted(found.name)} exists; nothing was changed")
    declaration = declaration_of(statement)
    check(context.spark, declaration)
    if found is not None and not statement.or_replace:
        context.catalogue.declare(declaration)  # raises: it exists
    topic, created = topic_for(context, declaration, statement.settings)
    context.catalogue.declare(declaration, replace=statement.or_replace, if_not_exists=statement.if_not_exists)
    what = f"{declaration.kind.lower()} {quoted(declaration.name)} is declared on "
    what += f"{'the new topic' if created else 'topic'} {topic.name} ({_partitions(topic)})"
    warnings = () if created else tuple(_warnings(context, declaration, topic, statement.settings))
    return Notice(what, warnings)


def declaration_of(statement: CreateDeclaredStatement) -> Declaration:
    """The declaration of a statement. Raises SqlError for formats that do not exist."""
    settings = statement.settings
    keys = [column for column in statement.columns if column.is_key]
    wanted_key = settings.get("key_format", "json" if len(keys) > 1 else "string")
    options = {
        name: value
        for name, value in settings.items()
        if name not in ("topic", "value_format", "key_format", "timestamp", *TOPIC_SETTINGS)
    }
    timestamp = settings.get("timestamp")
    same = [column.name for column in statement.columns if timestamp and column.name.lower() == timestamp.lower()]
    return Declaration(
        statement.name,
        statement.kind,
        settings.get("topic", statement.name),
        statement.columns,
        checked_format(settings.get("value_format", "json"), VALUE_FORMATS, VALUE_FORMAT_NAMES, "value_format"),
        checked_format(wanted_key, KEY_FORMATS, KEY_FORMAT_NAMES, "key_format"),
        same[0] if same else timestamp,
        options,
        text=statement.text,
    )


def checked_format(name: str, known: tuple[str, ...], other_names: Mapping[str, str], setting: str) -> str:
    """The format by its usual name. Raises SqlError if there is none."""
    found = other_names.get(name.lower(), name.lower())
    if found in known:
        return found
    if found in LATER_FORMATS:
        raise SqlError(
            f"{setting}={name} needs a schema registry, which this version does not have",
            hint=f"use one of {', '.join(known)}",
        )
    near = nearest(found, (*known, *other_names))
    raise SqlError(
        f"there is no {setting} {name!r}", hint=f"did you mean {near}?" if near else f"use one of {', '.join(known)}"
    )


def check(spark: SparkSession, declaration: Declaration) -> None:
    """Raise SqlError if a declaration cannot be read."""
    _check_types(spark, declaration)
    _check_key(declaration)
    values = declaration.value_columns
    if declaration.value_format in WHOLE_VALUE and len(values) > 1:
        raise SqlError(
            f"value_format={declaration.value_format} has one value column, and {len(values)} are declared: "
            f"{', '.join(column.name for column in values)}",
            hint="use value_format=json or csv, or declare the key columns with KEY",
        )
    if declaration.value_format == "bytes" and values and values[0].type.lower() != "binary":
        raise SqlError(f"column {values[0].name} of value_format=bytes must be BINARY, not {values[0].type}")
    _check_timestamp(declaration)
    _check_frame(spark, declaration)


def _check_types(spark: SparkSession, declaration: Declaration) -> None:
    from pyspark.sql.types import DataType

    for column in declaration.columns:
        try:
            with in_sql_terms(None, spark):
                DataType.fromDDL(column.type)
        except SqlError as error:
            raise SqlError(f"the type of column {column.name}, {column.type}: {error.message}") from None


def _check_key(declaration: Declaration) -> None:
    keys = declaration.key_columns
    has_key = bool(keys) or "key" in declaration.options
    if declaration.kind is RelationKind.TABLE and not has_key:
        if not declaration.columns:
            advice = f"CREATE TABLE {quoted(declaration.name)} WITH (key='id', …)"
        else:
            first = declaration.columns[0]
            advice = f"CREATE TABLE {quoted(declaration.name)} ({first.name} {first.type} PRIMARY KEY, …) WITH (…)"
        raise SqlError(
            f"table {declaration.name} has no key column, so its rows cannot be told apart", hint=f"write {advice}"
        )
    if declaration.key_format == "none" and has_key:
        raise SqlError("key_format=none, but key columns are declared", hint="remove one of the two")
    if len(keys) > 1 and declaration.key_format != "json":
        raise SqlError(
            f"several key columns ({', '.join(column.name for column in keys)}) are a JSON object, and not "
            f"{declaration.key_format}",
            hint="write key_format=json",
        )
    if declaration.key_format in BINARY_NUMBERS and keys:
        wanted = BINARY_NUMBERS[declaration.key_format][1]
        if keys[0].type.lower() not in (wanted, "bigint" if wanted != "double" else wanted):
            raise SqlError(
                f"key column {keys[0].name} is {keys[0].type}, but key_format={declaration.key_format} "
                f"is a number of type {wanted.upper()}",
                hint=f"declare {keys[0].name} {wanted.upper()} KEY",
            )


def _check_timestamp(declaration: Declaration) -> None:
    if declaration.timestamp is None:
        return
    if not declaration.columns:
        raise SqlError("timestamp= names a column, so the columns must be declared")
    column = next((one for one in declaration.columns if one.name == declaration.timestamp), None)
    if column is None:
        names = [one.name for one in declaration.columns]
        raise SqlError(
            f"timestamp={declaration.timestamp}: there is no such column",
            hint=did_you_mean(declaration.timestamp, names) or f"the columns are {', '.join(names)}",
        )
    if column.type.lower() not in TIME_TYPES:
        raise SqlError(
            f"column {column.name} cannot be the event time: it is {column.type}",
            hint="it must be TIMESTAMP, BIGINT (milliseconds since 1970), or STRING with timestamp_format",
        )


def _check_frame(spark: SparkSession, declaration: Declaration) -> None:
    """Let Spark analyse how the columns are read, for example types that CSV cannot hold."""
    from moldau.spark.rows import row_schema

    with in_sql_terms(None, spark):
        assert decoded(spark.createDataFrame([], row_schema(headers=True)), declaration).schema


def topic_for(
    context: SessionContext,
    declaration: Declaration,
    settings: Mapping[str, str],
    *,
    partitions: int | None = None,
) -> tuple[KnownTopic, bool]:
    """The topic of a declaration, and whether it was created. `partitions`: how many if the settings do not say."""
    lookup = context.relations.lookup
    found = lookup.topic(declaration.topic)
    if found is not None:
        wanted = settings.get("partitions")
        if wanted is not None and int(wanted) != found.partitions:
            raise SqlError(
                f"topic {found.name} exists with {_partitions(found)}, not {wanted}",
                hint="remove partitions=, or name another topic",
            )
        return found, False
    number = int(settings["partitions"]) if "partitions" in settings else partitions
    if number is None:
        near = did_you_mean(declaration.topic, lookup.names())
        raise SqlError(
            f"topic {declaration.topic} does not exist",
            hint=f"{near} Or add partitions=1 to create it" if near else "add partitions=1 to create it",
        )
    configs = {"cleanup.policy": "compact"} if declaration.kind is RelationKind.TABLE else {}
    if "retention_ms" in settings:
        configs["retention.ms"] = settings["retention_ms"]
    replicas = int(settings["replicas"]) if "replicas" in settings else None
    lookup.create(declaration.topic, partitions=number, replicas=replicas, configs=configs)
    return KnownTopic(declaration.topic, "", number), True


def _partitions(topic: KnownTopic) -> str:
    return f"{topic.partitions} partition{'' if topic.partitions == 1 else 's'}"


def _warnings(
    context: SessionContext, declaration: Declaration, topic: KnownTopic, settings: Mapping[str, str]
) -> list[str]:
    warnings = []
    ignored = [name for name in ("replicas", "retention_ms") if name in settings]
    if ignored:
        warnings.append(f"topic {topic.name} exists: {' and '.join(ignored)} had no effect")
    if declaration.topic != declaration.name and context.relations.lookup.topic(declaration.name) is not None:
        warnings.append(f"there is also a topic {declaration.name}: the name now stands for the declaration")
    found = context.relations.inferred(topic)
    if declaration.value_format == "json" and found.records:
        warnings += _unseen(declaration.value_columns, [column.name for column in found.columns], found.records)
    return warnings


def _unseen(columns: tuple[ColumnDeclaration, ...], fields: list[str], records: int) -> list[str]:
    """Columns that no sampled record has. JSON names are compared with case, so a wrong case gives only nulls."""
    if not fields:
        return [f"none of the last {records} records is a JSON object"] if columns else []
    warnings = []
    for column in columns:
        if column.name not in fields:
            near = nearest(column.name, fields)
            advice = f"; did you mean {near}?" if near else ""
            warnings.append(f"column {column.name} is in none of the last {records} records{advice}")
    return warnings


def drop(context: SessionContext, statement: DropStatement) -> Notice:
    """Run DROP STREAM|TABLE."""
    found = context.relations.declared(statement.name)
    if found is None:
        return _nothing_to_drop(context, statement)
    if found.kind is not statement.kind:
        raise SqlError(
            f"{quoted(found.name)} is a {found.kind}, not a {statement.kind}",
            hint=f"write DROP {found.kind} {quoted(found.name)}",
        )
    if statement.delete_topic:
        _check_unused(context, found)
    context.catalogue.drop(found.name)
    if not statement.delete_topic:
        return Notice(f"{found.kind.lower()} {quoted(found.name)} is dropped; topic {found.topic} still exists")
    if context.relations.lookup.topic(found.topic) is None:
        return Notice(f"{found.kind.lower()} {quoted(found.name)} is dropped; topic {found.topic} did not exist")
    context.relations.lookup.delete(found.topic)
    return Notice(f"{found.kind.lower()} {quoted(found.name)} is dropped, and topic {found.topic} is deleted")


def _nothing_to_drop(context: SessionContext, statement: DropStatement) -> Notice:
    kind = statement.kind.lower()
    if statement.if_exists:
        return Notice(f"there is no {kind} {quoted(statement.name)}; nothing was changed")
    names = [one.name for one in context.catalogue.declarations.values()]
    hint = did_you_mean(statement.name, names)
    if hint is None and context.relations.lookup.topic(statement.name) is not None:
        hint = f"{statement.name} is a topic without a declaration: moldau topics delete {statement.name}"
    raise SqlError(f"there is no {kind} {quoted(statement.name)}", hint=hint)


def _check_unused(context: SessionContext, declaration: Declaration) -> None:
    """Refuse to delete a topic that something else still uses."""
    for query in context.catalogue.queries.values():
        used = [one.topic for one in (query.target, *query.sources)]
        if declaration.topic in used:
            raise SqlError(
                f"topic {declaration.topic} is used by query {quoted(query.name)}",
                hint=f"first: TERMINATE {quoted(query.name)};",
            )
    for other in context.catalogue.declarations.values():
        if other.topic == declaration.topic and other.name.lower() != declaration.name.lower():
            raise SqlError(
                f"topic {declaration.topic} is also that of {other.kind.lower()} {quoted(other.name)}",
                hint=f"first: DROP {other.kind} {quoted(other.name)};",
            )
