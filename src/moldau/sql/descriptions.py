"""DESCRIBE [EXTENDED]: the columns of a relation, where they come from, and what its topic has.

As in Spark, EXTENDED adds lines after the columns: name, value, and nothing in the third column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from moldau.sql.declarations import Declaration
from moldau.sql.listings import key_text, state_text
from moldau.sql.relation_names import quoted
from moldau.sql.results import ResultRows
from moldau.sql.session_context import SessionContext, listed
from moldau.sql.statements import DescribeStatement
from moldau.sql.tables.record_columns import RECORD_COLUMNS, RECORD_TYPES, record_names
from moldau.sql.tables.relations import InferredColumns
from moldau.sql.tables.topic_lookup import OffsetSpan

SAMPLE_ROWS = 3
"""The number of sample records of DESCRIBE EXTENDED."""
MAX_VALUE = 200

COLUMNS = [("name", "string"), ("type", "string"), ("comment", "string")]


def describe(context: SessionContext, statement: DescribeStatement) -> ResultRows:
    """Run DESCRIBE."""
    relations = context.relations
    found = relations.find(statement.name)
    declared = relations.declared(statement.name)
    topic = relations.topic_of(found)
    is_inferred = declared is None or not declared.columns
    inferred = relations.inferred(topic) if is_inferred else None
    rows = list(_columns(found, inferred))
    if statement.extended:
        span = relations.lookup.span(topic)
        rows += [("", "", ""), ("# Details", "", "")]
        rows += [(name, value, "") for name, value in _details(context, found, span)]
        rows += [("", "", ""), ("# Last records", "", "")]
        rows += [(place, value, "") for place, value in _samples(context, span)]
    return listed(COLUMNS, rows, [_summary(found), *_origin(found, inferred)])


def _columns(found: Declaration, inferred: InferredColumns | None) -> Iterator[tuple[str, str, str]]:
    for column in found.columns:
        comments = []
        if column.is_key:
            comments.append("key")
        elif inferred is not None:
            comments.append("inferred")
        if column.name == found.timestamp:
            comments.append("event time")
        yield column.name, column.type.lower(), ", ".join(comments)
    names = record_names(column.name for column in found.columns)
    for name in RECORD_COLUMNS:
        comment = "of the record"
        if name == "timestamp" and found.timestamp is not None:
            comment = f"of the record: the event time, from {found.timestamp}"
        elif found.text and found.columns:
            comment = "of the record; not in SELECT *"
        yield names[name], RECORD_TYPES[name], comment


def _summary(found: Declaration) -> str:
    what = (
        f"{found.kind} {quoted(found.name)} on topic {found.topic}, key {found.key_format}, value {found.value_format}"
    )
    return what if found.query is None else f"{what}, written by query {quoted(found.query)}"


def _origin(found: Declaration, inferred: InferredColumns | None) -> Iterator[str]:
    if inferred is None:
        return
    if not inferred.records:
        yield "the topic has no records yet, so no columns were inferred"
    elif not inferred.columns:
        yield f"the last {inferred.records} records are not JSON objects: value has their text"
    else:
        yield f"columns inferred from the last {inferred.records} records; CREATE {found.kind} declares them"
    if inferred.dropped:
        yield f"fields without a column, because a column differs in case only: {', '.join(inferred.dropped)}"


def _details(context: SessionContext, found: Declaration, span: OffsetSpan) -> Iterator[tuple[str, str]]:
    yield "kind", str(found.kind)
    yield "topic", found.topic
    yield "key", key_text(found) or "none"
    yield "key format", found.key_format
    yield "value format", found.value_format
    yield "event time", found.timestamp or "timestamp of the record"
    yield from sorted(found.options.items())
    yield "partitions", str(span.topic.partitions)
    yield "records", f"{span.offsets} (offsets; compaction and transactions leave gaps)"
    for partition, first in sorted(span.first.items()):
        yield f"partition {partition}", f"offsets {first} to {span.end[partition]}"
    yield from _writer(context, found)
    if found.text:
        yield "declared as", " ".join(found.text.split())


def _writer(context: SessionContext, found: Declaration) -> Iterator[tuple[str, str]]:
    if found.query is None:
        return
    definition = context.catalogue.queries.get(found.query)
    yield "written by", found.query
    if definition is None:
        return
    status = context.catalogue.statuses.get(definition.name)
    yield "query state", state_text(definition, status)
    yield "query", " ".join(definition.text.split())
    if status is not None and status.trace:
        yield "query error", status.trace
    if status is not None:
        for reason, count in sorted(status.dropped.items()):
            yield reason.replace("_", " "), str(count)


def _samples(context: SessionContext, span: OffsetSpan) -> Iterator[tuple[str, str]]:
    for partition, end in sorted(span.end.items()):
        last = {partition: max(span.first[partition], end - SAMPLE_ROWS)}
        part = replace(span, first=last)
        for batch in context.relations.records(part):
            for row in batch.to_pylist():
                moment: datetime = row["timestamp"].astimezone(UTC)
                place = f"{partition}:{row['offset']} {moment:%Y-%m-%d %H:%M:%S}"
                yield place, f"{text_of(row['key'])} -> {text_of(row['value'])}"


def text_of(value: bytes | None) -> str:
    """Bytes for a person: text if it is UTF-8, else hex digits."""
    if value is None:
        return "NULL"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "0x" + value.hex()
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"
