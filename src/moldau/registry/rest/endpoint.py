"""Operation of the REST API as data, the call that its handler gets, and the reply that it gives.

The routes and the OpenAPI description are both made from endpoints, so that they cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from moldau.registry.rest.errors import ApiError, not_found

MAX_INT: Final = 2**31 - 1
MIN_INT: Final = -(2**31)

T = TypeVar("T")


class ParameterType(StrEnum):
    """The type of a query parameter, in OpenAPI's words."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    STRING = "string"


@dataclass(frozen=True)
class Parameter:
    """A query parameter. `repeated` ones may be given more than once."""

    name: str
    type: ParameterType
    text: str
    default: Any = None
    repeated: bool = False


def flag(name: str, text: str) -> Parameter:
    return Parameter(name, ParameterType.BOOLEAN, text, False)


def number(name: str, default: int, text: str) -> Parameter:
    return Parameter(name, ParameterType.INTEGER, text, default)


def word(name: str, text: str, *, repeated: bool = False) -> Parameter:
    return Parameter(name, ParameterType.STRING, text, None, repeated)


@dataclass
class ApiCall:
    """A request as a handler sees it: names from the path, query parameters, and the body."""

    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: bytes = b""

    def flag(self, name: str) -> bool:
        """True for `true` in any case only, as Java's Boolean: clients send True and true."""
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Raises ApiError: 404, as Confluent's registry answers."""
        found = self.query.get(name)
        return default if found is None else integer(found[0])

    def text(self, name: str) -> str:
        """The parameter, or an empty text."""
        found = self.query.get(name)
        return found[0] if found else ""

    def either(self, name: str, other: str) -> str:
        """A parameter that some clients spell in another way."""
        return self.text(name) or self.text(other)

    def texts(self, name: str) -> list[str]:
        return list(self.query.get(name, ()))

    def json_object(self) -> dict[str, Any]:
        """The body. Raises ApiError: 400 if it is not JSON, 422 if it is not an object."""
        if not self.body.strip():
            raise ApiError(422, 422, "the body is empty; a JSON object is needed")
        try:
            found = json.loads(self.body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise ApiError(400, 400, f"the body is not JSON: {reason}") from None
        if not isinstance(found, dict):
            raise ApiError(422, 422, "the body must be a JSON object")
        return found


def _refuse_constant(name: str) -> None:
    """Python reads NaN and Infinity, which are no JSON: other clients could not read them back."""
    raise ValueError(f"{name} is not a number of JSON")


def integer(text: str) -> int:
    """A number of a path or a query within Java's int. Raises ApiError: 404, as Confluent's registry answers."""
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 12 and MIN_INT <= int(text) <= MAX_INT):
        raise not_found()
    return int(text)


def page(call: ApiCall, found: Sequence[T]) -> list[T]:
    """The part of a list that `offset` and `limit` ask for. Negative: from the beginning, to the end."""
    offset, limit = max(0, call.number("offset", 0)), call.number("limit", -1)
    return list(found[offset:] if limit < 0 else found[offset : offset + limit])


@dataclass(frozen=True)
class ApiReply:
    """The answer of a handler: a JSON value, or the text of a schema."""

    body: Any = None
    status: int = 200
    text: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = ""
    """The type of the answer, if the Accept header does not choose it."""


Handler = Callable[[ApiCall], Awaitable[ApiReply]]


@dataclass(frozen=True)
class ApiOperation:
    """One method of one path. `{name}` in the path stands for one part of it, which may have any characters."""

    method: str
    path: str
    name: str
    """The name in the OpenAPI description."""
    summary: str
    answer: Mapping[str, Any]
    """The JSON schema of the answer."""
    parameters: Sequence[Parameter] = ()
    body: Mapping[str, Any] | None = None
    """The JSON schema of the body."""
    errors: Sequence[int] = ()
    """The registry's own codes that it answers with, beside those of HTTP."""
    status: int = 200


@dataclass(frozen=True)
class ApiEndpoint:
    """An operation with the handler that carries it out."""

    operation: ApiOperation
    handler: Handler


H = TypeVar("H", bound=Callable[..., Awaitable[ApiReply]])
_OPERATIONS: Final = "api_operations"


def operation(
    method_and_path: str,
    name: str,
    summary: str,
    answer: Mapping[str, Any],
    parameters: Sequence[Parameter] = (),
    *,
    body: Mapping[str, Any] | None = None,
    errors: Sequence[int] = (),
    status: int = 200,
) -> Callable[[H], H]:
    """Make a method of a resource the handler of an operation. One method may handle several."""
    method, path = method_and_path.split()
    described = ApiOperation(method, path, name, summary, answer, parameters, body, errors, status)

    def decorate(handler: H) -> H:
        setattr(handler, _OPERATIONS, [described, *getattr(handler, _OPERATIONS, ())])
        return handler

    return decorate


def endpoints_of(resource: object) -> list[ApiEndpoint]:
    """The operations of a resource, in the order of its source."""
    return [
        ApiEndpoint(described, getattr(resource, name))
        for name, member in vars(type(resource)).items()
        for described in getattr(member, _OPERATIONS, ())
    ]
