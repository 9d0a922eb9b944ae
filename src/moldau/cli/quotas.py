"""Command `moldau quotas ...`: lists, sets and removes the quotas of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.completion import user_names
from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    CommandConfigOption,
    OutputOption,
    WaitOption,
    connected,
)
from moldau.cli.output import Output, show, usage_error
from moldau.security.quota_entities import (
    CLIENT_QUOTAS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

app = typer.Typer(help="List, set and remove quotas of users, client ids and IP addresses.", no_args_is_help=True)

QUOTAS = (*CLIENT_QUOTAS, CONNECTION_CREATION_RATE)
COLUMNS = ("user", "client_id", "ip", "quota", "value")

UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user.", autocompletion=user_names)]
ClientIdOption = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id.")]
IpOption = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An IP address.")]
UserDefaultOption = Annotated[bool, typer.Option("--user-default", help="All users without a quota of their own.")]
ClientIdDefaultOption = Annotated[
    bool, typer.Option("--client-id-default", help="All client ids without a quota of their own.")
]
IpDefaultOption = Annotated[bool, typer.Option("--ip-default", help="All addresses without a quota of their own.")]


def _name(name: str | None, default: bool, option: str) -> str | None:
    if default and name is not None:
        usage_error(f"give {option} or {option}-default, not both")
    return DEFAULT if default else name


def _entity(
    user: str | None, user_default: bool, client_id: str | None, client_default: bool, ip: str | None, ip_default: bool
) -> QuotaEntity:
    return QuotaEntity(
        _name(user, user_default, "--user"),
        _name(client_id, client_default, "--client-id"),
        _name(ip, ip_default, "--ip"),
    )


def _show(quotas: Mapping[QuotaEntity, Mapping[str, float]], output: Output) -> None:
    rows = [
        {**entity._asdict(), "quota": name, "value": int(value) if value == int(value) else value}
        for entity, values in quotas.items()
        for name, value in values.items()
    ]
    show(rows, COLUMNS, output)


@app.command("list")
def list_quotas(
    user: UserOption = None,
    user_default: UserDefaultOption = False,
    client_id: ClientIdOption = None,
    client_id_default: ClientIdDefaultOption = False,
    ip: IpOption = None,
    ip_default: IpDefaultOption = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Only entities of exactly the types that are given.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List quotas: all of them, or those of a user, a client id or an address.

    Example: moldau quotas list --user alice
    """
    entity = _entity(user, user_default, client_id, client_id_default, ip, ip_default)
    with connected(bootstrap, command_config, wait=wait) as admin:
        found = admin.describe_client_quotas(user=entity.user, client_id=entity.client_id, ip=entity.ip, strict=strict)
    _show(found, output)


@app.command("set")
def set_quotas(
    user: UserOption = None,
    user_default: UserDefaultOption = False,
    client_id: ClientIdOption = None,
    client_id_default: ClientIdDefaultOption = False,
    ip: IpOption = None,
    ip_default: IpDefaultOption = False,
    producer_byte_rate: Annotated[
        float | None, typer.Option("--producer-byte-rate", metavar="BYTES", help="Bytes per second produced.")
    ] = None,
    consumer_byte_rate: Annotated[
        float | None, typer.Option("--consumer-byte-rate", metavar="BYTES", help="Bytes per second consumed.")
    ] = None,
    request_percentage: Annotated[
        float | None, typer.Option("--request-percentage", metavar="PERCENT", help="Time of a broker's requests.")
    ] = None,
    controller_mutation_rate: Annotated[
        float | None,
        typer.Option("--controller-mutation-rate", metavar="RATE", help="Partitions created or deleted per second."),
    ] = None,
    connection_creation_rate: Annotated[
        float | None,
        typer.Option("--connection-creation-rate", metavar="RATE", help="Connections per second, for an address."),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Set quotas of a user, a client id, both together, or an address. Other quotas of it stay.

    Example: moldau quotas set --user alice --producer-byte-rate 1000000
    """
    entity = _entity(user, user_default, client_id, client_id_default, ip, ip_default)
    given = {
        PRODUCER_BYTE_RATE: producer_byte_rate,
        CONSUMER_BYTE_RATE: consumer_byte_rate,
        REQUEST_PERCENTAGE: request_percentage,
        CONTROLLER_MUTATION_RATE: controller_mutation_rate,
        CONNECTION_CREATION_RATE: connection_creation_rate,
    }
    values = {name: value for name, value in given.items() if value is not None}
    _require(entity)
    if not values:
        usage_error(f"give a quota: {', '.join('--' + name.replace('_', '-') for name in QUOTAS)}")
    with connected(bootstrap, command_config, wait=wait) as admin:
        admin.alter_client_quotas({entity: values})
    _show({entity: values}, output)


@app.command()
def remove(
    quota: Annotated[
        list[str] | None, typer.Argument(metavar="[QUOTA]...", help="Only these quotas, such as producer_byte_rate.")
    ] = None,
    user: UserOption = None,
    user_default: UserDefaultOption = False,
    client_id: ClientIdOption = None,
    client_id_default: ClientIdDefaultOption = False,
    ip: IpOption = None,
    ip_default: IpDefaultOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Remove quotas of one entity: all of them, or those that are named. The removed quotas are listed.

    Example: moldau quotas remove producer_byte_rate --user alice
    """
    entity = _entity(user, user_default, client_id, client_id_default, ip, ip_default)
    _require(entity)
    named = [name.replace("-", "_") for name in quota or ()]
    for name in named:
        if name not in QUOTAS:
            usage_error(f"{name} is no quota; the quotas are {', '.join(QUOTAS)}")
    with connected(bootstrap, command_config, wait=wait) as admin:
        known = admin.describe_client_quotas(
            user=entity.user, client_id=entity.client_id, ip=entity.ip, strict=True
        ).get(entity, {})
        removed = {name: value for name, value in known.items() if not named or name in named}
        if removed:
            admin.alter_client_quotas({entity: dict.fromkeys(removed)})
    _show({entity: removed}, output)


def _require(entity: QuotaEntity) -> None:
    if entity == QuotaEntity():
        usage_error("say whose quotas: --user, --client-id, both, or --ip, each also with -default")
