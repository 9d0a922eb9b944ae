"""Schemathesis as a judge: requests made from the OpenAPI description, and answers compared with it.

The registry has subjects and schemas before, and half of the requests name them: made-up names alone would hardly ever
get past 404.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from moldau.registry.rest.endpoints import endpoints
from moldau.registry.rest.openapi import openapi
from moldau.registry.rest.server_info import ServerInfo
from moldau.registry.stored_registry import MemoryRegistry
from moldau.testing import Registry

DESCRIPTION = openapi(endpoints(MemoryRegistry(), ServerInfo()))
API = schemathesis.openapi.from_dict(DESCRIPTION)
OPERATIONS = {f"{one.method.upper()} {one.path}": one for one in (found.ok() for found in API.get_all_operations())}

INT = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
USING = {"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]}
KNOWN: dict[str, list[Any]] = {
    "subject": ["a-value", "b-value", ":.test:c", ":.test:", ":.:", "a/b", ""],
    "version": ["1", "2", "latest", "-1"],
    "id": [1, 2, -1],
    "context": [".test", ":.test:", "no"],
    "schema": [json.dumps(INT), json.dumps(USING), '"string"', '{"type": "object"}', 'syntax = "proto3";'],
}
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Registry() as registry:
        for subject in ("a-value", "b-value", "a/b", ":.test:c"):
            registry.register(subject, json.dumps(INT))
        yield registry.url


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_are_as_the_description_says(name: str, url: str, count: Callable[[int, int], int]) -> None:
    operation = OPERATIONS[name]
    known = st.fixed_dictionaries({one: st.none() | st.sampled_from(values) for one, values in KNOWN.items()})

    @given(case=operation.as_strategy(), known=known)
    @settings(
        max_examples=count(5, 400),
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any, known: dict[str, Any]) -> None:
        for place in (case.path_parameters, case.query, case.body):
            if isinstance(place, dict):
                place |= {one: value for one, value in known.items() if value is not None and one in place}
        if isinstance(case.path_parameters, dict) and not case.path_parameters.get("subject", "x"):
            case.path_parameters["subject"] = "a-value"  # an empty part would be another path
        case.call_and_validate(base_url=url, checks=CHECKS)

    ask()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name.startswith(("POST", "PUT"))])
def test_requests_that_break_the_description_are_no_errors_of_the_server(
    name: str, url: str, count: Callable[[int, int], int]
) -> None:
    @given(case=OPERATIONS[name].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    @settings(
        max_examples=count(5, 400),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=url, checks=[schemathesis.checks.not_a_server_error])

    ask()


def test_every_operation_is_judged() -> None:
    assert len(OPERATIONS) == len(endpoints(MemoryRegistry(), ServerInfo()))
