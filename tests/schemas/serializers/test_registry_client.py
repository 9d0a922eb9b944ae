"""The registry's client: what it caches, what it repeats, what its errors say, and that they hide logins."""

from __future__ import annotations

import json
import os
import pickle
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from moldau.schemas import InvalidSchema, RegistryClient, RegistryError, Schema, SchemaReference
from moldau.schemas.registry_settings import registry_settings
from moldau.service.login import hashed
from moldau.settings.setting import SettingError
from moldau.testing import Registry

POINT = Schema('{"type":"record","name":"Point","fields":[{"name":"x","type":"int"}]}')
LINE = Schema(
    '{"type":"record","name":"Line","fields":[{"name":"a","type":"Point"},{"name":"b","type":"Point"}]}',
    references=(SchemaReference("Point", "point", 1),),
)


def record(name: str, *fields: dict[str, Any]) -> Schema:
    return Schema(json.dumps({"type": "record", "name": name, "fields": list(fields)}))


def unused_address() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}"


def test_a_schema_is_found_by_its_id_version_and_text(client: RegistryClient) -> None:
    registered = client.register("a/b %-value", POINT)
    assert json.loads(client.get_schema(registered.id).text) == json.loads(POINT.text)
    assert client.version("a/b %-value", 1).id == client.latest("a/b %-value").id == registered.id
    assert client.lookup("a/b %-value", POINT).version == 1
    assert (client.subjects(), client.versions("a/b %-value")) == (["a/b %-value"], [1])
    assert registered.guid is not None
    assert json.loads(client.get_schema_by_guid(registered.guid).text) == json.loads(POINT.text)


def test_what_does_not_change_is_asked_for_once(registry: Registry, client: RegistryClient) -> None:
    schema_id = client.register("s", POINT).id
    calls = (
        lambda: client.register("s", POINT),
        lambda: client.lookup("s", POINT),
        lambda: client.get_schema(schema_id),
        lambda: client.version("s", 1),
        lambda: client.latest("s"),
    )
    for call in calls:
        call()
    registry.requests.clear()
    assert [call() for call in calls] and not registry.requests


