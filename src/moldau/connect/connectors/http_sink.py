"""HTTP sink: sends records to a URL, one by one or in batches, at least once.

The records of a partition are sent in order, one request after another. Each request has an idempotency key made of
topic, partition and offset, so that a server that remembers keys applies a repeated request once.

A busy or failing server (`retry.on.status.codes`), or no answer, is tried again with growing waits, or as its
`Retry-After` says; after `max.retries` the engine's back-off takes over. Any other status refuses the records: a batch
that is refused is divided until the refused records are known, and these become dead letters. Statuses that concern the
login or the address fail the connector.

The settings are those of Confluent's HTTP sink, as far as they are listed here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from moldau.connect import json_columns
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, between, one_of
from moldau.connect.connector import RetriableError, SinkConnector, SinkSlice, SinkTask
from moldau.connect.connectors import http_requests as http
from moldau.connect.converters.value_text import TO_STRING, text_of
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch

if TYPE_CHECKING:
    import httpx

MAX_BACKOFF_MS: Final = 60_000
_CONTENT_TYPES: Final = {"json": "application/json", "string": "text/plain; charset=utf-8"}
_SHOWN_ANSWER: Final = 200
"""Characters of an answer that the message of a refused record shows."""


def _statuses(name: str, value: Any) -> str | None:
    try:
        http.parse_statuses(str(value))
    except ValueError as error:
        return f"Invalid value for configuration {name}: {error}"
    return None


@dataclass(frozen=True)
class _Request:
    """Rows of a batch that are sent together; all have the same URL."""

    url: str
    method: str
    rows: Sequence[int]
    bodies: Sequence[bytes]
    keys: Sequence[str]
    """The idempotency key of each row."""

    def halves(self) -> tuple[_Request, _Request]:
        middle = len(self.rows) // 2
        return self._part(0, middle), self._part(middle, len(self.rows))

    def _part(self, first: int, end: int) -> _Request:
        rows, bodies, keys = self.rows[first:end], self.bodies[first:end], self.keys[first:end]
        return _Request(self.url, self.method, rows, bodies, keys)


class HttpSink(SinkConnector):
    """Requests to an HTTP server."""

    config_def: ClassVar[ConfigDef] = http.AUTH_SETTINGS + ConfigDef(
        [
            ConfigKey("http.api.url", ConfigType.STRING, "The URL. ${topic} and ${key} are replaced.",
                      importance=Importance.HIGH, validator=http.check_url),
            ConfigKey("request.method", ConfigType.STRING, "POST, PUT, PATCH or DELETE.", "POST", Importance.HIGH,
                      one_of("POST", "PUT", "PATCH", "DELETE")),
            ConfigKey("request.body.format", ConfigType.STRING, "The form of a value: json, or string (its text).",
                      "json", Importance.MEDIUM, one_of("json", "string")),
            ConfigKey("headers", ConfigType.PASSWORD,
                      "Headers, as Name: value, separated by header.separator. Hidden: they may hold secrets.", None),
            ConfigKey("header.separator", ConfigType.STRING, "What separates headers.", "|"),
            ConfigKey("batch.max.size", ConfigType.INT, "The most records of one request. Records with different URLs "
                      "are never in one request.", 1, Importance.HIGH, between(1, 100_000)),
            ConfigKey("batch.prefix", ConfigType.STRING, "Before the records of a batch, if batch.max.size > 1.", "["),
            ConfigKey("batch.suffix", ConfigType.STRING, "After the records of a batch.", "]"),
            ConfigKey("batch.separator", ConfigType.STRING, "Between the records of a batch. \\n is a line feed.", ","),
            ConfigKey("behavior.on.null.values", ConfigType.STRING,
                      "Records without value: ignore, delete (a DELETE of the URL), or fail.", "ignore",
                      Importance.MEDIUM, one_of("ignore", "delete", "fail")),
            ConfigKey("idempotency.key.header", ConfigType.STRING,
                      "The header for the idempotency key; empty: none.", "Idempotency-Key"),
            ConfigKey("max.retries", ConfigType.INT, "How often a request is tried again.", 10, Importance.MEDIUM,
                      between(0)),
            ConfigKey("retry.backoff.ms", ConfigType.INT, "The first wait before a retry; it doubles, up to a minute.",
                      3000, Importance.MEDIUM, between(0)),
            ConfigKey("retry.on.status.codes", ConfigType.STRING, "Statuses that are tried again.",
                      "408,429,500-599", Importance.MEDIUM, _statuses),
            ConfigKey("http.connect.timeout.ms", ConfigType.INT, "Time-out of connecting.", 30_000, Importance.LOW,
                      between(1)),
            ConfigKey("http.request.timeout.ms", ConfigType.INT, "Time-out of an answer.", 30_000, Importance.LOW,
                      between(1)),
        ]
    )  # fmt: skip

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.url: str = config["http.api.url"]
        self.retried = http.parse_statuses(config["retry.on.status.codes"])

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        problems = http.check_auth(config)
        unknown = http.names_in(config["http.api.url"]) - {"topic", "key"}
        if unknown:
            problems["http.api.url"] = [f"unknown names: {', '.join(sorted(unknown))}; topic and key are known"]
        try:
            http.parse_headers(config["headers"], config["header.separator"])
        except ValueError as error:
            problems["headers"] = [str(error)]
        if config["behavior.on.null.values"] == "delete" and "key" not in http.names_in(config["http.api.url"]):
            problems["behavior.on.null.values"] = ["delete needs ${key} in http.api.url, to say what is deleted"]
        return problems

    def write(self, part: SinkSlice, batches: Iterator[ConnectBatch], task: SinkTask) -> int:
        headers = {"Content-Type": _CONTENT_TYPES[self.config["request.body.format"]]}
        headers |= http.login_headers(self.config)
        headers |= http.parse_headers(self.config["headers"], self.config["header.separator"])
        sent = 0
        with http.http_client(self.config["http.connect.timeout.ms"], self.config["http.request.timeout.ms"]) as client:
            client.headers.update(headers)
            for batch in batches:
                refused: dict[int, str] = {}
                for request in self._requests(batch, part, refused):
                    self._deliver(client, request, refused)
                self._reject(batch, refused, task)
                sent += batch.num_rows - len(refused)
        return sent

    # -- requests ------------------------------------------------------------------------------------------------------

    def _requests(self, batch: ConnectBatch, part: SinkSlice, refused: dict[int, str]) -> Iterator[_Request]:
        """The requests of a batch, in the order of its rows."""
        bodies = self._bodies(batch)
        urls = self._urls(batch)
        keys = _idempotency_keys(batch, part)
        behavior = self.config["behavior.on.null.values"]
        size = self.config["batch.max.size"]
        waiting: list[int] = []
        for row, body in enumerate(bodies):
            if body is None and behavior == "ignore":
                continue
            if body is None and behavior == "fail":
                refused[row] = "record without value, and behavior.on.null.values=fail"
                continue
            if waiting and (body is None or len(waiting) == size or urls[row] != urls[waiting[0]]):
                yield self._request(waiting, urls, bodies, keys)
                waiting = []
            if body is None:
                yield _Request(urls[row], "DELETE", [row], [b""], [keys[row]])
            else:
                waiting.append(row)
        if waiting:
            yield self._request(waiting, urls, bodies, keys)

    def _request(
        self, rows: list[int], urls: Sequence[str], bodies: Sequence[bytes | None], keys: Sequence[str]
    ) -> _Request:
        found = [bodies[row] or b"" for row in rows]
        return _Request(urls[rows[0]], self.config["request.method"], rows, found, [keys[row] for row in rows])

    def _bodies(self, batch: ConnectBatch) -> list[bytes | None]:
        if self.config["request.body.format"] == "json":
            texts = json_columns.encode(batch.value.array, batch.value.schema, numeric_decimals=True)
        else:
            texts = text_of(batch.value.array, batch.value.schema, TO_STRING).cast(pa.binary())
        found: list[bytes | None] = texts.to_pylist()
        return found

    def _urls(self, batch: ConnectBatch) -> Sequence[str]:
        names = http.names_in(self.url)
        if not names:
            return [self.url] * batch.num_rows
        topics = batch.topic.to_pylist()
        keys: list[str | None] = [None] * batch.num_rows
        if "key" in names:
            keys = text_of(batch.key.array, batch.key.schema, TO_STRING).to_pylist()
        return [
            http.filled(self.url, {"topic": topic, "key": key or ""}, quoted=True)
            for topic, key in zip(topics, keys, strict=True)
        ]

    def _content(self, request: _Request) -> bytes:
        if self.config["batch.max.size"] == 1 or request.method == "DELETE":
            return request.bodies[0]
        parts = (self.config[f"batch.{one}"].replace("\\n", "\n") for one in ("prefix", "separator", "suffix"))
        prefix, separator, suffix = (one.encode() for one in parts)
        found: bytes = prefix + separator.join(request.bodies) + suffix
        return found

    # -- answers -------------------------------------------------------------------------------------------------------

    def _deliver(self, client: httpx.Client, request: _Request, refused: dict[int, str]) -> None:
        """Send a request; if it is refused, find out which of its rows are."""
        answer = self._answer(client, request)
        status = answer.status_code
        if 200 <= status < 300:
            return
        where = f"{http.shown_url(request.url)} answered with status {status}"
        has_own_url = "key" in http.names_in(self.url)
        if request.method == "DELETE" and status in (404, 410):
            return  # it is deleted already
        if status < 400 or status in (401, 403, 405, 407) or (status == 404 and not has_own_url):
            raise http.HttpRefused(f"{where}: {http.advice(status)}")
        if len(request.rows) == 1:
            refused[request.rows[0]] = f"{where}: {answer.text[:_SHOWN_ANSWER]}"
            return
        for half in request.halves():
            self._deliver(client, half, refused)

    def _answer(self, client: httpx.Client, request: _Request) -> httpx.Response:
        """The first answer that is not to be tried again."""
        import httpx

        headers = {}
        if self.config["idempotency.key.header"]:
            last = f"+{len(request.keys)}" if len(request.keys) > 1 else ""
            headers[self.config["idempotency.key.header"]] = request.keys[0] + last
        content = self._content(request)
        backoff_ms = float(self.config["retry.backoff.ms"])
        problem = ""
        for attempt in range(self.config["max.retries"] + 1):
            wait_s = None
            try:
                answer = client.request(request.method, request.url, content=content, headers=headers)
                if not any(first <= answer.status_code <= last for first, last in self.retried):
                    return answer
                problem = f"answered with status {answer.status_code}"
                wait_s = http.retry_after_s(answer.headers, time.time())
            except httpx.HTTPError as error:
                problem = f"did not answer: {type(error).__name__}: {error}"
            if wait_s is not None and wait_s > MAX_BACKOFF_MS / 1000:
                raise RetriableError(f"{http.shown_url(request.url)} {problem}, and asks to wait for {wait_s:.0f} s")
            if attempt < self.config["max.retries"]:
                time.sleep(backoff_ms / 1000 if wait_s is None else wait_s)
                backoff_ms = min(backoff_ms * 2, MAX_BACKOFF_MS)
        raise RetriableError(f"{http.shown_url(request.url)} {problem}, after {self.config['max.retries']} retries")

    def _reject(self, batch: ConnectBatch, refused: Mapping[int, str], task: SinkTask) -> None:
        """Hand the refused rows to the engine, those with the same reason together."""
        for reason in dict.fromkeys(refused.values()):
            rows = pa.array([refused.get(row) == reason for row in range(batch.num_rows)])
            error = DataError(reason)
            if task.reject is None:
                raise error
            task.reject(batch, rows, error)


def _idempotency_keys(batch: ConnectBatch, part: SinkSlice) -> list[str]:
    """Topic, partition and offset of each consumed record."""
    if batch.origin is None:
        return [
            f"{part.partition.topic}-{part.partition.partition}-{part.start}.{row}" for row in range(batch.num_rows)
        ]
    names = (batch.origin.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    return [f"{topic}-{partition}-{offset}" for topic, partition, offset in zip(*names, strict=True)]
