"""The REST API around the registry: methods, content types, parameters, bodies, errors, OpenAPI."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from moldau.client.errors import MoldauError
from moldau.registry.rest.endpoints import endpoints
from moldau.registry.rest.server_info import ServerInfo
from moldau.registry.stored_registry import MemoryRegistry
from tests.registry.rest.in_process import V1, InProcess

TEXT = '{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]}'
NEWER = '{"type":"record","name":"A","fields":[{"name":"x","type":"int"},{"name":"y","type":"int","default":0}]}'
OTHER = '{"type":"record","name":"A","fields":[{"name":"z","type":"string"}]}'


def client(*subjects: str) -> InProcess:
    found = InProcess()
    for subject in subjects:
        assert found.post(f"/subjects/{subject}/versions", json={"schema": TEXT}).status_code == 200
    return found


def error(answer: httpx.Response) -> tuple[int, int]:
    """Status and code of an error, whose body has nothing else."""
    body = answer.json()
    assert set(body) == {"error_code", "message"} and body["message"]
    return answer.status_code, body["error_code"]


# -- content types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        (None, V1),
        ("*/*", V1),
        ("application/*", V1),
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry+json, application/json", "application/vnd.schemaregistry+json"),
        ("application/json;q=1, application/vnd.schemaregistry.v1+json;q=0.1", "application/json"),
        ("text/html, */*;q=0.1", V1),
        ("application/vnd.schemaregistry.v1+json;q=0, application/json", "application/json"),
        ("*/*, application/vnd.schemaregistry.v1+json;q=0", "application/vnd.schemaregistry+json"),
        ("APPLICATION/JSON;Q=nonsense", "application/json"),
    ],
)
def test_the_accept_header_chooses_the_type(accept: str | None, answered: str) -> None:
    answer = client().get("/subjects", headers={} if accept is None else {"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, answered)


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "application/json;q=0", ";;,,"])
def test_a_type_that_the_registry_does_not_have_is_not_acceptable(accept: str) -> None:
    assert error(client().get("/subjects", headers={"accept": accept})) == (406, 406)


@pytest.mark.parametrize("sent", [V1, "application/json; charset=utf-8", "application/octet-stream", ""])
def test_a_body_of_these_types_is_read(sent: str) -> None:
    headers = {"content-type": sent} if sent else {}
    answer = client().post("/subjects/a/versions", content=json.dumps({"schema": TEXT}), headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize("sent", ["text/plain", "application/x-www-form-urlencoded", "application/avro", "x"])
def test_a_body_of_another_type_is_refused_and_changes_nothing(sent: str) -> None:
    asked = client()
    answer = asked.post("/subjects/a/versions", content=json.dumps({"schema": TEXT}), headers={"content-type": sent})
    assert error(answer) == (415, 415)
    assert asked.get("/subjects").json() == []


# -- paths and methods -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/subjects/a/b",
        "/schemas/ids",
        "/subjects//versions",
        "/schemas/ids/one",
        "/schemas/ids/99999999999",
    ],
)
def test_an_unknown_path_is_not_found(path: str) -> None:
    assert error(client("a").get(path)) == (404, 404)


@pytest.mark.parametrize("query", ["offset=x", "limit=1.5", "limit=", "offset=99999999999"])
def test_a_number_that_is_none_is_not_found_as_in_confluents_registry(query: str) -> None:
    assert error(client("a").get(f"/subjects?{query}")) == (404, 404)


def test_a_method_that_a_path_does_not_have_names_the_others() -> None:
    answer = client().put("/subjects", json={})
    assert error(answer) == (405, 405)
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
    assert client().options("/config").headers["allow"] == "GET, PUT, DELETE, HEAD, OPTIONS"


def test_head_is_a_get_without_a_body_and_a_slash_at_the_end_counts_for_nothing() -> None:
    asked = client("a")
    assert asked.head("/subjects/").status_code == 200
    assert asked.get("/subjects/a/versions/").json() == [1]


def test_a_subject_with_a_slash_is_one_part_of_the_path() -> None:
    asked = client("a%2Fversions%2F1")
    assert asked.get("/subjects").json() == ["a/versions/1"]
    assert asked.get("/subjects/a%2Fversions%2F1/versions/latest").json()["subject"] == "a/versions/1"
    assert error(asked.get("/subjects/a/versions/1")) == (404, 40401)


# -- bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", (422, 422)),
        ("{", (400, 400)),
        ("[" * 100_000, (400, 400)),
        ("[]", (422, 422)),
        ("null", (422, 422)),
        ('{"schema": 5}', (422, 42201)),
        ('{"schema": {"type": "string"}}', (422, 42201)),
        ('{"schema": "\\"string\\"", "schemaType": 7}', (422, 42201)),
        ('{"schema": "\\"string\\"", "schemaType": "XML"}', (422, 42201)),
        ('{"schema": "\\"string\\"", "references": {}}', (422, 42201)),
        ('{"schema": "\\"string\\"", "references": [1]}', (422, 42201)),
        ('{"schema": "\\"string\\"", "references": [{"name": "A"}]}', (422, 42201)),
        ('{"schema": "\\"string\\"", "metadata": []}', (422, 42201)),
        ('{"schema": "\\"string\\"", "id": "7"}', (422, 42201)),
        ('{"schema": "\\"string\\"", "version": 4294967296}', (422, 42201)),
        ('{"schema": "\\"string\\"", "version": true}', (422, 42201)),
        ("{}", (422, 42201)),
        (b"\xff\xfe", (400, 400)),
        ('{"schema": "\\"string\\"", "metadata": {"properties": {"a": NaN}}}', (400, 400)),
        ('{"schema": "\\"string\\"", "metadata": {"properties": {"a": "\\ud800"}}}', (422, 42201)),
        ('{"schema": "{\\"type\\": \\"string\\", \\"doc\\": \\"\\\\ud800\\"}"}', (422, 42201)),
        ('{"schema": "{\\"type\\": \\"string\\", \\"doc\\": \\"\\ud800\\"}"}', (422, 42201)),
        ('{"schema": ""}', (422, 42201)),
    ],
)
def test_a_body_that_is_no_schema_is_refused_and_changes_nothing(body: str | bytes, expected: tuple[int, int]) -> None:
    asked = client()
    assert error(asked.post("/subjects/a/versions", content=body)) == expected
    assert asked.get("/subjects?deleted=true").json() == []


def test_unknown_fields_of_a_body_are_ignored() -> None:
    body = {"schema": TEXT, "compress": True, "schemaTagsToAdd": []}
    assert client().post("/subjects/a/versions", json=body).json()["id"] == 1


def test_a_registered_schema_is_answered_with_what_confluents_registry_answers() -> None:
    asked = client("a")
    again = asked.post("/subjects/a/versions", json={"schema": TEXT}).json()
    guid = again.pop("guid")
    assert again == {"id": 1, "version": 1, "schemaType": "AVRO", "schema": TEXT}
    by_id = asked.get("/schemas/ids/1?fetchMaxId=true").json()
    assert by_id == {
        "subject": "a", "version": 1, "guid": guid, "schemaType": "AVRO", "schema": TEXT, "maxId": 1,
    }  # fmt: skip
    version = {"subject": "a", "version": 1, "id": 1, "guid": guid, "schemaType": "AVRO", "schema": TEXT}
    assert asked.get("/subjects/a/versions/1").json() == version
    assert asked.post("/subjects/a", json={"schema": TEXT}).json() == version
    assert asked.get("/schemas").json() == [version]
    assert asked.get(f"/schemas/guids/{guid}/ids").json() == [{"context": ".", "id": 1}]
    assert asked.get("/schemas/ids/1/schema").text == TEXT
    assert asked.get("/subjects/a/versions/latest/schema").text == TEXT


def test_a_check_gives_reasons_only_if_asked() -> None:
    asked = client("a")
    path = "/compatibility/subjects/a/versions"
    assert asked.post(f"{path}/latest", json={"schema": OTHER}).json() == {"is_compatible": False}
    reasons = asked.post(f"{path}?verbose=true", json={"schema": OTHER}).json()
    assert reasons["is_compatible"] is False and any("z" in one for one in reasons["messages"])
    assert asked.post(f"{path}?verbose=True", json={"schema": NEWER}).json() == {"is_compatible": True, "messages": []}
    assert error(asked.post(path, json={"schema": "{"})) == (422, 42201)
    invalid = asked.post(f"{path}?verbose=true", json={"schema": "{"}).json()
    assert invalid["is_compatible"] is False and len(invalid["messages"]) == 1
    assert error(asked.post(f"{path}/9", json={"schema": NEWER})) == (404, 40402)
    assert error(asked.post(f"{path}/zero", json={"schema": NEWER})) == (422, 42202)
    assert asked.get("/subjects/a/versions").json() == [1], "a check registers nothing"


def test_deleted_versions_can_be_shown_as_negative_numbers() -> None:
    asked = client("a")
    asked.post("/subjects/a/versions", json={"schema": NEWER})
    assert asked.delete("/subjects/a/versions/1").json() == 1
    assert asked.get("/subjects/a/versions?deletedAsNegative=true").json() == [-1, 2]
    assert asked.get("/subjects/a/versions?deletedOnly=true").json() == [1]
    assert asked.get("/subjects/a/versions?deleted=TRUE").json() == [1, 2]
    assert asked.get("/subjects/a/versions?deleted=yes").json() == [2]
    assert asked.get("/subjects/a/versions/1?deleted=true").json()["deleted"] is True


@pytest.mark.parametrize("body", ["{}", '{"mode": 5}', '{"mode": null}', '{"mode": "ASLEEP"}'])
def test_a_mode_that_is_none_is_refused(body: str) -> None:
    asked = client()
    assert error(asked.put("/mode", content=body)) == (422, 42204)
    assert asked.get("/mode").json() == {"mode": "READWRITE"}


@pytest.mark.parametrize("body", ['{"compatibility": "SIDEWAYS"}', '{"compatibility": 5}'])
def test_a_level_that_is_none_is_refused(body: str) -> None:
    asked = client()
    assert error(asked.put("/config", content=body)) == (422, 42203)
    assert asked.get("/config").json() == {"compatibilityLevel": "BACKWARD"}


def test_settings_fall_back_to_those_of_the_registry_if_asked() -> None:
    asked = client("a")
    assert error(asked.get("/config/a")) == (404, 40408)
    assert asked.get("/config/a?defaultToGlobal=true").json()["compatibilityLevel"] == "BACKWARD"
    assert error(asked.get("/mode/a")) == (404, 40409)
    assert asked.get("/mode/a?defaultToGlobal=true").json() == {"mode": "READWRITE"}
    assert asked.put("/config/a", json={"compatibility": "none"}).json() == {"compatibility": "NONE"}
    assert asked.delete("/config/a").json()["compatibilityLevel"] == "NONE"


# -- contexts ----------------------------------------------------------------------------------------------------------


def test_every_path_exists_within_a_context() -> None:
    asked = client("a")
    within = "/contexts/.test"
    assert asked.post(f"{within}/subjects/b/versions", json={"schema": OTHER}).json()["id"] == 1
    assert asked.get(f"{within}/subjects").json() == [":.test:b"]
    assert asked.get("/contexts/test/subjects").json() == [":.test:b"]
    assert asked.get("/contexts/:.test:/subjects/b/versions").json() == [1]
    assert asked.get(f"{within}/subjects?subjectPrefix=c").json() == []
    assert asked.get(f"{within}/schemas/ids/1").json()["schema"] == OTHER
    assert asked.get("/schemas/ids/1").json()["schema"] == TEXT
    assert asked.get("/contexts/:.:/subjects").json() == ["a"]
    assert [one["subject"] for one in asked.get(f"{within}/schemas").json()] == [":.test:b"]
    assert asked.post(f"{within}/compatibility/subjects/b/versions", json={"schema": TEXT}).json() == {
        "is_compatible": False
    }
    assert error(asked.get(f"{within}/subjects/a/versions")) == (404, 40401)


def test_settings_of_a_context_are_settings_of_its_subjects() -> None:
    asked = client("a")
    assert asked.put("/contexts/.test/config", json={"compatibility": "NONE"}).status_code == 200
    assert asked.put("/contexts/.test/mode", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}
    assert error(asked.post("/contexts/.test/subjects/b/versions", json={"schema": TEXT})) == (422, 42205)
    assert asked.post("/subjects/b/versions", json={"schema": TEXT}).status_code == 200
    assert asked.get("/contexts/.test/config/b?defaultToGlobal=true").json()["compatibilityLevel"] == "NONE"
    assert asked.get("/config").json()["compatibilityLevel"] == "BACKWARD"


def test_a_context_with_a_colon_is_refused_and_only_an_empty_one_deleted() -> None:
    asked = client()
    assert error(asked.get("/contexts/a:b/subjects")) == (400, 400)
    asked.post("/contexts/.test/subjects/b/versions", json={"schema": TEXT})
    assert error(asked.delete("/contexts/.test")) == (422, 42211)
    asked.delete("/contexts/.test/subjects/b")
    asked.delete("/contexts/.test/subjects/b?permanent=true")
    answer = asked.delete("/contexts/.test")
    assert (answer.status_code, answer.content) == (204, b"")
    assert asked.get("/contexts").json() == ["."]


def test_references_within_a_context_can_name_it() -> None:
    asked = client()
    asked.post("/contexts/.test/subjects/b/versions", json={"schema": TEXT})
    reference = {"name": "A", "subject": "b", "version": 1}
    using = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    body = {"schema": using, "references": [reference]}
    assert asked.post("/contexts/.test/subjects/c/versions", json=body).status_code == 200
    path = "/subjects/:.test:c/versions/1"
    assert asked.get(path).json()["references"] == [reference]
    qualified = [{**reference, "subject": ":.test:b"}]
    assert asked.get(f"{path}?referenceFormat=qualified").json()["references"] == qualified


# -- the service -------------------------------------------------------------------------------------------------------


class BrokenRegistry(MemoryRegistry):
    """A registry whose brokers do not answer."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def fresh(self) -> None:
        raise self.error

    @property
    def problem(self) -> str | None:
        return "the topic _schemas is gone"


