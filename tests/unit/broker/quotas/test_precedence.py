"""Precedence of quotas: which entity's quota applies, and which clients share its rate."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.quotas.precedence import AppliedQuota, Measured, applied_quota, connection_rate_of
from moldau.security.quota_entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    QuotaEntity,
)

# The table of Kafka's documentation, highest precedence first, and who shares the rate.
TABLE = [
    (QuotaEntity("alice", "app"), Measured("alice", "app")),
    (QuotaEntity("alice", DEFAULT), Measured("alice", "app")),
    (QuotaEntity("alice"), Measured("alice", None)),
    (QuotaEntity(DEFAULT, "app"), Measured("alice", "app")),
    (QuotaEntity(DEFAULT, DEFAULT), Measured("alice", "app")),
    (QuotaEntity(DEFAULT), Measured("alice", None)),
    (QuotaEntity(None, "app"), Measured(None, "app")),
    (QuotaEntity(None, DEFAULT), Measured(None, "app")),
]


@pytest.mark.parametrize("first", range(len(TABLE)))
def test_the_most_specific_entity_applies_and_the_others_are_ignored(first: int) -> None:
    quotas = {entity: {PRODUCER_BYTE_RATE: float(place)} for place, (entity, _) in enumerate(TABLE) if place >= first}
    assert applied_quota(quotas, PRODUCER_BYTE_RATE, "alice", "app") == AppliedQuota(TABLE[first][1], first)


@pytest.mark.parametrize("entity", [entity for entity, _ in TABLE if "alice" in entity or "app" in entity])
def test_an_entity_does_not_apply_to_others(entity: QuotaEntity) -> None:
    quotas = {entity: {PRODUCER_BYTE_RATE: 1.0}}
    user = "bob" if entity.user == "alice" else "alice"
    client_id = "other" if entity.client_id == "app" else "app"
    assert applied_quota(quotas, PRODUCER_BYTE_RATE, user, client_id) is None


def test_each_quota_name_is_looked_up_separately() -> None:
    quotas = {QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 1.0}, QuotaEntity(None, DEFAULT): {CONSUMER_BYTE_RATE: 2.0}}
    assert applied_quota(quotas, PRODUCER_BYTE_RATE, "alice", "app") == ((("alice", None)), 1.0)
    assert applied_quota(quotas, CONSUMER_BYTE_RATE, "alice", "app") == (((None, "app")), 2.0)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                QuotaEntity(user, client_id)
                for user, client_id in product((None, "alice", "bob", DEFAULT), (None, "app", "x", DEFAULT))
                if user or client_id
            ]
        ),
        st.floats(1, 100).map(lambda rate: {PRODUCER_BYTE_RATE: rate}),
    )
)
def test_what_applies_is_the_first_row_of_the_table_that_is_configured(
    quotas: dict[QuotaEntity, dict[str, float]],
) -> None:
    expected = next(
        (
            AppliedQuota(measured, quotas[entity][PRODUCER_BYTE_RATE])
            for entity, measured in TABLE
            if PRODUCER_BYTE_RATE in quotas.get(entity, {})
        ),
        None,
    )
    assert applied_quota(quotas, PRODUCER_BYTE_RATE, "alice", "app") == expected


def test_an_address_has_its_own_connection_rate_or_the_default() -> None:
    quotas = {QuotaEntity(ip="10.0.0.1"): {CONNECTION_CREATION_RATE: 5.0}}
    assert connection_rate_of(quotas, "10.0.0.1") == 5.0
    assert connection_rate_of(quotas, "10.0.0.2") is None
    quotas[QuotaEntity(ip=DEFAULT)] = {CONNECTION_CREATION_RATE: 7.0}
    assert connection_rate_of(quotas, "10.0.0.1") == 5.0
    assert connection_rate_of(quotas, "10.0.0.2") == 7.0
