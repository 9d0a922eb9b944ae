"""Command `moldau users ...`: lists, adds and removes users that log in with a password (SCRAM)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

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
from moldau.cli.output import Output, one_line_errors, show, usage_error
from moldau.cli.passwords import PasswordEnvironmentOption, PasswordFileOption, read_password
from moldau.security.credentials import MAX_SCRAM_ITERATIONS, MIN_SCRAM_ITERATIONS, ScramMechanism

app = typer.Typer(help="List, add and remove users that log in with a password (SCRAM).", no_args_is_help=True)


class MechanismName(StrEnum):
    """The SCRAM mechanisms."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The name of a user.", autocompletion=user_names)]


@app.command("list")
def list_users(
    user: Annotated[
        list[str] | None, typer.Argument(metavar="[USER]...", help="Only these.", autocompletion=user_names)
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the users with a password, and how it is stored.

    Example: moldau users list
    """
    with connected(bootstrap, command_config, wait=wait) as admin:
        found = admin.describe_user_scram_credentials(user or ())
    rows = [
        {"user": name, "mechanism": mechanism.sasl_name, "iterations": iterations}
        for name, mechanisms in found.items()
        for mechanism, iterations in mechanisms.items()
    ]
    show(rows, ("user", "mechanism", "iterations"), output)


@app.command()
def add(
    user: UserArgument,
    mechanism: Annotated[
        list[MechanismName] | None, typer.Option("--mechanism", help="Only for this one. (default: both)")
    ] = None,
    iterations: Annotated[
        int, typer.Option("--iterations", min=MIN_SCRAM_ITERATIONS, max=MAX_SCRAM_ITERATIONS, help="Rounds of hashing.")
    ] = MIN_SCRAM_ITERATIONS,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Add a user, or give a user another password. The password is asked for, or read from a file or a variable.

    Example: moldau users add alice --password-file alice.secret
    """
    from moldau.client.admin import UserScramUpsertion

    with one_line_errors():
        password = read_password(user, password_file, password_env)
    with connected(bootstrap, command_config, wait=wait) as admin:
        known = user in admin.describe_user_scram_credentials()
        for name in mechanism or list(MechanismName):
            admin.alter_user_scram_credentials(
                UserScramUpsertion(user, password, ScramMechanism[name.name], iterations)
            )
    print(f"user '{user}' {'has another password' if known else 'added'}")


@app.command()
def remove(
    user: Annotated[
        list[str], typer.Argument(metavar="USER...", help="The names of users.", autocompletion=user_names)
    ],
    mechanism: Annotated[
        MechanismName | None, typer.Option("--mechanism", help="Only this one. (default: all)")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    wait: WaitOption = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Remove the passwords of users, without confirmation. Their rules and quotas stay, and open connections, too.

    Example: moldau users remove alice
    """
    from moldau.client.admin import UserScramDeletion

    if not user:
        usage_error("name a user")
    with connected(bootstrap, command_config, wait=wait) as admin:
        known = admin.describe_user_scram_credentials(user)
        for name, mechanisms in known.items():
            for one in mechanisms if mechanism is None else [ScramMechanism[mechanism.name]]:
                admin.alter_user_scram_credentials(UserScramDeletion(name, one))
            print(f"user '{name}' removed" if mechanism is None else f"{mechanism} of user '{name}' removed")
