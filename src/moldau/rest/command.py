"""Command `moldau rest`: the process of a proxy, from its settings to its exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.rest.proxy import RestProxy
from moldau.rest.rest_settings import RestSettings, rest_settings
from moldau.service.http_settings import HttpAddress
from moldau.service.server import banner_lines, run_process


def command_settings(
    *,
    properties: str,
    environment: Mapping[str, str],
    bootstrap: str | None = None,
    port: int | None = None,
    listen: str | None = None,
    registry: str | None = None,
    assignments: Sequence[str] = (),
) -> RestSettings:
    """The checked settings of the command's options. Raises SettingError."""
    given: list[str] = []
    if bootstrap:
        given.append(f"bootstrap.servers={bootstrap}")
    if port is not None:
        given.append(f"listeners=http://127.0.0.1:{port}")
    if listen is not None:
        given.append(f"listeners={listen if '://' in listen else f'http://{listen}'}")
    if registry:
        given.append(f"schema.registry.url={registry}")
    return rest_settings(properties=properties, environment=environment, assignments=[*given, *assignments])


def serve(settings: RestSettings, say: Callable[[str], None]) -> int:
    """Run a proxy until a signal ends it, and return the exit code. `say` gets the lines for the terminal.

    OSError: an address is in use; MoldauError: the brokers.
    """

    def ready(addresses: Sequence[HttpAddress]) -> None:
        for line in banner_lines("REST proxy", addresses, "/v3/clusters"):
            say(line)
        url = next((one.url for one in addresses), "")
        say(f"  follow  curl -N {url}/topics/TOPIC/events")
        say(f"  API     {url}/")
        say("  stop    Ctrl-C")

    async def main(stop: Any) -> int:
        return await RestProxy(settings).run(stop, ready)

    return run_process(main)
