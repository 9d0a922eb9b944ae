"""The OpenAPI description, judged by schemathesis: requests made from it, right and wrong, are answered as it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from moldau.testing import Broker
from tests.rest.rest_proxy import ServedProxy, served

EXAMPLES = 1
"""Requests for each operation in `make test`."""
KNOWN_NAMES = {"topic_name": "judged", "broker_id": 1, "partition_id": 0}
MAX_SHOWN = 1_500
ENDLESS = "/events"


@pytest.fixture(scope="module")
def judged() -> Iterator[ServedProxy]:
    """A proxy of its own with a broker of its own: requests at random create and delete things."""
    settings = {"auto.create.topics.enable": "false", "num.partitions": "1"}
    with Broker(settings) as broker, served({"bootstrap.servers": broker.bootstrap_servers}) as proxy:
        broker.create_topic("judged", 1)
        yield proxy


def test_the_description_is_complete(proxy: ServedProxy) -> None:
    found = proxy.http.get("/openapi.json").json()
    operations = [one for path in found["paths"].values() for one in path.values()]
    assert len(operations) > 70
    assert len({one["operationId"] for one in operations}) == len(operations)
    page = proxy.http.get("/").text
    assert all(re.sub(r"[{}]", "", path) in re.sub(r"[{}]", "", page) for path in found["paths"])
    assert "<script" not in page


@pytest.mark.timeout(1800)
def test_every_operation_answers_as_described(judged: ServedProxy, count: Callable[..., int]) -> None:
    schema = schemathesis.openapi.from_url(f"{judged.url}/openapi.json")
    checks = [check for check in CHECKS.get_all() if check.__name__ not in NOT_JUDGED]
    problems: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith(ENDLESS):
            continue
        strategy = st.one_of(operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

        @settings(
            max_examples=count(EXAMPLES, 20),
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def judge(case: Any) -> None:
            case.path_parameters = {
                name: judged.cluster_id if name == "cluster_id" else KNOWN_NAMES.get(name, value)
                for name, value in (case.path_parameters or {}).items()
            }
            case.call_and_validate(base_url=judged.url, checks=checks, timeout=60)

        try:
            judge()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - all are judged before the test fails
            problems.append(f"{operation.method.upper()} {operation.path}: {str(error)[:MAX_SHOWN]}")
    assert not problems, "\n\n".join(problems)
    assert httpx.get(f"{judged.url}/health").status_code == 200


NOT_JUDGED = {
    "ignored_auth",  # the login is judged in test_login.py
    "positive_data_acceptance",  # the brokers refuse names and values that are texts
}
