"""HTTP source against a real server: records, offsets, pages, unchanged answers, and a server that refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from moldau.client.errors import MoldauError
from moldau.connect import json_reference
from moldau.connect.config_def import ConfigError
from moldau.connect.connector import RetriableError, SourceOffsets, partition_key
from moldau.connect.connectors.http_source import HttpSource, _link_header
from tests.connect.connectors.http_server import Answer, Got, WebServer, web_server
from tests.connect.connectors.support import created_from


class Poller:
    """Polls a source as the engine does: offsets are stored with each batch."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.settings = {"http.request.url": url, "kafka.topic": "t"}
        self.settings |= {name.replace("_", "."): value for name, value in settings.items()}
        self.stored: dict[str, tuple[Any, Any]] = {}
        self.source = created_from(HttpSource, self.settings)
        self.keys: list[str | None] = []

    def offsets(self) -> SourceOffsets:
        return SourceOffsets(json.loads(json.dumps(list(self.stored.values()))))

    def poll(self, *, batches: int | None = None) -> list[Any]:
        """The rows of one poll; `batches`: the process dies after so many of them have landed."""
        rows: list[Any] = []
        with closing(self.source.poll(self.offsets())) as polled:  # type: ignore[type-var]
            for count, one in enumerate(polled, 1):
                rows += json_reference.rows(one.batch.value.array)
                self.keys += one.batch.key.array.to_pylist()
                assert set(one.batch.topic.to_pylist()) == {"t"}
                self.stored |= {partition_key(partition): (partition, offset) for partition, offset in one.offsets}
                if count == batches:
                    break
        return rows

    def offset(self) -> Any:
        ((_, offset),) = self.stored.values()
        return offset


ITEMS = [{"id": n, "name": f"item {n}"} for n in range(1, 8)]


def items_after(got: Got) -> Answer:
    """An API with `since` and `limit`."""
    after = [one for one in ITEMS if one["id"] > int(got.query.get("since", 0))]  # type: ignore[operator]
    return Answer(body={"data": {"items": after[: int(got.query.get("limit", 100))]}})


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server(items_after) as found:
        yield found


SINCE = {
    "http_response_list_pointer": "/data/items",
    "http_response_record_offset_pointer": "id=/id",
    "http_offset_initial": "id=0",
    "http_request_params": "since=${offset.id}&limit=3",
}


def test_a_poll_goes_on_after_the_last_record(server: WebServer) -> None:
    poller = Poller(f"{server.url}/items", http_response_record_key_pointer="/id", **SINCE)
    assert [poller.poll() for _ in range(4)] == [ITEMS[:3], ITEMS[3:6], ITEMS[6:], []]
    assert poller.keys == [str(one["id"]) for one in ITEMS]
    assert poller.offset()["id"] == 7
    assert [one.query["since"] for one in server.got] == ["0", "3", "6", "7"]
    poller.source.close()


def test_a_new_process_continues_at_the_stored_offset(server: WebServer) -> None:
    first = Poller(f"{server.url}/items", **SINCE)
    first.poll()
    first.source.close()
    second = Poller(f"{server.url}/items", **SINCE)
    second.stored = first.stored
    assert second.poll() == ITEMS[3:6]
    second.source.close()


def test_a_part_of_a_record_may_be_the_value(server: WebServer) -> None:
    poller = Poller(
        f"{server.url}/items", http_response_list_pointer="/data/items", http_response_record_pointer="/name"
    )
    assert poller.poll() == [one["name"] for one in ITEMS]
    poller.source.close()


@pytest.mark.parametrize(
    ("body", "pointer", "rows"),
    [
        ([1, 2], "", [1, 2]),
        ({"a": 1}, "", [{"a": 1}]),
        ({"a": [{"b~": {"c/": [7]}}]}, "/a/0/b~0/c~1", [7]),
        ({"a": [None, {"x": None}, {}]}, "/a", [{"x": None}, {}]),
        ({"a": [1, "x", {"y": 1}, [2]]}, "/a", [1, "x", {"y": 1}, [2]]),
        ({"a": {}}, "/b", []),
        ({"a": None}, "/a", []),
        ({"a": []}, "/a/5", []),
        ([], "", []),
    ],
)
def test_records_are_found_by_their_pointer(body: Any, pointer: str, rows: list[Any]) -> None:
    with web_server(lambda _: Answer(body=body)) as server:
        poller = Poller(server.url, http_response_list_pointer=pointer)
        assert poller.poll() == rows
        assert poller.poll() == []
        poller.source.close()


