"""Endpoints: one declaration for the route, the checks of a request, and its page in the OpenAPI description.

A handler gets a `ProxyCall` whose path, query and body have been checked against the declaration, and returns a
Response or a JSON value. The JSON schemas of bodies are those of the description: what it does not allow is refused.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moldau.client.errors import MoldauError
from moldau.rest.errors import ProxyError, bad_request, not_found, rest_error, unprocessable
from moldau.rest.sessions import BrokerSession, Sessions

if TYPE_CHECKING:
    from starlette.types import Scope

JSON_TYPE: Final = "application/json"
MAX_INT32: Final = (1 << 31) - 1
MAX_INT64: Final = (1 << 63) - 1

STRING: Final[Mapping[str, Any]] = {"type": "string"}
TEXT: Final[Mapping[str, Any]] = {"type": "string", "minLength": 1}
BOOLEAN: Final[Mapping[str, Any]] = {"type": "boolean"}
INT32: Final[Mapping[str, Any]] = {"type": "integer", "minimum": 0, "maximum": MAX_INT32}
INT64: Final[Mapping[str, Any]] = {"type": "integer", "minimum": 0, "maximum": MAX_INT64}
NUMBERS: Final = ("broker_id", "partition_id", "partition")
"""Parameters of paths that are numbers."""


def one_of(*names: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}


def array(items: Mapping[str, Any], **limits: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **limits}


def record(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    """The schema of an object. Other fields are allowed, and ignored, as Confluent's proxy does."""
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


@dataclass
class ProxyCall:
    """One request to an endpoint."""

    request: Request
    session: BrokerSession
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any
    base: str
    """The URL of the proxy as the client wrote it, without a slash at the end."""


Handler = Callable[[ProxyCall], Awaitable[Any]]


@dataclass(frozen=True)
class ProxyEndpoint:
    """A declaration. Without `body` the request's body is ignored; with `raw` the handler reads it."""

    method: str
    path: str
    handler: Handler = field(repr=False)
    summary: str
    tag: str
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    body_required: bool = True
    body_types: Sequence[str] = (JSON_TYPE,)
    answers: Mapping[int, str] = field(default_factory=lambda: {200: "The answer."})
    answer_types: Sequence[str] = (JSON_TYPE,)
    raw: bool = False
    check: Mapping[str, Any] | None = None
    """What is checked instead of `body`, if the handler checks the rest: bodies with thousands of records."""

    @property
    def parameters(self) -> list[str]:
        return [part[1:].partition("}")[0] for part in self.path.split("/") if part.startswith("{")]

    @cached_property
    def _validator(self) -> Any:
        from jsonschema import Draft202012Validator

        return Draft202012Validator(dict(self.check or self.body or {}))

    async def read_body(self, request: Request) -> Any:
        """The checked body. ProxyError: 415, 400 or 422."""
        data = await request.body()
        if self.body is None or self.raw:
            return data
        if not data and not self.body_required:
            return None
        check_type(request, self.body_types)
        found = parse_json(data)
        problem = next(iter(self._validator.iter_errors(found)), None)
        if problem is not None:
            where = "/".join(str(part) for part in problem.absolute_path)
            raise bad_request(f"{where or 'the body'}: {_shortened(problem.message)}")
        return found

    def read_path(self, request: Request) -> dict[str, Any]:
        return {name: path_value(name, text) for name, text in request.path_params.items()}

    def read_query(self, request: Request) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, schema in self.query.items():
            text = request.query_params.get(name)
            if text is None:
                if schema.get("required"):
                    raise bad_request(f"{name}: missing")
                if "default" in schema:
                    found[name] = schema["default"]
                continue
            found[name] = query_value(name, text, schema)
        return found


def path_value(name: str, text: str) -> Any:
    """The value of a parameter of a path. ProxyError 404: it is not a number, and must be one."""
    if "\0" in text:
        raise not_found("HTTP 404 Not Found")
    if name not in NUMBERS:
        return text
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > MAX_INT32:
        raise not_found("HTTP 404 Not Found")
    return int(text)


def query_value(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    """The value of a query parameter. ProxyError 400: it does not have the type of the schema."""
    kind = schema["type"]
    if kind == "integer":
        low, high = schema.get("minimum", -MAX_INT64), schema.get("maximum", MAX_INT64)
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or not low <= int(text) <= high:
            raise bad_request(f"{name}: {text!r} is not a number from {low} to {high}")
        return int(text)
    if kind == "boolean":
        if text not in ("true", "false"):
            raise bad_request(f"{name}: {text!r} is neither true nor false")
        return text == "true"
    choices = schema.get("enum")
    if choices and text not in choices:
        raise bad_request(f"{name}: {text!r} is not one of {', '.join(choices)}")
    if len(text) < schema.get("minLength", 0):
        raise bad_request(f"{name}: is empty")
    return text


def check_type(request: Request, known: Sequence[str]) -> str:
    """The media type of the body. ProxyError 415: it is not one of these. Without one it is the first."""
    given = request.headers.get("content-type")
    if given is None:
        return known[0]
    media = given.partition(";")[0].strip().lower()
    if media not in known:
        raise ProxyError(415, 415, f"the body is {_shortened(media)!r}; send {', '.join(known)}")
    return media


def parse_json(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "too many levels" if isinstance(error, RecursionError) else str(error)
        raise bad_request(f"the body is not JSON: {_shortened(reason)}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value of JSON")


def _shortened(text: str) -> str:
    return text if len(text) <= 300 else text[:300] + "…"


def route(endpoint: ProxyEndpoint, sessions: Sessions) -> Route:
    """The route that checks requests, logs in, and calls the handler."""
    v2 = not endpoint.path.startswith("/v3")

    async def answer(request: Request) -> Response:
        try:
            path, query = endpoint.read_path(request), endpoint.read_query(request)
            async with sessions.lease(request.headers.get("authorization")) as session:
                body = None if endpoint.raw else await endpoint.read_body(request)
                base = str(request.base_url).rstrip("/")
                found = await endpoint.handler(ProxyCall(request, session, path, query, body, base))
        except MoldauError as error:
            raise rest_error(error, v2=v2) from error
        except UnicodeEncodeError:
            raise unprocessable("a text has a surrogate, which UTF-8 does not have") from None
        return found if isinstance(found, Response) else json_response(found, endpoint)

    answer.__name__ = endpoint.handler.__name__  # by which metrics count requests
    return Route(endpoint.path, answer, methods=[endpoint.method])


def json_response(value: Any, endpoint: ProxyEndpoint) -> Response:
    status = next(iter(endpoint.answers))
    if value is None:
        return Response(status_code=status)
    return JSONResponse(value, status, media_type=endpoint.answer_types[0])


def reads_itself(endpoints: Sequence[ProxyEndpoint]) -> Callable[[Scope], bool]:
    """Whether a request's body is streamed to its handler: an endpoint with `raw`, and a body without a length."""
    ends = tuple({endpoint.path.rpartition("}")[2] for endpoint in endpoints if endpoint.raw})

    def streams(scope: Scope) -> bool:
        if scope["method"] != "POST" or not scope["path"].endswith(ends):
            return False
        return not any(name == b"content-length" for name, _ in scope["headers"])

    return streams
