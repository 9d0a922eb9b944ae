"""Python examples of docs/serializers.md: they run as shown, with a broker and a registry."""

from __future__ import annotations

from typing import Any

from moldau.schemas import RegistryClient
from moldau.testing import Broker, Registry
from tests.client.examples.test_documents import blocks

PAGE = "docs/serializers.md"


def test_the_examples_of_the_page_run(registry: Registry) -> None:
    printed: list[Any] = []
    names: dict[str, Any] = {"__name__": "__example__", "print": lambda *values: printed.append(values)}
    found = blocks(PAGE)
    with Broker({"num.partitions": 1}) as broker:
        for block in found:
            code = block.code.replace("localhost:9092", broker.bootstrap_servers)
            code = code.replace("http://localhost:8081", registry.url)
            exec(compile("\n" * (block.line - 1) + code, PAGE, "exec"), names)
    client = names["registry"]
    assert isinstance(client, RegistryClient)
    client.close()
    assert len(found) == 3 and printed[0] == ({"id": 7, "note": None},)
    assert printed[-1][0], "a record is not compatible with a text"
