"""Tool kafka-delegation-tokens: creates, renews, expires and describes delegation tokens."""

from __future__ import annotations

import argparse
import base64
import binascii
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from moldau.cli.kafka_tools.tool import EXIT_ERROR, EXIT_OK, ToolError, ToolParser, client, java_text
from moldau.client.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client.admin import IssuedToken, Principal
    from moldau.client.blocking.admin import Admin

ACTIONS = ("create", "renew", "expire", "describe")
REQUIRED = {
    "create": ("max_life_time_period",),
    "renew": ("hmac", "renew_time_period"),
    "expire": ("hmac", "expiry_time_period"),
    "describe": (),
}
"""The options that each action needs, in the order in which Kafka's tool asks for them."""
ROW = "\n{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
COLUMNS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


def parser() -> ToolParser:
    parser = ToolParser("kafka-delegation-tokens", "Create, renew, expire and describe delegation tokens.")
    parser.add_connection()
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true", help=f"{action} delegation tokens")
    parser.add_argument("--owner-principal", action="append", metavar="TYPE:NAME", help="the owner of a token")
    parser.add_argument("--renewer-principal", action="append", metavar="TYPE:NAME", help="who else may renew a token")
    parser.add_argument("--max-life-time-period", type=int, metavar="MS", help="its longest life; -1: the default")
    parser.add_argument("--renew-time-period", type=int, metavar="MS", help="until it expires; -1: the default")
    parser.add_argument("--expiry-time-period", type=int, metavar="MS", help="until it expires; -1: at once")
    parser.add_argument("--hmac", metavar="BASE64", help="the secret of the token, as --create prints it")
    return parser


def main(arguments: Sequence[str]) -> int:
    options_parser = parser()
    options = options_parser.parse(arguments)
    action = check(options_parser, options)
    calls = {"create": create, "renew": renew, "expire": expire, "describe": describe}
    try:
        with client(options) as admin:
            calls[action](admin, options)
    except ToolError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    except MoldauError as error:
        sys.stdout.flush()
        print(java_text(error), file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def check(parser: ToolParser, options: argparse.Namespace) -> str:
    chosen = [action for action in ACTIONS if getattr(options, action)]
    if len(chosen) != 1:
        parser.error("Command must include exactly one action: --create, --renew, --expire or --describe")
    for name in ("bootstrap_server", "command_config", *REQUIRED[chosen[0]]):
        if getattr(options, name) is None:
            parser.error(f'Missing required argument "[{name.replace("_", "-")}]"')
    return chosen[0]


def create(admin: Admin, options: argparse.Namespace) -> None:
    renewers, owners = principals(options.renewer_principal), principals(options.owner_principal)
    shown = ", ".join(map(str, renewers))
    print(
        f"Calling create token operation with renewers :[{shown}] , "
        f"max-life-time-period :{options.max_life_time_period}"
    )
    token = admin.create_delegation_token(
        owner=owners[0] if owners else None, renewers=renewers, max_lifetime_ms=options.max_life_time_period
    )
    print(f"Created delegation token with tokenId : {token.token_id}")
    print_tokens([token])


def renew(admin: Admin, options: argparse.Namespace) -> None:
    # Kafka's tool prints the HMAC here, too: the secret of the token, which the user has just typed.
    print(f"Calling renew token operation with renew-time-period :{options.renew_time_period}")
    expires_ms = admin.renew_delegation_token(secret(options), period_ms=options.renew_time_period)
    print(f"Completed renew operation. New expiry date : {date(expires_ms)}")


def expire(admin: Admin, options: argparse.Namespace) -> None:
    print(f"Calling expire token operation with expire-time-period :{options.expiry_time_period}")
    expires_ms = admin.expire_delegation_token(secret(options), period_ms=options.expiry_time_period)
    print(f"Completed expire operation. New expiry date : {date(expires_ms)}")


def describe(admin: Admin, options: argparse.Namespace) -> None:
    owners = principals(options.owner_principal)
    if owners:
        print(f"Calling describe token operation for owners: [{', '.join(map(str, owners))}]")
    else:
        print("Calling describe token operation for current user.")
    tokens = admin.describe_delegation_tokens(owners or None)
    print(f"Total number of tokens : {len(tokens)}", end="")
    print_tokens(tokens)


def principals(texts: Sequence[str] | None) -> list[Principal]:
    from moldau.client.admin import Principal

    found = []
    for text in texts or ():
        kind, colon, name = text.strip().partition(":")
        if not (kind and colon and name):
            raise ToolError(f"expected a string in format principalType:principalName but got {text.strip()}")
        found.append(Principal(kind, name))
    return found


def secret(options: argparse.Namespace) -> bytes:
    try:
        return base64.b64decode(options.hmac, validate=True)
    except binascii.Error:
        raise ToolError("The value of --hmac is not in base64; give the HMAC that --create has printed") from None


def date(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%dT%H:%M")


def print_tokens(tokens: Sequence[IssuedToken]) -> None:
    print(ROW.format(*COLUMNS))
    for token in tokens:
        renewers = f"[{', '.join(map(str, token.renewers))}]"
        dates = (date(ms) for ms in (token.issued_ms, token.expires_ms, token.max_ms))
        print(ROW.format(token.token_id, token.password, str(token.owner), str(token.requester), renewers, *dates))
