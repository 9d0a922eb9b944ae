"""OpenAPI description of the REST API, from the declarations of its endpoints, and a page that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from moldau import __version__
from moldau.rest.endpoints import JSON_TYPE, MAX_INT32, NUMBERS, ProxyEndpoint

ERRORS: Final = {
    400: "The request is wrong, or the brokers refuse it.",
    401: "The login failed.",
    403: "The user may not do this.",
    404: "It does not exist.",
    405: "The path does not have this method.",
    406: "The answer cannot have this media type.",
    409: "It is not possible in the present state.",
    413: "The body is too large.",
    415: "The body does not have this media type.",
    422: "The data does not have the right form.",
    429: "Too many requests, or a quota is exceeded.",
    503: "Not possible at the moment; try again.",
}


def openapi(endpoints: Sequence[ProxyEndpoint]) -> dict[str, Any]:
    """The description as a JSON value."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Moldau REST proxy",
            "version": __version__,
            "description": "Topics, records and groups of a Kafka cluster over HTTP: Confluent's API v3 and v2, "
            "server-sent events and WebSocket.",
        },
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
                    "required": ["error_code", "message"],
                }
            },
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
        "security": [{}, {"basic": []}],
    }


def _operation(endpoint: ProxyEndpoint) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "operationId": _operation_id(endpoint),
        "parameters": [_path_parameter(name) for name in endpoint.parameters]
        + [_query_parameter(name, schema) for name, schema in endpoint.query.items()],
        "responses": {
            **{str(status): _answer(endpoint, status, text) for status, text in endpoint.answers.items()},
            **{str(status): _error(text) for status, text in ERRORS.items() if status not in endpoint.answers},
        },
    }
    if endpoint.body is not None:
        found["requestBody"] = {
            "required": endpoint.body_required,
            "content": {kind: {"schema": endpoint.body} for kind in endpoint.body_types},
        }
    return found


def _operation_id(endpoint: ProxyEndpoint) -> str:
    place = "".join(character if character.isalnum() else "_" for character in endpoint.path).strip("_")
    return f"{endpoint.method.lower()}_{place}"


def _path_parameter(name: str) -> dict[str, Any]:
    number = {"type": "integer", "minimum": 0, "maximum": MAX_INT32}
    schema = number if name in NUMBERS else {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameter(name: str, schema: Any) -> dict[str, Any]:
    plain = {key: value for key, value in schema.items() if key not in ("required", "description")}
    found = {"name": name, "in": "query", "required": bool(schema.get("required")), "schema": plain}
    return found | ({"description": schema["description"]} if "description" in schema else {})


def _answer(endpoint: ProxyEndpoint, status: int, text: str) -> dict[str, Any]:
    if status == 204 or (status == 201 and not endpoint.answer_types):
        return {"description": text}
    return {"description": text, "content": {kind: {} for kind in endpoint.answer_types}}


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {JSON_TYPE: {"schema": schema}}}


def page(endpoints: Sequence[ProxyEndpoint]) -> str:
    """The page at `/`: all endpoints with one line each. It loads nothing from elsewhere."""
    ordered = sorted(endpoints, key=lambda one: one.tag)
    parts = []
    for tag, group in groupby(ordered, key=lambda one: one.tag):
        rows = "".join(
            f"<tr><td><b>{one.method}</b></td><td><code>{escape(one.path)}</code></td><td>{escape(one.summary)}</td></tr>"
            for one in group
        )
        parts.append(f"<h2>{escape(tag)}</h2><table>{rows}</table>")
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}"
        "td{padding:.1em .8em .1em 0;vertical-align:top}h2{margin:1.2em 0 .3em}code{font-size:.93em}"
    )
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Moldau REST proxy</title><style>{style}</style>"
        f"<h1>Moldau REST proxy {escape(__version__)}</h1>"
        "<p>The description for tools: <a href='openapi.json'>openapi.json</a> (OpenAPI 3.1).</p>"
        f"{''.join(parts)}</html>"
    )
