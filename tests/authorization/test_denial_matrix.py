"""Every API of the broker x every resource it touches x {no grant, wrong grant, deny over allow, right grant}."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.broker.requests.handler_registry import HANDLERS
from moldau.wire.api import APIS
from moldau.wire.errors import ErrorCode
from tests.authorization.cases import CASES, OPEN, all_variants
from tests.authorization.matrix import CLUSTER, Case, Variant
from tests.authorization.moldau_server import moldau_server
from tests.authorization.outline import Outline, codes, names
from tests.authorization.play import play, users

DENIALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
SERVED = [one for one in CASES if one.api in HANDLERS]


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, Outline]]:
    """The answers to all variants, in a second."""
    variants = all_variants(HANDLERS)
    with moldau_server(users(variants)) as server:
        yield play(server, variants)


def test_every_api_is_in_the_matrix_or_open_to_everyone() -> None:
    """A new handler needs a case: what it asks for, and that it refuses without."""
    covered = {one.api for one in CASES if one.needs}
    missing = [APIS[api].name for api in HANDLERS if api not in covered and api not in OPEN]
    assert not missing, f"no case in tests/authorization/: {', '.join(missing)}"
    assert not covered & set(OPEN)


@pytest.mark.parametrize("case", SERVED, ids=str)
def test_only_the_right_grant_is_enough(case: Case, answers: dict[str, Outline]) -> None:
    mine = [one for one in all_variants(HANDLERS) if str(one.case) == str(case)]
    right = answers[f"{case}-right grant"]
    for variant in mine:
        answer = answers[str(variant)]
        if variant.missing is None:
            assert not DENIALS & set(codes(answer)), f"{variant}: {answer}"
            assert set(names(right)) == set(names(answer)), f"{variant}: {answer}"
        else:
            assert_denied(variant, answer, right)


def assert_denied(variant: Variant, answer: Outline, right: Outline) -> None:
    need = variant.missing
    assert need is not None
    assert answer != right, f"{variant}: {answer}"
    if need.error is not None:
        assert need.error in set(codes(answer)), f"{variant}: {answer}"
    elif need.kind is not CLUSTER:
        assert need.role in set(names(right)), f"{variant}: {right}"
        assert need.role not in set(names(answer)), f"{variant}: {answer}"