def test_the_latest_version_is_asked_for_again_after_its_time(registry: Registry) -> None:
    registry.register("s", POINT)
    newer = record("Point", {"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 0})
    with RegistryClient({"url": registry.url, "latest.cache.ttl.sec": 0}) as client:
        assert client.latest("s").version == 1
        registry.register("s", newer)
        assert client.latest("s").version == 2
    with RegistryClient({"url": registry.url, "latest.cache.ttl.sec": -1}) as client:
        assert client.latest("s").version == 2
        client.register("s", record("Point", {"name": "x", "type": "long"}))
        assert client.latest("s").version == 3, "the own registration is seen at once"


def test_references_are_resolved_in_the_order_of_their_dependencies(client: RegistryClient) -> None:
    client.register("point", POINT)
    client.register("line", LINE)
    shape = Schema(
        '{"type":"record","name":"Shape","fields":[{"name":"l","type":"Line"},{"name":"p","type":"Point"}]}',
        references=(SchemaReference("Line", "line", 1), SchemaReference("Point", "point", 1)),
    )
    found = client.get_schema(client.register("shape", shape).id)
    assert list(client.resolved(found)) == ["Point", "Line"]
    assert client.parsed(found) is client.parsed(found)


def test_a_reference_in_a_deleted_version_is_still_resolved(client: RegistryClient) -> None:
    client.register("point", POINT)
    line = client.register("line", LINE)
    client.delete_version("line", 1)
    client.delete_subject("line", permanent=True)
    client.delete_subject("point")
    assert list(client.resolved(LINE)) == ["Point"]
    assert line.version in (1, None)


def test_a_reference_that_does_not_exist_is_an_error(client: RegistryClient) -> None:
    with pytest.raises(RegistryError, match="point") as caught:
        client.resolved(LINE)
    assert (caught.value.status, caught.value.code) == (404, 40401)


def test_references_in_a_circle_are_an_error(client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = {
        "a": Schema("{}", references=(SchemaReference("B", "b", 1),)),
        "b": Schema("{}", references=(SchemaReference("A", "a", 1),)),
    }
    from moldau.schemas import RegisteredSchema

    monkeypatch.setattr(client, "version", lambda subject, version, deleted: RegisteredSchema(1, schemas[subject]))
    with pytest.raises(InvalidSchema, match="circle: B -> A -> B"):
        client.resolved(schemas["a"])


@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        (lambda client: client.get_schema(99), 404, 40403),
        (lambda client: client.latest("nothing"), 404, 40401),
        (lambda client: client.version("s", 7), 404, 40402),
        (lambda client: client.lookup("s", Schema('"string"')), 404, 40403),
        (lambda client: client.register("s", Schema('{"type":"recor"}')), 422, 42201),
        (lambda client: client.register("s", Schema('"string"')), 409, 409),
        (lambda client: client.set_compatibility("SIDEWARD"), 422, 42203),
    ],
)
def test_a_refusal_has_the_registrys_code(client: RegistryClient, call: Any, status: int, code: int) -> None:
    client.register("s", POINT)
    with pytest.raises(RegistryError) as caught:
        call(client)
    assert (caught.value.status, caught.value.code) == (status, code)


def test_a_refusal_is_not_cached(registry: Registry, client: RegistryClient) -> None:
    with pytest.raises(RegistryError):
        client.get_schema(1)
    registry.register("s", POINT)
    assert client.get_schema(1)


def test_a_deleted_subject_is_no_longer_cached(client: RegistryClient) -> None:
    client.register("s", POINT)
    client.latest("s")
    assert client.delete_subject("s") == [1]
    with pytest.raises(RegistryError):
        client.latest("s")
    with pytest.raises(RegistryError):
        client.lookup("s", POINT)


def test_compatibility_is_checked_and_configured(client: RegistryClient) -> None:
    client.register("s", POINT)
    assert client.compatibility() == client.compatibility("s") == "BACKWARD"
    assert client.check_compatibility("s", POINT) == []
    needed = record("Point", {"name": "x", "type": "int"}, {"name": "y", "type": "int"})
    assert any("y" in reason for reason in client.check_compatibility("s", needed))
    client.set_compatibility("NONE", "s")
    assert client.compatibility("s") == "NONE" and client.compatibility() == "BACKWARD"
    assert client.check_compatibility("s", needed, None) == []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_failure_is_repeated(registry: Registry, client: RegistryClient, status: int) -> None:
    registry.fail_next(status, times=3)
    assert client.register("s", POINT).id == 1
    assert len(registry.requests) == 4


def test_repetition_has_an_end(registry: Registry, client: RegistryClient) -> None:
    registry.fail_next(503, times=4)
    with pytest.raises(RegistryError, match="injected by the test") as caught:
        client.subjects()
    assert caught.value.status == 503 and client.subjects() == []


def test_a_refusal_is_not_repeated(registry: Registry, client: RegistryClient) -> None:
    registry.fail_next(403)
    with pytest.raises(RegistryError) as caught:
        client.subjects()
    assert (caught.value.status, caught.value.code, len(registry.requests)) == (403, 403, 1)


def test_the_next_address_is_asked_if_one_does_not_answer(registry: Registry) -> None:
    with RegistryClient({"schema.registry.url": f"{unused_address()}, {registry.url}/", "max.retries": 0}) as client:
        assert client.subjects() == []
        assert client.subjects(prefix="x") == []


def test_a_registry_that_is_not_there_is_an_error_without_status() -> None:
    address = unused_address()
    with (
        RegistryClient({"url": address, "max.retries": 0}) as client,
        pytest.raises(RegistryError, match=f"{address} cannot be reached") as caught,
    ):
        client.subjects()
    assert (caught.value.status, caught.value.code) == (0, 0)


def test_a_client_is_used_by_many_threads(registry: Registry, client: RegistryClient) -> None:
    schemas = [record(f"R{number}", {"name": "x", "type": "int"}) for number in range(20)]

    def register(number: int) -> int:
        return client.register(f"s{number % 20}", schemas[number % 20]).id

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(register, range(200)))
    assert len(set(ids)) == 20 and ids[:20] * 10 == ids


