"""Command `moldau sql serve`: the process of a server, from its settings to its exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.service.http_settings import HttpAddress
from moldau.service.server import banner_lines, run_process
from moldau.sql.server.server_settings import ServerSettings, server_settings
from moldau.sql.server.sql_server import SqlServer


def serve_settings(
    *,
    properties: str,
    environment: Mapping[str, str],
    bootstrap: str | None = None,
    port: int | None = None,
    listen: str | None = None,
    state_dir: str | None = None,
    service_id: str | None = None,
    master: str | None = None,
    assignments: Sequence[str] = (),
) -> ServerSettings:
    """The checked settings of the command's options. Raises SettingError."""
    given: list[str] = []
    if bootstrap:
        given.append(f"bootstrap.servers={bootstrap}")
    if port is not None:
        given.append(f"listeners=http://127.0.0.1:{port}")
    if listen is not None:
        given.append(f"listeners={listen if '://' in listen else f'http://{listen}'}")
    options = {"state.dir": state_dir, "service.id": service_id, "spark.master": master}
    given += [f"{name}={value}" for name, value in options.items() if value is not None]
    return server_settings(properties=properties, environment=environment, assignments=[*given, *assignments])


def serve(settings: ServerSettings, say: Callable[[str], None]) -> int:
    """Run a server until a signal ends it, and return the exit code. `say` gets the lines for the terminal.

    OSError: an address is in use; MoldauError: the brokers, or the state directory.
    """

    def ready(addresses: Sequence[HttpAddress]) -> None:
        for line in banner_lines("SQL", addresses, "/queries"):
            say(line)
        say(f"  state   {settings.values['state.dir']}")
        say("  stop    Ctrl-C")

    async def main(stop: Any) -> int:
        return await SqlServer(settings).run(stop, ready)

    return run_process(main)