def pages(got: Got) -> Answer:
    """Three pages of two records; the first has records of two types."""
    page = int(got.query.get("page", 1))
    rows: list[Any] = [[1, "one"], [2, 3], [4, 5]][page - 1]
    following = f"/list?page={page + 1}" if page < 3 else None
    headers = {"Link": f'</list?page=1>; rel="first", <{following}>; rel="next"'} if following else {}
    return Answer(body={"rows": rows, "next": following}, headers=headers)


@pytest.mark.parametrize("where", ["/next", "link"])
def test_a_process_that_dies_between_pages_loses_and_doubles_nothing(where: str) -> None:
    with web_server(pages) as server:
        settings = {"http_next_page": where, "http_response_list_pointer": "/rows"}
        whole = Poller(f"{server.url}/list", **settings)
        assert whole.poll() == [1, "one", 2, 3, 4, 5]
        whole.source.close()
        for landed in range(1, 4):
            dying = Poller(f"{server.url}/list", **settings)
            before = dying.poll(batches=landed)
            dying.source.close()
            following = Poller(f"{server.url}/list", **settings)
            following.stored = dying.stored
            assert before + following.poll() == [1, "one", 2, 3, 4, 5], landed
            following.source.close()


def test_the_pages_of_one_poll_are_bounded() -> None:
    with web_server(lambda _: Answer(body={"rows": [1], "next": "/again"})) as server:
        poller = Poller(server.url, http_next_page="/next", http_response_list_pointer="/rows", http_pages_max=4)
        assert poller.poll() == [1] * 4
        assert poller.offset()["next"] == f"{server.url}/again"
        poller.source.close()


def test_a_stored_link_that_the_server_has_forgotten_begins_again() -> None:
    def answer(got: Got) -> Answer:
        return Answer(410) if got.query else Answer(body=[1, 2])

    with web_server(answer) as server:
        poller = Poller(f"{server.url}/list", http_next_page="/next")
        poller.stored = {"x": ({"url": f"{server.url}/list"}, {"next": f"{server.url}/list?cursor=old"})}
        assert poller.poll() == [1, 2]
        poller.source.close()


def test_credentials_are_not_sent_to_another_server() -> None:
    with web_server(lambda _: Answer(body=[])) as other:
        with web_server(lambda _: Answer(body={"rows": [1], "next": f"{other.url}/steal"})) as server:
            poller = Poller(server.url, http_next_page="/next", http_response_list_pointer="/rows")
            with pytest.raises(MoldauError, match="another server"):
                poller.poll()
            poller.source.close()
        assert other.got == []


def test_an_answer_that_has_not_changed_gives_no_rows() -> None:
    version = [1]

    def answer(got: Got) -> Answer:
        tag = f'"v{version[0]}"'
        if got.headers.get("if-none-match") == tag:
            return Answer(304)
        return Answer(body=[version[0]], headers={"ETag": tag})

    with web_server(answer) as server:
        poller = Poller(server.url)
        assert [poller.poll(), poller.poll()] == [[1], []]
        assert server.got[-1].headers["if-none-match"] == '"v1"'
        version[0] = 2
        assert [poller.poll(), poller.poll()] == [[2], []]
        poller.source.close()


