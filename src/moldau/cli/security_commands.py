"""Command `moldau security ...`: certificates, first users and settings of a secured cluster."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.output import EXIT_ERROR, complain, one_line_errors, print_table, usage_error
from moldau.cli.passwords import PasswordEnvironmentOption, PasswordFileOption, read_password
from moldau.host.private_files import PRIVATE

app = typer.Typer(
    help="Make the certificates, users and settings of a secured cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the security files.")]
LOCAL = "127.0.0.1"
HOSTS_HELP = "HOST[,HOST...]: the names and addresses under which clients reach the broker"


@app.command()
def init(
    directory: DirectoryArgument,
    brokers: Annotated[
        list[str] | None,
        typer.Option(
            "--broker",
            metavar="HOST[,HOST...]",
            help=f"{HOSTS_HELP}. Repeat it for each broker (default: one broker on this machine).",
        ),
    ] = None,
) -> None:
    """Make a certificate authority, a certificate per broker, an admin and a first user, and the settings for them.

    Everything is in DIR, readable by you only. Nothing that exists is replaced. Exit code 1 if DIR is not empty.

    Example: moldau security init ./security && moldau broker --data ./data --config ./security/broker-0.properties
    --set listeners=SASL_SSL://127.0.0.1:9092
    """
    from moldau.cli import security_files
    from moldau.security.certificates import MissingExtra

    hosts = [_hosts(text) for text in brokers] if brokers else [security_files.local_hosts()]
    try:
        files = security_files.create(directory, hosts, datetime.now(UTC))
    except (security_files.SecurityFilesError, MissingExtra, OSError) as error:
        complain(str(error))
        raise typer.Exit(EXIT_ERROR) from None
    print_table(("file", "what it is"), [(file.name, file.what) for file in files], title=str(directory))
    where = directory.absolute()
    host = hosts[0][0] if brokers else LOCAL
    address = f"[{host}]:9092" if ":" in host else f"{host}:9092"
    admin = f"-b {address} --command-config {where}/admin.properties"
    print(f"""
Start     moldau broker --data DATA --config {where}/broker-0.properties --set listeners=SASL_SSL://{address}
Try       moldau topics list {admin}
Allow     moldau acls add {admin} --principal User:user --operation read --topic NAME
""")


@app.command()
def certificate(
    directory: DirectoryArgument,
    number: Annotated[int, typer.Option("--number", min=0, help="The number of the broker: writes broker-NUMBER.pem.")],
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            metavar="HOST[,HOST...]",
            help=f"{HOSTS_HELP} (default: as in the certificate that is replaced, or this machine).",
        ),
    ] = None,
) -> None:
    """Make a certificate for one more broker, or a new one in place of the old. A running broker takes it on its own.

    Example: moldau security certificate ./security --number 0 --hosts kafka1.example.org,10.0.0.1
    """
    from moldau.cli import security_files
    from moldau.security.certificates import MissingExtra

    try:
        names = security_files.hosts_of_broker(directory, number) if hosts is None else _hosts(hosts)
        path = security_files.renew(directory, number, names, datetime.now(UTC))
    except (security_files.SecurityFilesError, MissingExtra, OSError) as error:
        complain(str(error))
        raise typer.Exit(EXIT_ERROR) from None
    print(f"{path} is for {', '.join(names)}")


def _hosts(text: str) -> list[str]:
    hosts = [host.strip() for host in text.split(",") if host.strip()]
    if not hosts:
        from moldau.cli.output import usage_error

        usage_error(f"{text!r} names no host; write HOST,HOST")
    return hosts


@app.command("http-user")
def http_user(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The password file; created if missing.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user.")],
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the user instead.")] = False,
) -> None:
    """Add a user of HTTP services to a password file, or change the password. The file holds hashes only; a service
    with moldau.http.password.file=FILE sees the change at the next request.

    Example: moldau security http-user ./connect-users alice && moldau connect --listen 10.0.0.1:8083 --set
    moldau.http.password.file=./connect-users
    """
    from moldau.service.login import hashed, read_users

    with one_line_errors():
        users = read_users(file.read_text(), str(file)) if file.exists() else {}
        if not name or ":" in name or not name.isprintable():
            usage_error(f"{name!r} cannot be the name of a user: it is empty, or has a colon or control characters")
        if remove:
            if users.pop(name, None) is None:
                complain(f"{file} has no user {name!r}")
                raise typer.Exit(EXIT_ERROR)
        else:
            users[name] = hashed(read_password(name, password_file, password_env))
        _write_private(file, "".join(f"{user}:{text}\n" for user, text in users.items()))
    print(f"user {name} is {'removed from' if remove else 'in'} {file}")


def _write_private(file: Path, text: str) -> None:
    """Replace the file at once, readable by its owner only: a service may read it at any time."""
    draft = file.with_name(f".{file.name}.new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "w", encoding="utf-8") as target:
        target.write(text)
    draft.replace(file)
