"""Command `moldau security ...`: certificates, first users and settings of a secured cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.output import EXIT_ERROR, complain, print_table

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