def test_errors_of_the_brokers_and_of_the_code_are_answered_without_their_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.CRITICAL):
        answer = InProcess(BrokenRegistry(MoldauError("no broker answers"))).get("/subjects")
        assert error(answer) == (500, 50001)
        assert "no broker answers" in answer.text
        bug = InProcess(BrokenRegistry(RuntimeError("password=hunter2"))).get("/subjects")
        assert error(bug) == (500, 500)
        assert "hunter2" not in bug.text


def test_health_tells_what_is_wrong() -> None:
    answer = InProcess(BrokenRegistry(MoldauError("x"))).get("/health")
    assert (answer.status_code, answer.json()["message"]) == (503, "the topic _schemas is gone")
    assert client().get("/health").json() == {"status": "healthy"}


def test_the_registry_tells_its_clusters_and_version() -> None:
    clusters = {"kafka-cluster": "cluster-1", "schema-registry-cluster": "schema-registry"}
    assert client().get("/v1/metadata/id").json() == {"scope": {"path": [], "clusters": clusters}, "id": ""}
    assert set(client().get("/v1/metadata/version").json()) == {"version", "commitId"}
    assert client().get("/").json() == {}


def test_requests_are_counted_by_endpoint_and_not_by_subject() -> None:
    asked = client("secret-subject")
    asked.get("/subjects/secret-subject/versions")
    page = asked.get("/metrics").text
    line = 'moldau_registry_http_requests_total{endpoint="/subjects/{subject}/versions",method="GET",status="200"} 1.0'
    assert line in page
    assert "secret-subject" not in page


