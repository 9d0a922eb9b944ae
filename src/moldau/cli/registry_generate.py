"""Command `moldau registry generate`: code from the schemas of a registry."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.output import fail, one_line_errors
from moldau.cli.registry_options import (
    DEFAULT_URL,
    CaOption,
    PasswordEnvironmentOption,
    PasswordFileOption,
    UrlOption,
    UserOption,
    needed_packages,
    registry_client,
)
from moldau.cli.suggestions import SuggestingGroup

app = typer.Typer(
    cls=SuggestingGroup,
    help="Write code from the schemas of a registry.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def generate() -> None:
    """Write code from the schemas of a registry."""


@app.command()
def python(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject, such as orders-value.")],
    version: Annotated[int | None, typer.Option(min=1, help="The version (default: the newest).")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The module to write (default: print it)."),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvironmentOption = None,
    ca_file: CaOption = None,
) -> None:
    """Write a Python module with a typed dataclass for each record of a schema: Avro, JSON Schema or Protobuf.

    The serializers take its methods: AvroSerializer(..., to_dict=Order.to_dict), AvroDeserializer(...,
    from_dict=Order.from_dict). The module needs the standard library only, and the same schema gives the same text.

    Example: moldau registry generate python orders-value --out orders.py
    """
    with needed_packages(), one_line_errors():
        from moldau.schemas.codegen.generation import python_module
        from moldau.schemas.errors import SchemaError

        try:
            with registry_client(url, user, password_file, password_env, ca_file) as client:
                found = client.latest(subject) if version is None else client.version(subject, version)
                text = python_module(found, client.parsed(found.schema))
        except SchemaError as error:
            fail(str(error))
        if out is None:
            sys.stdout.write(text)
        else:
            out.write_text(text, encoding="utf-8")
