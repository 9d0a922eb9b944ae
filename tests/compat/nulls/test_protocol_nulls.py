"""Nullable strings of responses: null where Apache Kafka's are, for every API, on success and on error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moldau.broker.requests.handler_registry import HANDLERS
from moldau.security.acl_authorizer import AclAuthorizer
from moldau.wire.api import APIS, ApiKey
from tests.compat.nulls import cluster_cases, group_cases, security_cases  # noqa: F401  (they register their cases)
from tests.compat.nulls.case_context import (
    CASES,
    EMPTY,
    NO_SUCH_ID,
    Case,
    CaseContext,
    kinds_at,
    message_of,
    nullable_strings,
    one_of,
)
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.system.in_process_broker import InProcessBroker, Machine

# Only a broker that is not the leader returns the leader's address.
NEEDS_A_CLUSTER = {("ProduceResponse", "node_endpoints.rack"), ("FetchResponse", "node_endpoints.rack")}

# Without an authorizer there are no rules to delete.
NEEDS_AN_AUTHORIZER = {("DeleteAclsResponse", "filter_results.matching_acls.error_message")}


@pytest.fixture(scope="module")
def bootstrap(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server under test. A new group does not wait for more members."""
    given: str | None = pytestconfig.getoption("--bootstrap")
    if given is not None:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("nulls") / "data", {"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap


def found_in(case: Case, context: CaseContext) -> dict[str, frozenset[str]]:
    """Each nullable string of the response: null, empty, or a text."""
    response = case.ask(context)
    struct = message_of(f"{APIS[case.key].name}Response").definition.top
    found = {path: kinds_at(response, path) for path in nullable_strings(struct, context.version)}
    return {path: kinds for path, kinds in found.items() if kinds}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nullable_strings_are_null_where_those_of_apache_kafka_are(
    case: Case, raw: RawConnection, new_topic: Callable[..., str], unused_name: Callable[[], str]
) -> None:
    for version in case.versions:
        found = found_in(case, CaseContext(raw, version, new_topic, unused_name))
        wrong = {path: sorted(kinds) for path, kinds in found.items() if not case.agrees(path, kinds)}
        assert not wrong, f"version {version}; Apache Kafka has {case.expected}"


def test_find_coordinator_before_version_4_says_none_on_success(
    raw: RawConnection, new_topic: Callable[..., str], unused_name: Callable[[], str]
) -> None:
    for version in (1, 2, 3):
        context = CaseContext(raw, version, new_topic, unused_name)
        assert context.ask(ApiKey.FIND_COORDINATOR, {"key": context.group}).error_message == "NONE"


def test_every_nullable_string_of_every_served_response_has_a_case() -> None:
    covered = {(f"{APIS[case.key].name}Response", path) for case in CASES for path in case.expected}
    served = [f"{APIS[key].name}Response" for key in HANDLERS]
    nullable = {(name, path) for name in served for path in nullable_strings(message_of(name).definition.top, None)}
    assert nullable == covered | NEEDS_A_CLUSTER | NEEDS_AN_AUTHORIZER


@pytest.fixture(scope="module")
def denying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that denies every request."""
    with InProcessBroker(Machine().fs, tmp_path_factory.mktemp("denying")) as broker:
        assert broker.broker is not None
        broker.broker.authorizer = AclAuthorizer()
        yield broker.bootstrap


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_denied_request_never_has_an_empty_error_message(case: Case, denying: str) -> None:
    for version in case.versions:
        with RawConnection(denying) as raw:
            context = CaseContext(raw, version, lambda *_, **__: "topic", lambda: "name")
            context.topic, context.topic_id, context.group = "topic", NO_SUCH_ID, "group"
            found = found_in(case, context)
        messages = {path: kinds for path, kinds in found.items() if path.endswith("error_message")}
        assert one_of(EMPTY) not in messages.values(), f"version {version}: {messages}"