def test_the_description_has_every_endpoint_and_the_page_shows_it() -> None:
    description: dict[str, Any] = client().get("/openapi.json").json()
    operations = [one for item in description["paths"].values() for one in item.values()]
    names = [one["operationId"] for one in operations]
    assert len(names) == len(set(names)) > 30
    page = client().get("/docs").text
    assert all(f"<code>{path}</code>" in page for path in description["paths"])
    assert "<script" not in page and "https://" not in page


def test_the_guide_has_every_path_and_query_parameter() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
    rows = {row.split("`")[1]: row for row in guide.splitlines() if row.startswith("| `/")}
    for endpoint in endpoints(MemoryRegistry(), ServerInfo()):
        operation = endpoint.operation
        row = rows[re.sub(r"{(\w+)}", lambda found: found[1].upper(), operation.path)]
        assert f"{operation.method}: " in row
        assert not [one.name for one in operation.parameters if f"`{one.name}`" not in row]


def test_a_name_in_the_page_is_escaped() -> None:
    from moldau.service.api_page import api_page

    operation = {"summary": "<b>", "parameters": [{"name": "<i>", "in": "query"}], "responses": {}}
    page = api_page({"info": {"title": "<script>", "version": "1"}, "paths": {"/<u>": {"get": operation}}})
    assert "<script>" not in page and "<u>" not in page and "<i>" not in page and "<b></" not in page
