"""Changes of the offsets of a stopped connector, after every worker that ran it before is fenced.

A worker that was stopped for a while may still believe that it runs the connector. Without fencing it could commit
after the change. A source's last decision is finished first, as in a take-over: otherwise the next start would finish
it, and restore the offsets from before it.

Blocking: the engine runs these functions in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.client.blocking.producer import Producer
from moldau.client.data_types import TopicPartition
from moldau.connect.connector import (
    PARTITION_INDEX,
    PARTITION_OFFSET,
    PARTITION_TOPIC,
    Offset,
    PolledSourceConnector,
    SinkConnector,
)
from moldau.connect.engine.identities import connector_id, polled_transactional_id, sink_transactional_id
from moldau.connect.engine.runner import RunContext
from moldau.connect.engine.runner_creation import WorkerParts, connector_class, resolved, run_context
from moldau.connect.engine.source_commit import PlainCommits, SourceCommits
from moldau.connect.engine.source_offsets import OffsetTable
from moldau.connect.engine.source_runner import exactly_once, producer_options

NewOffsets = Sequence[tuple[Offset, Offset | None]]


def change_offsets(parts: WorkerParts, name: str, raw: Mapping[str, Any], offsets: NewOffsets | None) -> None:
    """Store these offsets of a source; an offset of None removes one, `offsets` of None all.

    The offsets of a sink are those of its consumer group, which the caller changes afterwards: here its workers are
    fenced, and the connector changes what its target keeps.
    """
    config = resolved(parts, raw).config
    context = run_context(parts, name, connector_class(parts, config), config)
    try:
        if isinstance(context.connector, SinkConnector):
            _fence(context, sink_transactional_id(parts.group, name))
            context.connector.change_offsets(None if offsets is None else _of_sink(offsets))
        elif isinstance(context.connector, PolledSourceConnector) and exactly_once(context):
            _change_polled(context, parts.table, offsets)
        else:
            _change_source(context, parts.table, offsets)
    finally:
        context.connector.close()


def _change_source(context: RunContext, table: OffsetTable, offsets: NewOffsets | None) -> None:
    options = producer_options(context)
    commits: SourceCommits | PlainCommits
    if options.exactly_once:
        query = connector_id(context.group, context.name)
        commits = SourceCommits(options, query, context.new_run(), context.name, table)
    else:
        commits = PlainCommits(context.clients.producer, context.name, table)
    try:
        before = commits.take_over()
        commits.commit([], before, _all_removed(before) if offsets is None else offsets)
        commits.settle()
    finally:
        commits.close()


def _change_polled(context: RunContext, table: OffsetTable, offsets: NewOffsets | None) -> None:
    with _fencing_producer(context, polled_transactional_id(context.group, context.name)) as producer:
        producer.init_transactions()
        before = table.of(context.name)
        with producer.transaction():
            for key, value in table.records(context.name, _all_removed(before) if offsets is None else offsets):
                producer.send(table.topic, value, key=key)


def _fence(context: RunContext, transactional_id: str) -> None:
    with _fencing_producer(context, transactional_id) as producer:
        producer.init_transactions()


def _fencing_producer(context: RunContext, transactional_id: str) -> Producer:
    return Producer({**context.clients.producer, "transactional.id": transactional_id})


def _of_sink(offsets: NewOffsets) -> dict[TopicPartition, int | None]:
    """Offsets in the form that Kafka Connect's REST API gives those of sinks."""
    return {
        TopicPartition(str(one[PARTITION_TOPIC]), int(one[PARTITION_INDEX])): (
            None if offset is None else int(offset[PARTITION_OFFSET])
        )
        for one, offset in offsets
    }


def _all_removed(stored: Any) -> NewOffsets:
    return [(partition, None) for partition, _ in stored]
