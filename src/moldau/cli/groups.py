"""Command `moldau groups ...`: lists and describes groups, shows their lag, resets their offsets, deletes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli import group_reset
from moldau.cli.completion import group_names
from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    connected,
)
from moldau.cli.output import Output, fail, print_json, print_table, show, usage_error

if TYPE_CHECKING:
    from moldau.cli.group_rows import OffsetRow
    from moldau.client.admin import GroupDescription, MemberDescription

app = typer.Typer(help="List, describe, reset and delete consumer groups.", no_args_is_help=True)

GroupsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="GROUP", help="Names of groups.", autocompletion=group_names)
]
GroupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group", metavar="GROUP", help="A group, as in Kafka's tools. Can be repeated.", autocompletion=group_names
    ),
]


def groups_of(arguments: list[str] | None, options: list[str] | None) -> list[str]:
    names = list(dict.fromkeys([*(arguments or ()), *(options or ())]))
    if not names:
        usage_error("give the name of a group")
    return names


@app.command("list")
def list_(
    long: Annotated[bool, typer.Option("--long", "-l", help="Show a table with type and state.")] = False,
    state: Annotated[list[str] | None, typer.Option(help="Only groups in this state, such as Stable or Empty.")] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only groups of this type: Classic, Consumer.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the names of all groups, one per line.

    Example: moldau groups list --long --state Empty
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
        found = [
            {"group": one.id, "type": one.type, "state": one.state, "protocol_type": one.protocol_type}
            for one in admin.list_groups(states=state or (), types=type_ or ())
        ]
    if long or output is Output.JSON:
        show(found, ("group", "type", "state", "protocol_type"), output)
    else:
        for one in found:
            print(one["group"])


@app.command()
def describe(
    groups: GroupsArgument = None,
    group: GroupOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the state of groups, the number of their members, and their lag.

    Example: moldau groups describe billing
    """
    names = groups_of(groups, group)
    with connected(bootstrap, command_config, wait=wait) as admin:
        from moldau.cli.group_rows import offset_rows

        described = admin.describe_groups(names)
        lags = {name: [row.lag for row in offset_rows(admin, one)] for name, one in described.items()}
        summaries = [_summary(one, lags[name]) for name, one in described.items()]
    show(summaries, ("group", "type", "state", "assignor", "coordinator", "members", "lag"), output)


def _summary(group: GroupDescription, lags: list[int | None]) -> dict[str, Any]:
    known = [lag for lag in lags if lag is not None]
    return {
        "group": group.id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
        "members": len(group.members),
        "lag": sum(known) if known else None,
    }


@app.command()
def offsets(
    groups: GroupsArgument = None,
    group: GroupOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the committed offset, the end, the lag and the member of each partition of a group.

    Example: moldau groups offsets billing --output json
    """
    names = groups_of(groups, group)
    with connected(bootstrap, command_config, wait=wait) as admin:
        from moldau.cli.group_rows import offset_rows

        found = [
            _offset_json(name, row)
            for name, one in admin.describe_groups(names).items()
            for row in offset_rows(admin, one)
        ]
    show(found, ("group", "topic", "partition", "committed", "end", "lag", "member", "host"), output)


def _offset_json(group: str, row: OffsetRow) -> dict[str, Any]:
    topic, partition = row.partition
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "committed": row.committed.offset if row.committed else None,
        "metadata": row.committed.metadata if row.committed else None,
        "end": row.end,
        "lag": row.lag,
        "member": row.member.id if row.member else None,
        "client_id": row.member.client_id if row.member else None,
        "host": row.member.host if row.member else None,
    }


@app.command()
def members(
    groups: GroupsArgument = None,
    group: GroupOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the members of groups, and the partitions that each reads.

    Example: moldau groups members billing
    """
    names = groups_of(groups, group)
    with connected(bootstrap, command_config, wait=wait) as admin:
        found = [
            _member_json(name, member) for name, one in admin.describe_groups(names).items() for member in one.members
        ]
    if output is Output.JSON:
        print_json(found)
        return
    headers = ("group", "member", "instance", "client_id", "host", "assignment")
    rows = [(*(one[header] for header in headers[:-1]), " ".join(one["assignment"]) or None) for one in found]
    print_table(headers, rows)


def _member_json(group: str, member: MemberDescription) -> dict[str, Any]:
    return {
        "group": group,
        "member": member.id,
        "instance": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "assignment": [f"{one.topic}:{one.partition}" for one in member.assignment],
    }


app.command()(group_reset.reset)


@app.command()
def delete(
    groups: GroupsArgument = None,
    group: GroupOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Delete groups without members, including their committed offsets.

    Example: moldau groups delete billing
    """
    names = groups_of(groups, group)
    with connected(bootstrap, command_config, wait=wait) as admin:
        from moldau.client.admin import SomeFailed

        failed: dict[str, Exception] = {}
        try:
            admin.delete_groups(names)
        except SomeFailed as some:
            failed = dict(some.errors)
        for name in names:
            if name not in failed:
                print(f"{name} deleted")
        if failed:
            fail("; ".join(map(str, failed.values())))
