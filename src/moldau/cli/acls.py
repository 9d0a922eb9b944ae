"""Command `moldau acls ...`: lists, adds and removes the rules of access control."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.completion import group_names, principals, topic_names
from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    connected,
)
from moldau.cli.output import Output, show, usage_error
from moldau.security.acls import AclFilter, AclRule, PatternType, Permission
from moldau.security.resources import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(help="List, add and remove rules of access control.", no_args_is_help=True)

COLUMNS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")


def _names(members: Sequence[Operation]) -> dict[str, str]:
    return {one.name: one.name.lower().replace("_", "-") for one in members}


OperationName = StrEnum("OperationName", _names([one for one in Operation if one > Operation.ANY]))  # type: ignore[misc]
"""The operations, as they are written on the command line."""


class PatternName(StrEnum):
    """How names of resources are compared, in a filter."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    MATCH = "match"
    ANY = "any"


TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="A topic, or '*'. Can be repeated.", autocompletion=topic_names),
]
GroupOption = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="GROUP", help="A group, or '*'. Can be repeated.", autocompletion=group_names),
]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
TransactionalIdOption = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id, or '*'. Can be repeated."),
]
TokenOption = Annotated[
    list[str] | None,
    typer.Option("--delegation-token", metavar="ID", help="A delegation token, or '*'. Can be repeated."),
]
UserOption = Annotated[
    list[str] | None,
    typer.Option("--user-principal", metavar="PRINCIPAL", help="A user, for create-tokens and describe-tokens."),
]
PrincipalFilter = Annotated[
    str | None,
    typer.Option("--principal", metavar="TYPE:NAME", help="Rules of this principal.", autocompletion=principals),
]
HostFilter = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Rules with exactly this host.")]
OperationFilter = Annotated[OperationName | None, typer.Option("--operation", help="Rules about this operation.")]
PatternFilter = Annotated[
    PatternName,
    typer.Option("--pattern-type", help="Which patterns: of this type, or all that cover the name (match), or any."),
]
OnlyOption = Annotated[
    bool | None, typer.Option("--allow/--deny", help="Only rules that allow, or only rules that deny.")
]


def _resources(
    topics: list[str] | None,
    groups: list[str] | None,
    cluster: bool,
    transactional_ids: list[str] | None,
    tokens: list[str] | None,
    users: list[str] | None,
) -> list[tuple[ResourceType, str]]:
    return [
        *((ResourceType.TOPIC, name) for name in topics or ()),
        *((ResourceType.GROUP, name) for name in groups or ()),
        *(((ResourceType.CLUSTER, CLUSTER_NAME),) if cluster else ()),
        *((ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids or ()),
        *((ResourceType.DELEGATION_TOKEN, name) for name in tokens or ()),
        *((ResourceType.USER, name) for name in users or ()),
    ]


def _filters(
    resources: list[tuple[ResourceType, str]],
    pattern: PatternName,
    principal: str | None,
    host: str | None,
    operation: OperationName | None,
    allow: bool | None,
) -> list[AclFilter]:
    whole = AclFilter(
        pattern_type=PatternType[pattern.name],
        principal=principal,
        host=host,
        operation=Operation.ANY if operation is None else Operation[operation.name],
        permission=Permission.ANY if allow is None else Permission.ALLOW if allow else Permission.DENY,
    )
    return [whole._replace(resource_type=kind, name=name) for kind, name in resources] or [whole]


def _show(rules: Sequence[AclRule], output: Output) -> None:
    rows = [
        {
            "resource": pattern.resource_type.name.lower().replace("_", "-"),
            "name": pattern.name,
            "pattern": pattern.pattern_type.name.lower(),
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation.name.lower().replace("_", "-"),
            "permission": entry.permission.name.lower(),
        }
        for pattern, entry in sorted(set(rules))
    ]
    show(rows, COLUMNS, output)


@app.command("list")
def list_rules(
    topic: TopicOption = None,
    group: GroupOption = None,
    cluster: ClusterOption = False,
    transactional_id: TransactionalIdOption = None,
    delegation_token: TokenOption = None,
    user_principal: UserOption = None,
    pattern_type: PatternFilter = PatternName.ANY,
    principal: PrincipalFilter = None,
    host: HostFilter = None,
    operation: OperationFilter = None,
    allow: OnlyOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List rules: all of them, or those of resources or of a principal.

    Example: moldau acls list --topic orders --pattern-type match
    """
    resources = _resources(topic, group, cluster, transactional_id, delegation_token, user_principal)
    filters = _filters(resources, pattern_type, principal, host, operation, allow)
    with connected(bootstrap, command_config, wait=wait) as admin:
        rules = [rule for wanted in filters for rule in admin.describe_acls(wanted)]
    _show(rules, output)


@app.command()
def add(
    principal: Annotated[
        list[str],
        typer.Option(
            "--principal",
            metavar="TYPE:NAME",
            help="Who: User:alice, or User:* for everyone. Can be repeated.",
            autocompletion=principals,
        ),
    ],
    operation: Annotated[list[OperationName], typer.Option("--operation", help="What. Can be repeated.")],
    topic: TopicOption = None,
    group: GroupOption = None,
    cluster: ClusterOption = False,
    transactional_id: TransactionalIdOption = None,
    delegation_token: TokenOption = None,
    user_principal: UserOption = None,
    prefixed: Annotated[bool, typer.Option("--prefixed", help="The names are prefixes of names.")] = False,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="ADDRESS", help="From where: an address or a network. Can be repeated."),
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny, whatever other rules allow.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Add rules: one for each combination of principal, host, operation and resource.

    Example: moldau acls add --principal User:alice --operation read --topic orders- --prefixed --group alice
    """
    from moldau.security.acls import AclEntry, ResourcePattern

    resources = _resources(topic, group, cluster, transactional_id, delegation_token, user_principal)
    if not resources:
        usage_error("name a resource: --topic, --group, --cluster, --transactional-id, --delegation-token or --user-…")
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission = Permission.DENY if deny else Permission.ALLOW
    rules = [
        AclRule(ResourcePattern(kind, name, pattern_type), AclEntry(who, where, Operation[what.name], permission))
        for kind, name in resources
        for who in principal
        for where in host or ["*"]
        for what in operation
    ]
    with connected(bootstrap, command_config, wait=wait) as admin:
        admin.create_acls(rules)
    _show(rules, output)


@app.command()
def remove(
    topic: TopicOption = None,
    group: GroupOption = None,
    cluster: ClusterOption = False,
    transactional_id: TransactionalIdOption = None,
    delegation_token: TokenOption = None,
    user_principal: UserOption = None,
    pattern_type: PatternFilter = PatternName.LITERAL,
    principal: PrincipalFilter = None,
    host: HostFilter = None,
    operation: OperationFilter = None,
    allow: OnlyOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all rules of the cluster.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Remove the rules that match, without confirmation, and list them.

    Without a name, patterns of all types match. Example: moldau acls remove --principal User:alice
    """
    resources = _resources(topic, group, cluster, transactional_id, delegation_token, user_principal)
    if not (resources or principal or host or operation or allow is not None or everything):
        usage_error("say which rules: give a resource, --principal, --host, --operation, or --all")
    pattern = pattern_type if resources else PatternName.ANY
    filters = _filters(resources, pattern, principal, host, operation, allow)
    with connected(bootstrap, command_config, wait=wait) as admin:
        removed = admin.delete_acls(filters)
    _show([rule for rules in removed.values() for rule in rules], output)
