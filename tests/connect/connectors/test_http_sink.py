"""HTTP sink against a real server: requests, batches, retries, refused records, and a server that is not there."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.connect import json_columns
from moldau.connect.config_def import ConfigError
from moldau.connect.connector import RetriableError, SinkSlice, SinkTask
from moldau.connect.connectors import http_requests
from moldau.connect.connectors.http_sink import HttpSink
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from tests.connect.connectors.http_server import Answer, Got, WebServer, web_server
from tests.connect.connectors.support import copied, created_from, numbers, sink_batch

PARTITION = TopicPartition("orders", 3)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server(lambda _: Answer()) as found:
        yield found


def sink(url: str, **settings: Any) -> HttpSink:
    given = {"http.api.url": url, "retry.backoff.ms": 1, "max.retries": 3}
    return created_from(HttpSink, given | {name.replace("_", "."): value for name, value in settings.items()})


class Rejected:
    """Remembers the rows that a sink refuses, as the engine does with errors.tolerance=all."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.reasons: list[str] = []

    def __call__(self, batch: ConnectBatch, rows: pa.BooleanArray, error: Exception) -> None:
        assert batch.origin is not None
        self.offsets += batch.origin.filter(rows).column("offset").to_pylist()
        self.reasons.append(str(error))


def write(connector: HttpSink, *batches: ConnectBatch, reject: Callable[..., None] | None = None) -> int:
    rows = sum(batch.num_rows for batch in batches)
    task = SinkTask("test", 1, 0, 0, reject)
    return copied(connector).write(SinkSlice(PARTITION, 10, 10 + rows), iter(batches), task)


def batch_of(*values: Any, keys: list[Any] | None = None, first: int = 10) -> ConnectBatch:
    texts = pa.array([None if one is None else json.dumps(one) for one in values], pa.string())
    (array,) = json_columns.decode(texts)
    key = None if keys is None else ValueColumn(pa.array(keys, pa.string()))
    return sink_batch(PARTITION, first, ValueColumn(array), key=key)


def test_each_record_is_a_request_in_order(server: WebServer) -> None:
    assert write(sink(f"{server.url}/api"), batch_of({"n": 1}, {"n": 2, "x": None}), batch_of({"n": 3}, first=12)) == 3
    assert [one.json() for one in server.got] == [{"n": 1}, {"n": 2, "x": None}, {"n": 3}]
    assert [one.headers["idempotency-key"] for one in server.got] == ["orders-3-10", "orders-3-11", "orders-3-12"]
    assert {(one.method, one.path, one.headers["content-type"]) for one in server.got} == {
        ("POST", "/api", "application/json")
    }


def test_records_are_sent_in_batches(server: WebServer) -> None:
    value = numbers(0, 7)
    assert write(sink(server.url, batch_max_size=3, request_method="PUT"), sink_batch(PARTITION, 10, value)) == 7
    assert [len(one.json()) for one in server.got] == [3, 3, 1]
    assert server.got[0].json()[1] == {"n": 1, "name": "row 1"}
    assert [one.headers["idempotency-key"] for one in server.got] == ["orders-3-10+3", "orders-3-13+3", "orders-3-16"]


def test_the_form_of_a_batch_is_configurable(server: WebServer) -> None:
    settings = {"batch_max_size": 10, "batch_prefix": "", "batch_suffix": "", "batch_separator": "\\n"}
    write(sink(server.url, request_body_format="string", **settings), batch_of("a", "b ä"))
    assert server.got[0].body == "a\nb ä".encode()
    assert server.got[0].headers["content-type"].startswith("text/plain")


def test_topic_and_key_are_parts_of_the_url(server: WebServer) -> None:
    connector = sink(f"{server.url}/${{topic}}/${{key}}", batch_max_size=10)
    write(connector, batch_of(1, 2, 3, 4, keys=["a", "a", "b/../c?d", None]))
    assert [(one.path, one.json()) for one in server.got] == [
        ("/orders/a", [1, 2]), ("/orders/b%2F..%2Fc%3Fd", [3]), ("/orders/", [4])
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("behavior", "requests"),
    [("ignore", ["POST", "POST"]), ("delete", ["POST", "DELETE", "POST"]), ("fail", ["POST", "POST"])],
)
def test_records_without_value(server: WebServer, behavior: str, requests: list[str]) -> None:
    rejected = Rejected()
    connector = sink(f"{server.url}/${{key}}", behavior_on_null_values=behavior)
    write(connector, batch_of(1, None, 2, keys=["a", "b", "a"]), reject=rejected)
    assert [one.method for one in server.got] == requests
    assert rejected.offsets == ([11] if behavior == "fail" else [])


def test_deleting_what_is_gone_is_no_error(server: WebServer) -> None:
    server.answer = lambda got: Answer(404 if got.method == "DELETE" else 200)
    rejected = Rejected()
    connector = sink(f"{server.url}/${{key}}", behavior_on_null_values="delete")
    write(connector, batch_of(None, None, keys=["a", "b"]), reject=rejected)
    assert (len(server.got), rejected.offsets) == (2, [])


