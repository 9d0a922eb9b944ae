"""Quota calls of the admin client: describe and alter the quotas of users, client ids and IP addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.client import arguments
from moldau.client.admin.calls import Calls, Fixed
from moldau.client.admin.outcome import Answers, checked, judged, settled
from moldau.client.network import ANY_NODE
from moldau.security.quota_entities import DEFAULT, QuotaEntity
from moldau.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
    AlterClientQuotasResponse,
)
from moldau.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
    DescribeClientQuotasResponse,
)

ANY_NAME = "<any>"
"""In a filter: every name, and the default."""
EXAMPLE = 'QuotaEntity(user="alice")'

FIELDS = {"user": "user", "client-id": "client_id", "ip": "ip"}
EXACT, THE_DEFAULT, SPECIFIED = 0, 1, 2

QuotaChanges = Mapping[str, float | None]
"""New values by quota name; None removes a quota."""


def entity_text(entity: QuotaEntity) -> str:
    """An entity in a few words, for messages: `user 'alice', the default client-id`."""
    named = [(kind, getattr(entity, field)) for kind, field in FIELDS.items()]
    return ", ".join(
        f"the default {kind}" if name == DEFAULT else f"{kind} '{name}'" for kind, name in named if name is not None
    )


def component(kind: str, name: str) -> DescribeClientQuotasRequestComponent:
    if name == ANY_NAME:
        return DescribeClientQuotasRequestComponent(entity_type=kind, match_type=SPECIFIED, match=None)
    if name == DEFAULT:
        return DescribeClientQuotasRequestComponent(entity_type=kind, match_type=THE_DEFAULT, match=None)
    return DescribeClientQuotasRequestComponent(entity_type=kind, match_type=EXACT, match=name)


def read_described(response: DescribeClientQuotasResponse) -> dict[QuotaEntity, dict[str, float]]:
    checked(response.error_code, "describing quotas", response.error_message)
    found: dict[QuotaEntity, dict[str, float]] = {}
    for entry in response.entries or []:
        names = {part.entity_type: part.entity_name for part in entry.entity}
        if names.keys() <= FIELDS.keys():
            entity = QuotaEntity(**{FIELDS[kind]: DEFAULT if name is None else name for kind, name in names.items()})
            found[entity] = {value.key: value.value for value in sorted(entry.values, key=lambda one: one.key)}
    return dict(sorted(found.items(), key=lambda item: tuple(name or "" for name in item[0])))


def alter_request(
    changes: Mapping[QuotaEntity, QuotaChanges], entities: Sequence[QuotaEntity], validate_only: bool
) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntry(
                entity=[
                    AlterClientQuotasRequestEntity(entity_type=kind, entity_name=None if name == DEFAULT else name)
                    for kind, field in FIELDS.items()
                    if (name := getattr(entity, field)) is not None
                ],
                ops=[
                    AlterClientQuotasRequestOp(key=key, value=value or 0.0, remove=value is None)
                    for key, value in changes[entity].items()
                ],
            )
            for entity in entities
        ],
        validate_only=validate_only,
    )


def read_altered(response: AlterClientQuotasResponse) -> Answers[QuotaEntity, None]:
    answers: Answers[QuotaEntity, None] = {}
    for entry in response.entries:
        entity = QuotaEntity(
            **{FIELDS[one.entity_type]: DEFAULT if one.entity_name is None else one.entity_name for one in entry.entity}
        )
        answers[entity] = judged(entry.error_code, f"altering the quotas of {entity_text(entity)}", entry.error_message)
    return answers


def _entity(name: str, given: QuotaEntity) -> QuotaEntity:
    entity = arguments.instance(name, given, QuotaEntity, EXAMPLE)
    if not any(one is not None for one in entity):
        arguments.refuse(name, given, f"an entity with a user, a client id or an IP address, such as {EXAMPLE}")
    return entity


def _changes(name: str, given: QuotaChanges) -> dict[str, float | None]:
    return arguments.mapping(name, given, arguments.text, _value)


def _value(name: str, given: float | None) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        arguments.refuse(name, given, "a number, or None to remove the quota")
    return float(given)


class QuotaCalls(Calls):
    """Admin calls about client quotas."""

    async def describe_client_quotas(
        self,
        *,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        strict: bool = False,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that have all the given names; of all entities without an argument.

        A name may be `DEFAULT` (the default of those without a quota of their own) or `ANY_NAME`. With `strict`, only
        entities without further types are returned: `user="alice"` then leaves out those of her client ids.
        """
        given = {"user": user, "client-id": client_id, "ip": ip}
        components = [
            component(kind, arguments.text(FIELDS[kind], name)) for kind, name in given.items() if name is not None
        ]
        return await self._once(
            ANY_NODE,
            DescribeClientQuotasRequest(components=components, strict=strict),
            read_described,
            deadline=self._deadline(timeout),
            what="describing quotas",
        )

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, QuotaChanges],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set quotas, and remove those whose value is None. Other quotas of the entities stay.

        Raises InvalidRequest for a quota that the entity cannot have, or a value that is not valid.
        """
        wanted = arguments.mapping("changes", changes, _entity, _changes)
        settled(
            await self._each(
                wanted,
                Fixed[QuotaEntity](ANY_NODE),
                lambda some: alter_request(wanted, some, validate_only),
                lambda response, _some: read_altered(response),
                deadline=self._deadline(timeout),
                what="altering the quotas of",
            )
        )
