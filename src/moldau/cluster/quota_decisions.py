"""Client quotas: which alterations are accepted, and which quotas a filter matches. Pure decisions.

Kafka's rules, with four differences:

- An alteration that names an entity type or a quota twice changes nothing.
- Values that are not finite are refused.
- An IP address must be an address: host names are not resolved.
- `<default>` is not a name of a user, a client id or an IP address.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from moldau.cluster.changes import ClientQuotasChanged
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ClusterImage
from moldau.cluster.image_publisher import MetadataDecision, Step
from moldau.security.quota_entities import (
    CLIENT_QUOTAS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    QuotaEntity,
)
from moldau.wire.errors import ErrorCode

USER, CLIENT_ID, IP = "user", "client-id", "ip"
FIELDS: Final = {USER: "user", CLIENT_ID: "client_id", IP: "ip"}
"""Kafka's entity types, and the fields of `QuotaEntity`."""

MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED = 0, 1, 2

WHOLE_NUMBERS: Final = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    CONNECTION_CREATION_RATE: 2**31 - 1,
}
"""Quotas that take whole numbers only, and the largest one of each."""

EntityParts = tuple[tuple[str, str | None], ...]
"""Entity types and names as in requests. No name: the default."""
Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class QuotaAlteration(NamedTuple):
    """New values of quotas of one entity; None removes a quota."""

    entity: EntityParts
    operations: tuple[tuple[str, float | None], ...]


class QuotaComponent(NamedTuple):
    """One condition of a filter."""

    entity_type: str
    match_type: int
    match: str | None


def alter_quotas(image: ClusterImage, alterations: Sequence[QuotaAlteration]) -> MetadataDecision[None]:
    """Decide an AlterClientQuotas request."""
    named = Counter(frozenset(alteration.entity) for alteration in alterations)
    answers: list[Refusal | None] = []
    steps: list[Step] = []
    for place, alteration in enumerate(alterations):
        change = _altered(image.security.client_quotas, alteration)
        if named[frozenset(alteration.entity)] > 1:
            change = _invalid("Each entity may be in the request only once.")
        if isinstance(change, Refusal):
            answers.append(change)
            continue
        answers.append(None)
        if change.quotas != image.security.client_quotas.get(change.entity, {}):
            steps.append(Step(change, (place,)))
    return MetadataDecision(answers, steps)


def matching_quotas(quotas: Quotas, components: Sequence[QuotaComponent], *, strict: bool) -> Quotas | Refusal:
    """The quotas that a filter of DescribeClientQuotas matches. Strict: only of entities with no other types."""
    conditions: dict[str, str | None] = {}
    for component in components:
        error = _component_error(component, conditions)
        if error is not None:
            return error
        exact = component.match if component.match_type == MATCH_EXACT else DEFAULT
        conditions[component.entity_type] = None if component.match_type == MATCH_SPECIFIED else exact
    if IP in conditions and len(conditions) > 1:
        return _invalid("A filter by IP address cannot be combined with a filter by user or client id.")
    return {entity: values for entity, values in quotas.items() if _matches(entity, conditions, strict)}


def entity_parts(entity: QuotaEntity) -> EntityParts:
    """An entity as in responses: its types and names; None is the default."""
    named = [(kind, getattr(entity, field)) for kind, field in FIELDS.items()]
    return tuple((kind, None if name == DEFAULT else name) for kind, name in named if name is not None)


def _matches(entity: QuotaEntity, conditions: Mapping[str, str | None], strict: bool) -> bool:
    names = {kind: name for kind, field in FIELDS.items() if (name := getattr(entity, field)) is not None}
    if strict and len(names) != len(conditions):
        return False
    return all(kind in names and wanted in (None, names[kind]) for kind, wanted in conditions.items())


def _component_error(component: QuotaComponent, before: Mapping[str, str | None]) -> Refusal | None:
    kind, match_type, match = component
    if not kind:
        return _invalid("A filter needs an entity type.")
    if kind in before:
        return _invalid(f"Entity type {kind} may be in the filter only once.")
    if kind not in FIELDS:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}.")
    if match_type not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
        return _invalid(f"Unknown match type {match_type}.")
    if match_type == MATCH_EXACT and match is None:
        return _invalid(f"An exact match of {kind} needs a name.")
    if match_type != MATCH_EXACT and match is not None:
        return _invalid(f"A match of {kind} by type {match_type} takes no name.")
    return None


def _altered(quotas: Quotas, alteration: QuotaAlteration) -> ClientQuotasChanged | Refusal:
    entity = _entity(alteration.entity)
    if isinstance(entity, Refusal):
        return entity
    if len({key for key, _ in alteration.operations}) < len(alteration.operations):
        return _invalid("Each quota of an entity may be in the request only once.")
    valid = (CONNECTION_CREATION_RATE,) if entity.ip is not None else CLIENT_QUOTAS
    values = dict(quotas.get(entity, {}))
    for key, value in alteration.operations:
        if value is None:
            values.pop(key, None)
        elif (error := _value_error(key, value, valid)) is not None:
            return _invalid(error)
        else:
            values[key] = value
    return ClientQuotasChanged(entity, values)


def _entity(parts: EntityParts) -> QuotaEntity | Refusal:
    names = dict(parts)
    if not parts:
        return _invalid("A quota needs an entity: a user, a client id, both, or an IP address.")
    if len(names) < len(parts):
        return _invalid("Each entity type may be in an entity only once.")
    for kind, name in parts:
        if kind not in FIELDS:
            return _invalid(f"Unknown entity type {kind}.")
        if name == "":
            return _invalid(f"An empty {kind} is not supported.")
        if name == DEFAULT:
            return _invalid(f"{DEFAULT} is not a name: no name stands for the default {kind}.")
    if IP in names:
        if len(names) > 1:
            return _invalid("An IP address cannot be combined with a user or a client id.")
        if (address := names[IP]) is not None and not _is_address(address):
            return _invalid(f"{address} is not an IP address.")
    return QuotaEntity(**{FIELDS[kind]: DEFAULT if name is None else name for kind, name in parts})


def _value_error(key: str, value: float, valid: Sequence[str]) -> str | None:
    if key not in valid:
        return f"Invalid quota {key}; valid for this entity: {', '.join(valid)}."
    if not (math.isfinite(value) and value > 0):
        return f"Quota {key} must be greater than 0, not {value}."
    if key in WHOLE_NUMBERS:
        if value > WHOLE_NUMBERS[key]:
            return f"Quota {key} is too large: {value}, at most {WHOLE_NUMBERS[key]}."
        if value != int(value):
            return f"Quota {key} must be a whole number, not {value}."
    return None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
