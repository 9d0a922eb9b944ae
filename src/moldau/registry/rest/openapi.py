"""OpenAPI description of the registry, made from the table of endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moldau import __version__
from moldau.registry.rest.body_schemas import COMPONENTS
from moldau.registry.rest.endpoint import ApiEndpoint, ApiOperation, Parameter
from moldau.registry.rest.media_types import DEFAULT, JSON, V1

TITLES: Final = {
    "schemas": "Schemas",
    "subjects": "Subjects",
    "compatibility": "Compatibility",
    "config": "Compatibility levels",
    "mode": "Modes",
    "contexts": "Contexts",
}
MEANINGS: Final = {
    400: "The request cannot be read.",
    404: "There is no such path.",
    406: "The Accept header has no type of the registry.",
    409: "The schema is not compatible with an earlier version.",
    415: "The body has a type that the registry does not read.",
    422: "The body is not what the endpoint needs.",
    40401: "The subject is unknown.",
    40402: "The version is unknown.",
    40403: "The schema is unknown.",
    40404: "The subject was deleted before.",
    40405: "The subject was not deleted before it was to be removed.",
    40406: "The version was deleted before.",
    40407: "The version was not deleted before it was to be removed.",
    40408: "The subject has no compatibility level of its own.",
    40409: "The subject has no mode of its own.",
    42201: "The schema is not valid.",
    42202: "The version is not a number from 1 and not `latest`.",
    42203: "The compatibility level is unknown.",
    42204: "The mode is unknown.",
    42205: "The mode does not allow it.",
    42206: "Other schemas refer to it.",
    42207: "The id belongs to another schema.",
    42208: "The subject cannot be a name.",
    42209: "The schema is too large.",
    42210: "The rules are not valid.",
    42211: "The context has subjects.",
}
EVERYWHERE: Final = (404, 406)
WITH_BODY: Final = (400, 415, 422)
_NAMES = re.compile(r"{(\w+)}")
_PATH_TEXTS: Final = {
    "id": "The id of a schema.",
    "guid": "The GUID of a schema.",
    "subject": "A subject; `:.NAME:SUBJECT` for one of a context.",
    "version": "A number from 1, or `latest`.",
    "context": "The name of a context.",
}


def openapi(endpoints: Iterable[ApiEndpoint]) -> dict[str, Any]:
    """The description, as the JSON of `/openapi.json`."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        one = endpoint.operation
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Moldau Schema Registry",
            "version": __version__,
            "description": "The REST API of Confluent's schema registry. Every path also exists below "
            "`/contexts/NAME`, for the subjects of that context.",
        },
        "paths": paths,
        "components": {"schemas": dict(COMPONENTS)},
    }


def _described(operation: ApiOperation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [TITLES.get(operation.path.split("/")[1], "Registry")],
        "parameters": [
            *(_path_parameter(name) for name in _NAMES.findall(operation.path)),
            *(_query_parameter(one) for one in operation.parameters),
        ],
        "responses": _responses(operation),
    }
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": _content(operation.body)}
    return found


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "integer", "format": "int32"} if name == "id" else {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "description": _PATH_TEXTS[name], "schema": schema}


def _query_parameter(one: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": one.type.value}
    if one.type == "integer":
        schema["format"] = "int32"
    if one.default is not None:
        schema["default"] = one.default
    if one.repeated:
        schema = {"type": "array", "items": schema}
    return {"name": one.name, "in": "query", "required": False, "description": one.text, "schema": schema}


def _responses(operation: ApiOperation) -> dict[str, Any]:
    done: dict[str, Any] = {"description": "Done."}
    if operation.status != 204:
        done["content"] = _content(operation.answer)
    codes = [*EVERYWHERE, *(WITH_BODY if operation.body is not None else ()), *operation.errors]
    by_status: dict[int, list[int]] = {}
    for code in codes:
        by_status.setdefault(code if code < 1_000 else code // 100, []).append(code)
    found: dict[str, Any] = {str(operation.status): done}
    for status, own in sorted(by_status.items()):
        text = " ".join(f"{code}: {MEANINGS[code]}" for code in dict.fromkeys(own))
        found[str(status)] = {"description": text, "content": _content({"$ref": "#/components/schemas/Error"})}
    return found


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A text of a schema (no JSON schema) may be anything."""
    return {media_type: {"schema": dict(schema)} for media_type in (V1, DEFAULT, JSON)}