def test_the_login_and_own_headers_are_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with web_server(lambda _: Answer(401)) as server:
        url = f"{server.url}/x?key=hidden-2"
        poller = Poller(
            url, http_request_headers="X-Key: hidden-3|X-Other: b", auth_type="BEARER", bearer_token="hidden-4"
        )
        with pytest.raises(MoldauError, match=r"status 401: check auth\.type") as caught:
            poller.poll()
        poller.source.close()
        assert server.got[0].headers["x-key"] == "hidden-3"
        assert server.got[0].headers["authorization"] == "Bearer hidden-4"
        assert server.got[0].query == {"key": "hidden-2"}
    assert "hidden" not in str(caught.value) + repr(poller.source.partition)
    assert not [
        one for one in caplog.records if "hidden" in one.getMessage() and one.name.startswith(("httpx", "moldau"))
    ]


def test_offsets_cannot_change_a_request() -> None:
    with web_server(lambda _: Answer(body=[{"id": 'x"&admin=1'}])) as server:
        poller = Poller(
            f"{server.url}/${{offset.id}}", http_request_method="POST", http_request_body='{"after":"${offset.id}"}',
            http_response_record_offset_pointer="id=/id", http_offset_initial="id=0",
        )  # fmt: skip
        poller.poll()
        poller.poll()
        poller.source.close()
        assert server.got[1].path == "/x%22%26admin%3D1" and server.got[1].query == {}
        assert server.got[1].json() == {"after": 'x"&admin=1'}


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (Answer(500), RetriableError, "status 500"),
        (Answer(429), RetriableError, "status 429"),
        (Answer(404), MoldauError, "check the URL"),
        (Answer(302, headers={"Location": "http://127.0.0.1:9/"}), MoldauError, "redirects are not followed"),
        (Answer(body=b"<html>"), MoldauError, "no JSON"),
        (Answer(body="x" * 2000), MoldauError, "larger than http.response.max.bytes=1000"),
    ],
)
def test_what_goes_wrong_is_said(answer: Answer, error: type[Exception], message: str) -> None:
    with web_server(lambda _: answer) as server:
        poller = Poller(f"{server.url}/path", http_response_max_bytes=1000)
        with pytest.raises(error, match=message):
            poller.poll()
        assert poller.stored == {}
        poller.source.close()


def test_no_server_is_retried() -> None:
    with web_server(items_after) as server:
        url = server.url
    poller = Poller(url)
    with pytest.raises(RetriableError, match="No answer from"):
        poller.poll()
    poller.source.close()


def test_a_busy_server_is_asked_when_it_says() -> None:
    with web_server(lambda _: Answer(503, headers={"Retry-After": "120"})) as server:
        poller = Poller(server.url, http_timer_interval_millis=1000)
        assert poller.poll() == []
        assert poller.source.poll_interval_s == 120
        server.answer = lambda _: Answer(body=[1])
        assert poller.poll() == [1]
        assert poller.source.poll_interval_s == 1
        poller.source.close()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"http.request.url": "ftp://x/"}, "http.request.url"),
        ({"http.request.url": "http://name:hidden@x/"}, "connection.user"),
        ({"http.request.url": "http://x/${offset.id}"}, "no pointer for id"),
        ({"http.request.params": "a=${offset.id}", "http.response.record.offset.pointer": "id=/id"}, "no value for id"),
        ({"http.response.record.offset.pointer": "id"}, "not of the form"),
        ({"http.response.record.offset.pointer": "etag=/id"}, "connector's own"),
        ({"http.response.list.pointer": "items"}, "no JSON pointer"),
        ({"http.next.page": "header"}, "http.next.page"),
        ({"http.request.headers": "X-Key hidden"}, "header 1 is not of the form"),
        ({"auth.type": "BASIC"}, "auth.type=BASIC needs it"),
        ({"http.timer.interval.millis": "0"}, "http.timer.interval.millis"),
        ({"kafka.topic": ""}, "kafka.topic"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        created_from(HttpSource, {"http.request.url": "http://x/", "kafka.topic": "t", **settings})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ('<a>; rel="next"', "a"),
        ('<a>; rel="prev", <b?x=1,2>; title="t"; rel=next', "b?x=1,2"),
        ('<a>; rel="last next"', "a"),
        ('<a>; rel="prev"', None),
        ("", None),
        ("<a>", None),
    ],
)
def test_link_headers_are_read(text: str, url: str | None) -> None:
    assert _link_header(text) == url
