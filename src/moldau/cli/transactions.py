"""Command `moldau transactions ...`: lists and describes transactions, finds hanging ones, and ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.completion import topic_names
from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    client_settings,
    connected,
)
from moldau.cli.output import Output, fail, print_json, print_table, show, usage_error

if TYPE_CHECKING:
    from moldau.client.admin import OpenTransaction, ProducerState, TransactionDescription
    from moldau.client.blocking.admin import Admin
    from moldau.client.data_types import TopicPartition

app = typer.Typer(help="List, describe and end transactions.", no_args_is_help=True)

DEFAULT_MAX_TIMEOUT_MIN = 15
"""The default of the brokers' transaction.max.timeout.ms."""

MORE_THAN_ANY_MIN = 5
"""The time beyond the longest timeout after which an open transaction counts as hanging."""

IdsArgument = Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID...", help="Transactional ids.")]


@app.command("list")
def list_(
    state: Annotated[list[str] | None, typer.Option(help="Only transactions in this state, such as Ongoing.")] = None,
    longer_than_ms: Annotated[
        int | None, typer.Option(help=("Only transactions that have been open for longer than this."))
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the transactional ids of the cluster.

    Example: moldau transactions list --state Ongoing
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
        found = [
            {
                "transactional_id": one.id,
                "coordinator": one.coordinator,
                "producer_id": one.producer_id,
                "state": one.state,
            }
            for one in admin.list_transactions(states=state or (), longer_than_ms=longer_than_ms)
        ]
    show(found, ("transactional_id", "coordinator", "producer_id", "state"), output)


@app.command()
def describe(
    ids: IdsArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the state of transactional ids, and the partitions of their open transactions.

    Example: moldau transactions describe payments-1
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
        found = [_as_json(one) for one in admin.describe_transactions(ids).values()]
    if output is Output.JSON:
        print_json(found)
        return
    headers = ("transactional_id", "coordinator", "state", "producer_id", "producer_epoch", "timeout_ms", "partitions")
    rows = [(*(one[header] for header in headers[:-1]), " ".join(one["partitions"]) or None) for one in found]
    print_table(headers, rows)


def _as_json(one: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": one.id,
        "coordinator": one.coordinator,
        "state": one.state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.timeout_ms,
        "start_time_ms": one.start_time_ms,
        "partitions": [str(partition) for partition in one.partitions],
    }


@app.command()
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(help="Abort the open transaction of this id, and fence its producer.")
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(help="With --partition: the topic with a hanging transaction.", autocompletion=topic_names),
    ] = None,
    partition: Annotated[int | None, typer.Option(help="The partition with the hanging transaction.")] = None,
    start_offset: Annotated[int | None, typer.Option(help="The first offset of the hanging transaction.")] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Abort the transaction of a transactional id, or a hanging transaction of a partition that no coordinator knows.

    Example: moldau transactions abort payments-1
    """
    place = (topic, partition, start_offset)
    if (transactional_id is None) == (place == (None, None, None)):
        usage_error("give a transactional id, or --topic, --partition and --start-offset of a hanging transaction")
    with connected(bootstrap, command_config, wait=wait) as admin:
        if transactional_id is not None:
            # Terminating an unknown id would create it. Check that it exists, because it may be a typing error.
            admin.describe_transactions(transactional_id)
            admin.terminate_transaction(transactional_id)
            print(f"the transaction of {transactional_id} is aborted")
            return
        if topic is None or partition is None or start_offset is None:
            usage_error("--topic, --partition and --start-offset must be given together")
        from moldau.client.data_types import TopicPartition

        where = TopicPartition(topic, partition)
        abort_hanging(admin, where, start_offset)
        print(f"the transaction at offset {start_offset} of {where} is aborted")


def abort_hanging(admin: Admin, where: TopicPartition, start_offset: int) -> None:
    from moldau.client.admin import AbortSpec

    found = producer_at(admin.describe_producers(where)[where], start_offset)
    if found is None:
        fail(f"no open transaction begins at offset {start_offset} of {where}")
    epoch = 0 if found.coordinator_epoch is None else found.coordinator_epoch
    admin.abort_transaction(AbortSpec(where, found.producer_id, found.producer_epoch, epoch))


def producer_at(producers: tuple[ProducerState, ...], start_offset: int) -> ProducerState | None:
    return next((one for one in producers if one.transaction_start_offset == start_offset), None)


@app.command()
def resolve(
    query: Annotated[
        str, typer.Argument(metavar="QUERY_ID", help=("The query id from the file `metadata` of the checkpoint."))
    ],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
) -> None:
    """End the open transactions of a Spark query that will not be restarted: commit what it has decided, abort the
    rest.

    Example: moldau transactions resolve 3a1f2c4e-5b6d-4c7e-8f90-123456789abc
    """
    from moldau.spark.sink_broker import SinkBroker
    from moldau.spark.sink_options import parse
    from moldau.spark.two_phase import TwoPhaseCommit

    with connected(bootstrap, command_config, wait=wait) as admin:  # checks that the cluster answers
        admin.describe_cluster()
        settings = client_settings(bootstrap, command_config, "producer")
        with SinkBroker(parse({f"kafka.{name}": value for name, value in settings.items()})) as access:
            aborted = TwoPhaseCommit(access).resolve(query)
    print(f"query {query}: its last decision is committed, and {aborted} open transactions are aborted")


@app.command("find-hanging")
def find_hanging(
    topic: Annotated[
        list[str] | None, typer.Option(help="The topics to search (default: all).", autocompletion=topic_names)
    ] = None,
    max_transaction_timeout: Annotated[
        int, typer.Option(help="The brokers' transaction.max.timeout.ms, in minutes.")
    ] = DEFAULT_MAX_TIMEOUT_MIN,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Find transactions that are open for longer than the longest timeout and that no coordinator will end.

    Example: moldau transactions find-hanging --topic payments
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
        hanging = hanging_in(admin, topic, max_transaction_timeout)
    found = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "start_offset": one.producer.transaction_start_offset,
            "producer_id": one.producer.producer_id,
            "producer_epoch": one.producer.producer_epoch,
            "last_timestamp": one.producer.last_timestamp,
        }
        for one in hanging
    ]
    headers = ("topic", "partition", "start_offset", "producer_id", "producer_epoch", "last_timestamp")
    show(found, headers, output)


def hanging_in(admin: Admin, topics: list[str] | None, max_timeout_min: int) -> list[OpenTransaction]:
    from moldau.client.data_types import TopicPartition

    names = topics or [one.name for one in admin.list_topics(include_internal=True)]
    partitions = [
        TopicPartition(name, one.index)
        for name, described in admin.describe_topics(names).items()
        for one in described.partitions
        if one.leader is not None
    ]
    return admin.find_hanging_transactions(partitions, longer_than_ms=(max_timeout_min + MORE_THAN_ANY_MIN) * 60_000)


@app.command()
def complete(
    transactional_id: Annotated[str, typer.Argument(help="The transactional id of the prepared transaction.")],
    producer_id: Annotated[int, typer.Option(help="The producer id of the prepared transaction.")],
    producer_epoch: Annotated[int, typer.Option(help="The producer epoch of the prepared transaction.")],
    commit: Annotated[bool | None, typer.Option("--commit/--abort", help="Commit or abort the transaction.")] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Commit or abort a transaction that a producer has prepared and not completed.

    Example: moldau transactions complete payments-1 --producer-id 4 --producer-epoch 2 --commit
    """
    if commit is None:
        usage_error("give --commit or --abort")
    with connected(bootstrap, command_config, wait=wait) as admin:
        admin.complete_transaction(transactional_id, producer_id, producer_epoch, commit=commit)
        print(f"the transaction of {transactional_id} is {'committed' if commit else 'aborted'}")
