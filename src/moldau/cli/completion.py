"""Shell completion of names of topics, groups and users.

It asks the cluster that the command line names, for about a second.

The shell waits for the completion, and anything printed appears in the middle of the line that the user types. So
errors are not reported: the completion is just empty.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

from moldau.cli.connection_options import (
    DEFAULT_BOOTSTRAP,
    INTERNAL_PREFIX,
    bootstrap_addresses,
    client_settings,
    is_internal,
)

if TYPE_CHECKING:
    from moldau.client.blocking.admin import Admin

CONNECT_TIMEOUT_S: Final = 0.5
TIMEOUT_MS: Final = 1_000


def join_addresses(environment: MutableMapping[str, str]) -> None:
    """Join the words of an address again: Bash treats a colon as a separate word, so HOST:PORT arrives as three words,
    and the rest of the line would be parsed wrongly."""
    if "COMP_WORDS" not in environment or not environment.get("COMP_CWORD", "").isdigit():
        return
    words, at = environment["COMP_WORDS"].split(), int(environment["COMP_CWORD"])
    colon = 2
    while colon < min(at, len(words) - 1):
        before, after = words[colon - 1], words[colon + 1]
        if words[colon] == ":" and not before.startswith("-") and after[0].isdigit():
            words[colon - 1 : colon + 2] = [f"{before}:{after}"]
            at -= 2
        else:
            colon += 1
    environment.update(COMP_WORDS=" ".join(words), COMP_CWORD=str(at))


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a topic name. Internal topics are included if the text starts with the underscores."""
    internal = incomplete.startswith(INTERNAL_PREFIX)

    def names(admin: Admin) -> list[str]:
        found = (one.name for one in admin.list_topics(include_internal=internal))
        return [name for name in found if internal or not is_internal(name)]

    return _matching(ctx, incomplete, names)


def group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    return _matching(ctx, incomplete, lambda admin: [one.id for one in admin.list_groups()])


def user_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a user with a password."""
    return _matching(ctx, incomplete, lambda admin: list(admin.describe_user_scram_credentials()))


def principals(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a principal of a user with a password, or of a rule."""

    def names(admin: Admin) -> list[str]:
        from moldau.client.errors import SecurityDisabled

        found = [f"User:{user}" for user in admin.describe_user_scram_credentials()]
        with suppress(SecurityDisabled):
            found += [entry.principal for _, entry in admin.describe_acls()]
        return found

    return _matching(ctx, incomplete, names)


def _matching(ctx: typer.Context, incomplete: str, names: Callable[[Admin], list[str]]) -> list[str]:
    import logging

    from moldau.cli.reachability import any_accepts
    from moldau.client.blocking.admin import Admin
    from moldau.client.errors import MoldauError
    from moldau.settings import SettingError

    logging.disable()
    bootstrap = ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP
    with suppress(MoldauError, SettingError, OSError, UnicodeDecodeError):
        files = (ctx.params.get(name) for name in ("command_config", "producer_config", "consumer_config"))
        settings = client_settings(bootstrap, next((file for file in files if file), None))
        settings |= {"default.api.timeout.ms": TIMEOUT_MS, "request.timeout.ms": TIMEOUT_MS}
        if any_accepts(bootstrap_addresses(settings["bootstrap.servers"]), CONNECT_TIMEOUT_S):
            with Admin(settings) as admin:
                return sorted({name for name in names(admin) if name.startswith(incomplete)})
    return []
