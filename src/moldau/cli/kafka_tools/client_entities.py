"""Users, clients and IP addresses in kafka-configs: their quotas, and the SCRAM credentials of users."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from moldau.cli.kafka_tools.tool import ToolError, java_message, java_name
from moldau.client.admin import (
    ANY_NAME,
    DEFAULT,
    QuotaEntity,
    ScramMechanism,
    UserScramDeletion,
    UserScramUpsertion,
)
from moldau.client.errors import MoldauError, ResourceNotFound
from moldau.security.credentials import MIN_SCRAM_ITERATIONS
from moldau.security.quota_entities import CLIENT_QUOTAS, CONNECTION_CREATION_RATE

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

USERS, CLIENTS, IPS = "users", "clients", "ips"
CLIENT_ENTITIES: Final = (USERS, CLIENTS, IPS)
FIELDS: Final = {USERS: "user", CLIENTS: "client_id", IPS: "ip"}
TITLES: Final = {"user": "user-principal", "client_id": "client-id", "ip": "ip"}
MECHANISMS: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}

NO_NAME: Final = "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"

_CREDENTIAL = re.compile(r"(?:iterations=(?P<iterations>-?[0-9]+),)?password=(?P<password>.*)", re.DOTALL)

Entity = tuple[str, str | None]
"""A type, and a name: "" for the default, None for every name."""


def entities_of(options: argparse.Namespace) -> list[Entity]:
    """The entities of a command line, in the order of Kafka's tool: the first one is named in its messages."""
    names = list(options.entity_names or ())
    entities: list[Entity] = [(kind, names.pop(0) if names else None) for kind in options.entity_type or ()]
    for option, kind in (("client", CLIENTS), ("user", USERS), ("ip", IPS)):
        if getattr(options, option) is not None:
            entities.append((kind, getattr(options, option)))
    for option, kind in (("client_defaults", CLIENTS), ("user_defaults", USERS), ("ip_defaults", IPS)):
        if getattr(options, option):
            entities.append((kind, ""))
    return entities


def check_entities(entities: Sequence[Entity], options: argparse.Namespace) -> None:
    kinds = [kind for kind, _ in entities]
    if len(set(kinds)) < len(kinds):
        raise ToolError(f"Duplicate entity type(s) specified: {','.join(kinds[1:])}")
    if len(kinds) > 1 and set(kinds) != {USERS, CLIENTS}:
        raise ToolError("Only 'users' and 'clients' entity types may be specified together")
    if options.alter and any(name is None for _, name in entities):
        raise ToolError(NO_NAME)
    for kind, name in entities:
        if kind == IPS and name and not _is_address(name):
            raise ToolError(f"The entity name for ips must be a valid IP or resolvable host, but it is: {name}")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


# Describe -------------------------------------------------------------------------------------------------------------


def describe_entities(admin: Admin, entities: Sequence[Entity]) -> None:
    wanted = {FIELDS[kind]: ANY_NAME if name is None else name or DEFAULT for kind, name in entities}
    found = admin.describe_client_quotas(
        user=wanted.get("user"), client_id=wanted.get("client_id"), ip=wanted.get("ip"), strict=True
    )
    for entity, values in found.items():
        named = [(field, name) for field, name in entity._asdict().items() if name is not None]
        who = ", ".join(
            f"the default {TITLES[field]}" if name == DEFAULT else f"{TITLES[field]} '{name}'" for field, name in named
        )
        print(f"Quota configs for {who} are {', '.join(f'{key}={value}' for key, value in values.items())}")
    kinds = dict(entities)
    if CLIENTS not in kinds and IPS not in kinds and kinds[USERS] != "":
        describe_users(admin, kinds[USERS])


def describe_users(admin: Admin, name: str | None) -> None:
    try:
        found = admin.describe_user_scram_credentials(() if name is None else name)
    except ResourceNotFound:
        return
    except MoldauError as error:
        who = f" for user-principal '{name}'" if name else ""
        short = java_name(error).rpartition(".")[2]
        raise ToolError(f"Error retrieving SCRAM credential configs{who}: {short}: {java_message(error)}") from None
    for user, mechanisms in found.items():
        shown = ", ".join(f"{one.sasl_name}=iterations={iterations}" for one, iterations in mechanisms.items())
        print(f"SCRAM credential configs for user-principal '{user}' are {shown}")


# Alter ----------------------------------------------------------------------------------------------------------------


def alter_entities(admin: Admin, entities: Sequence[Entity], added: Mapping[str, str], deleted: Sequence[str]) -> None:
    kinds = [kind for kind, _ in entities]
    if IPS in kinds:
        _only_known(IPS, "connection quota", (CONNECTION_CREATION_RATE,), added, deleted)
        _alter_quotas(admin, entities, added, deleted)
    elif CLIENTS in kinds:
        _only_known(CLIENTS, "quota", CLIENT_QUOTAS, added, deleted)
        _alter_quotas(admin, entities, added, deleted)
    else:
        _only_known(USERS, "quota and SCRAM credential", (*CLIENT_QUOTAS, *MECHANISMS), added, deleted)
        names = [*added, *deleted]
        if not any(name in MECHANISMS for name in names):
            _alter_quotas(admin, entities, added, deleted)
        else:
            _alter_user(admin, entities[0][1] or "", names, added, deleted)
    kind, name = entities[0]
    if name:
        print(f"Completed updating config for {kind.removesuffix('s')} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def _only_known(kind: str, what: str, known: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]) -> None:
    for verb, names in (("added", added), ("deleted", deleted)):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ToolError(
                f"Only {what} configs can be {verb} for '{kind}' using --bootstrap-server. "
                f"Unexpected config names: {', '.join(unknown)}"
            )


def _alter_quotas(admin: Admin, entities: Sequence[Entity], added: Mapping[str, str], deleted: Sequence[str]) -> None:
    changes: dict[str, float | None] = dict.fromkeys(deleted)
    for name, text in added.items():
        try:
            changes[name] = float(text)
        except ValueError:
            raise ToolError(f"Cannot parse quota configuration value for {name}: {text}") from None
    entity = QuotaEntity(**{FIELDS[kind]: name or DEFAULT for kind, name in entities})
    admin.alter_client_quotas({entity: changes})


def _alter_user(
    admin: Admin, user: str, names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    if not user:
        raise ToolError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    if not all(name in MECHANISMS for name in names):
        raise ToolError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )
    upsertions = [_upsertion(user, MECHANISMS[name], text) for name, text in added.items()]
    deletions = [UserScramDeletion(user, MECHANISMS[name]) for name in deleted]
    # One call for all, as Kafka's tool does: the broker refuses two changes of one user.
    admin.alter_user_scram_credentials([*upsertions, *deletions])


def _upsertion(user: str, mechanism: ScramMechanism, text: str) -> UserScramUpsertion:
    """A password as `iterations=8192,password=…`. Its errors do not show the password."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise ToolError(f"Invalid credential property {mechanism.name}: it needs password=…, and may have iterations=N")
    iterations = int(found["iterations"] or MIN_SCRAM_ITERATIONS)
    if iterations < MIN_SCRAM_ITERATIONS:
        raise ToolError(
            f"Iterations {iterations} is less than the minimum {MIN_SCRAM_ITERATIONS} required for "
            f"{mechanism.sasl_name}"
        )
    return UserScramUpsertion(user, found["password"], mechanism, iterations)
