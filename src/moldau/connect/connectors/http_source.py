"""HTTP source: polls a URL and takes the records out of its JSON answers.

A poll requests the URL, with the stored offset in its templates (`${offset.NAME}`), and then the pages after it. Rows
land together with the offset after them in one transaction, so that a crash neither loses nor doubles rows:

- `http.response.record.offset.pointer` names fields of the last record for the next request (`since=${offset.id}`). The
  answers must be in ascending order. An API that answers with `since` itself included gives its last record again.
- The link to the next page is stored: after a crash the next process continues with it.
- The `ETag` of an answer that has no further pages is sent as `If-None-Match`, and a digest of it is stored: an answer
  that has not changed gives no rows.

An API without offsets gives all its records again when one of them has changed; one with pages, at every poll.

A busy server (429, 503 with `Retry-After`) is asked again when it says; other failures of the server or the network are
retried with the back-off of the engine. Every other status fails the connector.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urljoin, urlsplit

import pyarrow as pa

from moldau.connect import json_columns
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, between, not_empty, one_of
from moldau.connect.connector import Offset, Polled, PolledSourceConnector, RetriableError, SourceOffsets
from moldau.connect.connectors import http_requests as http
from moldau.connect.connectors.json_pointers import elements, parse_pointer, pointed
from moldau.connect.converters.value_text import HEADER, text_of
from moldau.connect.errors import RowError
from moldau.connect.record_batch import ValueColumn, source_batch
from moldau.connect.schemas import Schema, SchemaType
from moldau.host.event_log import event_logger

if TYPE_CHECKING:
    import httpx

log = event_logger(__name__)

ETAG: Final = "etag"
DIGEST: Final = "digest"
NEXT: Final = "next"
PART: Final = "part"
"""How many rows of a page have landed, with the digest of the page: records of different types land separately."""
_OWN_OFFSETS: Final = (ETAG, DIGEST, NEXT, PART)
_STRING: Final = Schema(SchemaType.STRING, optional=True)
_CHUNK_BYTES: Final = 1 << 16


def _pointer(name: str, value: Any) -> str | None:
    try:
        parse_pointer(str(value or ""))
    except ValueError as error:
        return f"Invalid value for configuration {name}: {error}"
    return None


def _next_page(name: str, value: Any) -> str | None:
    return None if value in ("none", "link") else _pointer(name, value)


class _OldLink(Exception):
    """The stored link to the next page is not valid any more."""


class HttpSource(PolledSourceConnector):
    """Records of an HTTP API that answers with JSON."""

    config_def: ClassVar[ConfigDef] = http.AUTH_SETTINGS + ConfigDef(
        [
            ConfigKey("http.request.url", ConfigType.STRING, "The URL to request. ${offset.NAME} is replaced.",
                      importance=Importance.HIGH, validator=http.check_url),
            ConfigKey("kafka.topic", ConfigType.STRING, "The topic for the records.",
                      importance=Importance.HIGH, validator=not_empty),
            ConfigKey("http.request.method", ConfigType.STRING, "GET or POST.", "GET", Importance.MEDIUM,
                      one_of("GET", "POST")),
            ConfigKey("http.request.headers", ConfigType.PASSWORD,
                      "Headers, as Name: value, separated by |. Hidden: they may hold secrets.", None),
            ConfigKey("http.request.params", ConfigType.STRING,
                      "Query parameters, as a=1&b=2. ${offset.NAME} is replaced.", ""),
            ConfigKey("http.request.body", ConfigType.STRING, "The body of a POST. ${offset.NAME} is replaced.", ""),
            ConfigKey("http.timer.interval.millis", ConfigType.LONG, "The time between two polls.", 60_000,
                      Importance.HIGH, between(100)),
            ConfigKey("http.response.list.pointer", ConfigType.STRING,
                      "JSON pointer to the array of records in an answer; empty: the answer itself.", "",
                      Importance.HIGH, _pointer),
            ConfigKey("http.response.record.pointer", ConfigType.STRING,
                      "JSON pointer to the value within a record; empty: the whole record.", "", validator=_pointer),
            ConfigKey("http.response.record.key.pointer", ConfigType.STRING,
                      "JSON pointer to the key within a record; empty: no key.", None, validator=_pointer),
            ConfigKey("http.response.record.offset.pointer", ConfigType.STRING,
                      "Offset fields within a record, as name=/pointer, separated by commas.", ""),
            ConfigKey("http.offset.initial", ConfigType.STRING,
                      "The offset before the first answer, as name=value, separated by commas.", ""),
            ConfigKey("http.next.page", ConfigType.STRING,
                      "Where an answer has the link to its next page: none, link (the Link header), or a JSON pointer.",
                      "none", Importance.MEDIUM, _next_page),
            ConfigKey("http.pages.max", ConfigType.INT, "The most pages of one poll.", 1000, Importance.LOW,
                      between(1)),
            ConfigKey("http.response.max.bytes", ConfigType.LONG, "The largest answer that is read.", 64 << 20,
                      Importance.LOW, between(1)),
            ConfigKey("http.client.connection.timeout.millis", ConfigType.INT, "Time-out of connecting.", 10_000,
                      Importance.LOW, between(1)),
            ConfigKey("http.client.read.timeout.millis", ConfigType.INT, "Time-out of an answer.", 30_000,
                      Importance.LOW, between(1)),
        ]
    )  # fmt: skip

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.url: str = config["http.request.url"]
        self.interval_s = config["http.timer.interval.millis"] / 1000
        self.poll_interval_s = self.interval_s
        self.partition = {"url": http.shown_url(self.url)}
        self.offset_pointers = {
            name: parse_pointer(text) for name, text in _pairs(config["http.response.record.offset.pointer"]).items()
        }
        self._client: httpx.Client | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        problems = http.check_auth(config)
        offsets: dict[str, dict[str, str]] = {}
        for name in ("http.response.record.offset.pointer", "http.offset.initial"):
            try:
                offsets[name] = _pairs(config[name])
            except ValueError as error:
                return {**problems, name: [str(error)]}
        pointers, initial = offsets["http.response.record.offset.pointer"], offsets["http.offset.initial"]
        for field, text in pointers.items():
            problem = _pointer(field, text)
            if problem or field in _OWN_OFFSETS:
                problems["http.response.record.offset.pointer"] = [
                    problem or f"{field} is a name of the connector's own"
                ]
        for name in ("http.request.url", "http.request.params", "http.request.body"):
            used = {one.removeprefix("offset.") for one in http.names_in(config[name]) if one.startswith("offset.")}
            if used - pointers.keys():
                missing = ", ".join(sorted(used - pointers.keys()))
                problems[name] = [f"no pointer for {missing} in http.response.record.offset.pointer"]
            elif used - initial.keys():
                missing = ", ".join(sorted(used - initial.keys()))
                problems["http.offset.initial"] = [f"no value for {missing}, which {name} needs for the first request"]
        try:
            http.parse_headers(config["http.request.headers"], "|")
        except ValueError as error:
            problems["http.request.headers"] = [str(error)]
        return problems

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # -- polling -------------------------------------------------------------------------------------------------------

    def poll(self, offsets: SourceOffsets) -> Iterator[Polled]:
        self.poll_interval_s = self.interval_s
        offset: dict[str, Any] = dict(offsets[self.partition] or {})
        url, part = offset.pop(NEXT, None), offset.pop(PART, None)
        for page in range(self.config["http.pages.max"]):
            try:
                answer = self._answer(url, offset, is_first=page == 0)
            except _OldLink:
                url = None  # begin at the first page
                continue
            if answer is None:
                return
            body, headers, requested = answer
            digest = hashlib.sha256(body).hexdigest()
            if url is None and part is None and digest == offset.get(DIGEST):
                return
            content = self._parsed(body)
            following = self._next_url(content, headers, requested)
            runs = elements(pointed(content, parse_pointer(self.config["http.response.list.pointer"])))
            before = {**offset, **({NEXT: url} if url else {})}
            offset = self._offset_after(offset, runs)
            if url is None and following is None:
                offset |= {DIGEST: digest} | ({ETAG: headers["etag"]} if "etag" in headers else {})
            after = {**offset, **({NEXT: following} if following else {})}
            landed = part["rows"] if part and part["digest"] == digest else 0
            yield from self._rows(runs, before, after, digest, landed)
            url, part = following, None
            if url is None:
                return
        log.warning("pages left for the next poll", extra={"connector": self.name, "pages": page + 1})

    def _offset_after(self, offset: Offset, runs: list[pa.Array]) -> dict[str, Any]:
        """The offset after all records of a page: the fields of the last record that has them."""
        after = {name: value for name, value in offset.items() if name not in (DIGEST, ETAG)}
        for run in runs:
            for name, pointer in self.offset_pointers.items():
                found = pointed(run, pointer).drop_null()
                if len(found):
                    after[name] = found[-1].as_py()
        return after

    def _rows(self, runs: list[pa.Array], before: Offset, after: Offset, digest: str, landed: int) -> Iterator[Polled]:
        """The records of a page that have not landed yet, in runs of one type, each with the offset after it."""
        key_pointer = self.config["http.response.record.key.pointer"]
        first, count = 0, sum(map(len, runs))
        for run in runs:
            first, skipped = first + len(run), max(landed - first, 0)
            run = run.slice(skipped)
            if not len(run):
                continue
            key = None
            if key_pointer:
                key = ValueColumn(text_of(pointed(run, parse_pointer(key_pointer)), None, HEADER), _STRING)
            value = ValueColumn(pointed(run, parse_pointer(self.config["http.response.record.pointer"])))
            reached = after if first == count else {**before, PART: {"digest": digest, "rows": first}}
            yield Polled(source_batch(self.config["kafka.topic"], value, key=key), [(self.partition, reached)])

    def _parsed(self, body: bytes) -> pa.Array:
        try:
            return json_columns.decode(pa.array([body], pa.binary()))[0]
        except RowError as error:
            reason = error.reasons[0]
            raise http.HttpRefused(f"The answer of {self.partition['url']} is no JSON: {reason}") from None

    def _next_url(self, content: pa.Array, headers: Mapping[str, str], requested: str) -> str | None:
        where = self.config["http.next.page"]
        link: Any = None
        if where == "link":
            link = _link_header(headers.get("link", ""))
        elif where != "none":
            link = pointed(content, parse_pointer(where))[0].as_py()
        if not link:
            return None
        found = urljoin(requested, str(link))
        if not http.same_origin(found, self.url):
            raise http.HttpRefused(
                f"The next page of {self.partition['url']} is at {http.shown_url(found)}, another server; "
                "credentials are not sent there"
            )
        return found

    # -- requests ------------------------------------------------------------------------------------------------------

    def _answer(
        self, url: str | None, offset: Offset, *, is_first: bool
    ) -> tuple[bytes, Mapping[str, str], str] | None:
        """Body, headers and URL of an answer. None: nothing new, or the server has no time."""
        import httpx

        if self._client is None:
            self._client = http.http_client(
                self.config["http.client.connection.timeout.millis"], self.config["http.client.read.timeout.millis"]
            )
        request = self._request(self._client, url, offset)
        try:
            answer = self._client.send(request, stream=True)
            try:
                if answer.status_code == 200:
                    return self._body(answer), answer.headers, str(request.url)
            finally:
                answer.close()
        except httpx.HTTPError as error:
            raise RetriableError(f"No answer from {self.partition['url']}: {type(error).__name__}: {error}") from None
        self._check_status(answer, is_old_link=url is not None and is_first)
        return None

    def _request(self, client: httpx.Client, url: str | None, offset: Offset) -> httpx.Request:
        known = {**_pairs(self.config["http.offset.initial"]), **offset}
        values = {f"offset.{name}": value for name, value in known.items()}
        headers = {"Accept": "application/json", **http.login_headers(self.config)}
        headers |= http.parse_headers(self.config["http.request.headers"], "|")
        if url is None and ETAG in offset and not self.offset_pointers:  # with offsets, the next URL is another one
            headers["If-None-Match"] = str(offset[ETAG])
        if url is None:
            url = http.filled(self.url, values, quoted=True)
            params = http.filled(self.config["http.request.params"], values, quoted=True)
            if params:
                url += ("&" if urlsplit(url).query else "?") + params
        body = http.filled(self.config["http.request.body"], _json_escaped(values), quoted=False)
        method = self.config["http.request.method"]
        return client.build_request(method, url, headers=headers, content=body.encode() if method == "POST" else None)

    def _body(self, answer: httpx.Response) -> bytes:
        limit = self.config["http.response.max.bytes"]
        parts, size = [], 0
        for part in answer.iter_bytes(_CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise http.HttpRefused(
                    f"The answer of {self.partition['url']} is larger than http.response.max.bytes={limit}; "
                    "raise it, or ask for smaller pages"
                )
        return b"".join(parts)

    def _check_status(self, answer: httpx.Response, *, is_old_link: bool) -> None:
        """Raises unless an answer without rows is nothing to worry about."""
        status = answer.status_code
        if status in (204, 304):
            return
        if is_old_link and status in (400, 404, 410):
            log.warning("link to the next page is not valid any more", extra={"connector": self.name, "status": status})
            raise _OldLink
        wait = http.retry_after_s(answer.headers, time.time())
        if status in (429, 503) and wait is not None:
            self.poll_interval_s = max(wait, self.interval_s)
            log.warning("server asks to wait", extra={"connector": self.name, "status": status, "seconds": wait})
            return
        what = f"{self.partition['url']} answered with status {status}"
        if status == 429 or status >= 500:
            raise RetriableError(what)
        raise http.HttpRefused(f"{what}: {http.advice(status)}")


def _pairs(text: str) -> dict[str, str]:
    """`name=value` pairs, separated by commas. Raises ValueError."""
    found = {}
    for one in filter(str.strip, text.split(",")):
        name, sign, value = one.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"{one.strip()} is not of the form name=value")
        found[name.strip()] = value.strip()
    return found


def _json_escaped(values: Mapping[str, Any]) -> dict[str, str]:
    """Values for a JSON body: texts are escaped, so that an offset cannot change the request."""
    return {name: json.dumps(str(value))[1:-1] for name, value in values.items()}


def _link_header(text: str) -> str | None:
    """The URL with rel=next of a Link header (RFC 8288)."""
    for one in text.split("<")[1:]:
        url, _, parameters = one.partition(">")
        for parameter in parameters.split(";")[1:]:
            name, _, value = parameter.strip().rstrip(",").strip().partition("=")
            if name.strip().lower() == "rel" and "next" in value.strip('" ').lower().split():
                return url
    return None