def test_a_failing_server_is_tried_again_with_the_same_key(server: WebServer) -> None:
    statuses = iter([500, 503, 429, 200])
    server.answer = lambda _: Answer(next(statuses))
    assert write(sink(server.url), batch_of(1)) == 1
    assert len(server.got) == 4
    assert {one.headers["idempotency-key"] for one in server.got} == {"orders-3-10"}


def test_the_server_says_how_long_to_wait(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    real_sleep, here = time.sleep, threading.get_ident()
    # Threads that other tests have left behind go on sleeping.
    monkeypatch.setattr(time, "sleep", lambda s: waits.append(s) if threading.get_ident() == here else real_sleep(s))
    answers = iter([Answer(429, headers={"Retry-After": "7"}), Answer(500), Answer(503), Answer()])
    server.answer = lambda _: next(answers)
    write(sink(server.url, retry_backoff_ms=100), batch_of(1))
    assert waits == [7, 0.2, 0.4]


def test_a_server_that_wants_a_long_pause_does_not_keep_the_task(server: WebServer) -> None:
    server.answer = lambda _: Answer(429, headers={"Retry-After": "600"})
    with pytest.raises(RetriableError, match="asks to wait for 600 s"):
        write(sink(server.url), batch_of(1))
    assert len(server.got) == 1


def test_retries_end(server: WebServer) -> None:
    server.answer = lambda _: Answer(500)
    with pytest.raises(RetriableError, match="status 500, after 3 retries"):
        write(sink(server.url), batch_of(1, 2))
    assert len(server.got) == 4


def test_no_server_is_retried() -> None:
    with web_server(lambda _: Answer()) as server:
        url = server.url
    with pytest.raises(RetriableError, match="did not answer"):
        write(sink(url), batch_of(1))


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_exactly_the_refused_records_are_rejected(server: WebServer, size: int) -> None:
    accepted: list[int] = []

    def answer(got: Got) -> Answer:
        values = got.json() if isinstance(got.json(), list) else [got.json()]
        bad = [one for one in values if one % 7 == 0]
        if bad:
            return Answer(422, body={"bad": bad})
        accepted.extend(values)
        return Answer()

    server.answer = answer
    rejected = Rejected()
    sent = write(sink(server.url, batch_max_size=size), batch_of(*range(1, 51)), reject=rejected)
    assert accepted == [n for n in range(1, 51) if n % 7]
    assert sorted(rejected.offsets) == [9 + n for n in range(1, 51) if n % 7 == 0]
    assert sent == len(accepted)
    assert "status 422" in rejected.reasons[0] and "bad" in rejected.reasons[0]


def test_a_refused_record_raises_where_nobody_takes_it(server: WebServer) -> None:
    server.answer = lambda _: Answer(400)
    with pytest.raises(DataError, match="status 400"):
        write(sink(server.url), batch_of(1))


@pytest.mark.parametrize(
    ("status", "message"), [(401, "check auth"), (403, "check auth"), (404, "check the URL"), (302, "redirects")]
)
def test_a_wrong_login_or_address_is_no_fault_of_the_records(server: WebServer, status: int, message: str) -> None:
    server.answer = lambda _: Answer(status, headers={"Location": "/x"} if status == 302 else {})
    rejected = Rejected()
    with pytest.raises(http_requests.HttpRefused, match=message):
        write(sink(f"{server.url}/p?secret=hidden", batch_max_size=5), batch_of(1, 2), reject=rejected)
    assert (len(server.got), rejected.offsets) == (1, [])


def test_the_login_is_sent_and_never_shown(server: WebServer) -> None:
    connector = sink(
        f"{server.url}/p?secret=hidden", auth_type="BASIC", connection_user="u", connection_password="hidden",
        headers="X-A: hidden;X-B: 2", header_separator=";", idempotency_key_header="",
    )  # fmt: skip
    write(connector, batch_of(1))
    assert server.got[0].headers["authorization"] == "Basic dTpoaWRkZW4="
    assert (server.got[0].headers["x-a"], server.got[0].headers["x-b"]) == ("hidden", "2")
    assert "idempotency-key" not in server.got[0].headers
    server.answer = lambda _: Answer(418)
    with pytest.raises(MoldauError) as caught:
        write(connector, batch_of(1))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"http.api.url": "host/path"}, "http.api.url"),
        ({"http.api.url": "http://x/${table}"}, "unknown names: table"),
        ({"request.method": "GET"}, "request.method"),
        ({"retry.on.status.codes": "5xx"}, "5xx is no status"),
        ({"behavior.on.null.values": "delete"}, "delete needs"),
        ({"auth.type": "BEARER"}, "auth.type=BEARER needs it"),
        ({"headers": "hidden"}, "header 1 is not of the form"),
        ({"batch.max.size": "0"}, "batch.max.size"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        created_from(HttpSink, {"http.api.url": "http://x/", **settings})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5), ("0", 0), ("99999", 3600), ("Thu, 01 Jan 1970 00:01:40 GMT", 40), ("Thu, 01 Jan 1970 00:00:10 GMT", 0),
     ("soon", None), ("-1", None), ("", None)],
)  # fmt: skip
def test_both_forms_of_retry_after_are_read(text: str, seconds: float | None) -> None:
    assert http_requests.retry_after_s({"retry-after": text}, now=60.0) == seconds
