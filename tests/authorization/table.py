"""The table of docs/authorization.md: what each API asks for, from the cases of the denial matrix."""

from __future__ import annotations

from moldau.broker import handlers  # noqa: F401  (registers them)
from moldau.broker.requests.handler_registry import HANDLERS
from moldau.security import Operation, ResourceType
from moldau.wire.api import APIS, ApiKey
from tests.authorization.cases import CASES, OPEN
from tests.authorization.matrix import Need

HEAD = ("| API | request | needs | without it |", "|---|---|---|---|")

KINDS = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}


def table() -> list[str]:
    """The lines of the table: one per API and need, in the order of the API keys."""
    lines = list(HEAD)
    for api in sorted(HANDLERS):
        rows = needs_of(api)
        if not rows:
            lines.append(f"| {APIS[api].name} ({int(api)}) | every | nothing | {OPEN[api]} |")
        for (needs, without), requests in rows.items():
            lines.append(f"| {APIS[api].name} ({int(api)}) | {'; '.join(requests)} | {needs} | {without} |")
    return lines


def needs_of(api: ApiKey) -> dict[tuple[str, str], list[str]]:
    """The needs of an API and what happens without each, with the requests that they are for."""
    found: dict[tuple[str, str], list[str]] = {}
    for case in CASES:
        if case.api == api:
            for need in case.needs:
                found.setdefault((_words(need), _without(need)), []).append(case.name)
    return found


def _words(need: Need) -> str:
    ways = dict.fromkeys(f"{_title(way.operation)} on {KINDS[way.kind]}" for way in (need, *need.instead))
    return " or ".join(ways)


def _title(operation: Operation) -> str:
    return "".join(part.capitalize() for part in operation.name.split("_"))


def _without(need: Need) -> str:
    if need.error is not None:
        return f"`{need.error.name}`"
    return "no operations are shown" if need.kind is ResourceType.CLUSTER else "it is left out"


if __name__ == "__main__":
    print("\n".join(table()))
