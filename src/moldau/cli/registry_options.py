"""Options of commands that ask a schema registry, and the client built from them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.output import fail, usage_error
from moldau.cli.passwords import PasswordEnvironmentOption, PasswordFileOption, read_password

if TYPE_CHECKING:
    from moldau.schemas.registry_client import RegistryClient
    from moldau.schemas.schema import Schema

__all__ = [
    "DEFAULT_URL",
    "CaOption",
    "PasswordEnvironmentOption",
    "PasswordFileOption",
    "TypeOption",
    "UrlOption",
    "UserOption",
    "needed_packages",
    "registry_client",
    "schema_of_file",
]

DEFAULT_URL = "http://127.0.0.1:8081"

UrlOption = Annotated[
    str,
    typer.Option(
        "--url", envvar="MOLDAU_REGISTRY_URL", metavar="URL,...", help="Addresses of registries; one is enough."
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="The user to log in as, if the registry needs a login."),
]
CaOption = Annotated[
    Path | None,
    typer.Option("--ca-file", metavar="FILE", help="Certificates to trust for https, in PEM (default: the system's)."),
]
TypeOption = Annotated[
    str | None,
    typer.Option(
        "--type", metavar="TYPE", help="avro, json or protobuf (default: by the name: *.avsc, *.json, *.proto)."
    ),
]

TYPES = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}


@contextlib.contextmanager
def needed_packages() -> Iterator[None]:
    """Turn a missing package into an error that says how to install it."""
    try:
        yield
    except ImportError as error:
        if error.name is None or error.name.startswith("moldau"):
            raise
        fail(f"the package {error.name} is missing; install it with: pip install 'moldau[registry]'")


def registry_client(
    url: str, user: str | None, password_file: Path | None, password_env: str | None, ca_file: Path | None
) -> RegistryClient:
    """The client of the registries at these addresses."""
    from moldau.schemas.registry_client import RegistryClient

    settings = {"url": url, "max.retries": "0"}
    if user is not None:
        password = read_password(user, password_file, password_env)
        settings |= {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": f"{user}:{password}"}
    if ca_file is not None:
        settings["ssl.truststore.location"] = str(ca_file)
    return RegistryClient(settings)


def schema_of_file(file: Path, type_: str | None) -> Schema:
    """The schema in a file. Its type is that of the option or of the name."""
    from moldau.schemas.schema import Schema, SchemaType

    known = {one.value for one in SchemaType}
    found = TYPES.get(file.suffix.lower()) if type_ is None else type_.upper()
    if found is None:
        usage_error(f"the name of {file} does not say which type it has; give --type avro, json or protobuf")
    if found not in known:
        usage_error(f"--type: {type_!r} is not avro, json or protobuf")
    return Schema(file.read_text(encoding="utf-8"), SchemaType(found))