def test_caches_are_bounded(registry: Registry) -> None:
    for number in range(5):
        registry.register(f"s{number}", record(f"R{number}"))
    with RegistryClient({"url": registry.url, "max.schemas.per.subject": 2}) as client:
        for schema_id in (1, 2, 3, 1, 2, 3, 3):
            client.get_schema(schema_id)
    assert len(registry.requests) == 6


def test_a_copy_in_another_process_works(registry: Registry, client: RegistryClient) -> None:
    registry.register("s", POINT)
    assert client.subjects() == ["s"]
    with pickle.loads(pickle.dumps(client)) as twin:
        assert twin.latest("s").id == 1
    child = os.fork()
    if child == 0:
        os._exit(0 if client.subjects() == ["s"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.subjects() == ["s"]


# -- logins ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "passwords"
    path.write_text(f"ada:{hashed('s3:cr%t')}\n")
    return str(path)


def test_user_and_password_come_from_the_url_or_a_setting(password_file: str) -> None:
    with Registry(password_file=password_file) as registry:
        place = registry.url.removeprefix("http://")
        given: tuple[dict[str, str], ...] = (
            {"url": f"http://ada:s3%3Acr%25t@{place}"},
            {"url": registry.url, "basic.auth.user.info": "ada:s3:cr%t"},
            {
                "schema.registry.url": registry.url,
                "schema.registry.basic.auth.credentials.source": "USER_INFO",
                "schema.registry.basic.auth.user.info": "ada:s3:cr%t",
            },
        )
        for settings in given:
            with RegistryClient(settings) as client:
                assert client.subjects() == []


def test_a_wrong_password_is_refused_and_shown_nowhere(password_file: str) -> None:
    with Registry(password_file=password_file) as registry:
        place = registry.url.removeprefix("http://")
        with (
            RegistryClient(f"http://ada:hush-hush@{place}") as client,
            pytest.raises(RegistryError) as caught,
        ):
            client.subjects()
    assert caught.value.status == 401
    assert "hush" not in f"{caught.value} {client!r} {caught.value!r} {client._settings!r}"


def test_a_token_is_sent_instead_of_a_password() -> None:
    found = registry_settings(
        {"url": "http://x", "bearer.auth.token": "t0ken", "bearer.auth.logical.cluster": "lsrc-1"}
    )
    assert found.token == "t0ken" and found.token_headers == {"target-sr-cluster": "lsrc-1"}
    assert "t0ken" not in repr(found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "schema.registry.url: is missing"),
        ({"url": "ftp://ada:hush@x"}, "schema.registry.url: address 1"),
        ({"url": "http://a, x:hush"}, "schema.registry.url: address 2"),
        ({"url": "http://x:hush"}, "schema.registry.url: address 1"),
        ({"url": "http://x", "basic.auth.user.info": "hush"}, "basic.auth.user.info"),
        ({"url": "http://x", "basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info: is not set"),
        ({"url": "http://x", "max.retires": 1}, "did you mean max.retries"),
        ({"url": "http://x", "max.retries": -1}, "max.retries"),
        ({"url": "http://x", "proxy.host": "y"}, "proxy.port"),
        ({"url": "https://x", "ssl.truststore.location": "/nowhere/ca.pem"}, "ssl.truststore.location"),
        ({"url": "https://x", "ssl.certificate.location": "/nowhere/c.pem"}, "ssl.certificate.location"),
    ],
)
def test_a_wrong_setting_is_named_and_a_password_in_it_is_not_shown(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        RegistryClient(settings)
    assert "hush" not in str(caught.value)
