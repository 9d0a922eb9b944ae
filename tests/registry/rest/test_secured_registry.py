"""A registry with https and a login, on brokers with access control: what docs/registry.md says under Security."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from moldau.client.errors import MoldauError
from moldau.registry.process import RegistryProcess
from moldau.registry.settings import process_settings
from moldau.service.login import hashed
from moldau.testing import Broker, Security, allow
from tests.support.certificates import Authority

TIMEOUT_S = 60.0
TEXT = json.dumps({"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]})
RIGHTS = [
    *(allow("registry", operation, topic="_schemas") for operation in ("create", "read", "write", "describe_configs")),
    allow("registry", "write", transactional_id="schema-registry-_schemas"),
    allow("registry", "read", group="schema-registry"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    security = Security(users={"registry": "registry-password", "nobody": "nobody-password"}, rules=RIGHTS)
    with Broker(security=security) as found:
        yield found


def settings(broker: Broker, user: str, **more: str) -> Any:
    values = {"listeners": "http://127.0.0.1:0", **broker.client_settings(user), **more}
    if "sasl.password" in more:
        del values["sasl.jaas.config"]
    return process_settings(assignments=[f"{name}={value}" for name, value in values.items()])


def with_registry(wanted: Any, use: Callable[[str], Awaitable[None]]) -> None:
    """Run a registry, and `use` with its URL while it serves."""

    async def main() -> None:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        task = asyncio.create_task(RegistryProcess(wanted).run(stop, lambda served: ready.set_result(served[0].url)))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
                if ready.done():
                    await use(ready.result())
        finally:
            stop.set()
            await task

    asyncio.run(main())


def test_only_who_logs_in_over_tls_may_use_it(broker: Broker, tmp_path: Path) -> None:
    authority = Authority()
    trusted = authority.write_pem(tmp_path / "authority.pem")
    users = tmp_path / "users"
    users.write_text(f"alice:{hashed('hunter2')}\n")
    users.chmod(0o600)
    (tmp_path / "registry.secret").write_text("registry-password\n")
    (tmp_path / "registry.secret").chmod(0o600)
    wanted = settings(
        broker,
        "registry",
        **{
            "listeners": "https://127.0.0.1:0",
            "listeners.https.ssl.keystore.location": str(authority.issue().write_pem(tmp_path / "server.pem")),
            "moldau.http.password.file": str(users),
            "sasl.username": "registry",
            "sasl.password": f"${{file:{tmp_path / 'registry.secret'}}}",
        },
    )

    def as_confluent(url: str) -> None:
        known = {"url": url, "ssl.ca.location": str(trusted), "max.retries": 0}
        with SchemaRegistryClient({**known, "basic.auth.user.info": "alice:hunter2"}) as alice:
            assert alice.register_schema("a-value", Schema(TEXT, "AVRO")) == 1
            assert alice.get_subjects() == ["a-value"]
        for login in ({"basic.auth.user.info": "alice:hunter3"}, {}):
            with SchemaRegistryClient({**known, **login}) as stranger:
                with pytest.raises(SchemaRegistryError) as caught:
                    stranger.get_subjects()
                assert caught.value.http_status_code == 401
                with pytest.raises(SchemaRegistryError):
                    stranger.delete_subject("a-value")
        with httpx.Client(trust_env=False) as untrusting, pytest.raises(httpx.ConnectError):
            untrusting.get(f"{url}/subjects")
        with httpx.Client(trust_env=False, verify=ssl.create_default_context(cafile=str(trusted))) as anyone:
            assert anyone.get(f"{url}/health").status_code == 200, "a load balancer has no login"
            for path in ("/metrics", "/openapi.json", "/docs", "/"):
                assert anyone.get(f"{url}{path}").status_code == 401

    async def use(url: str) -> None:
        await asyncio.to_thread(as_confluent, url.replace("127.0.0.1", "localhost"))

    with_registry(wanted, use)


def test_a_registry_without_rights_at_the_brokers_does_not_start(broker: Broker) -> None:
    async def use(url: str) -> None:
        raise AssertionError("it serves")

    with pytest.raises(MoldauError) as caught:
        with_registry(settings(broker, "nobody", **{"kafkastore.topic": "_others"}), use)
    assert "_others" in str(caught.value)
    assert "nobody-password" not in str(caught.value)
