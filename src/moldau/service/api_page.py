"""Web page of an API: its OpenAPI description as plain HTML, without scripts and without other hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

METHODS: Final = ("get", "post", "put", "patch", "delete")
_CODE = re.compile(r"`([^`]+)`")
_STYLE: Final = """\
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code{font:14px/1.4 ui-monospace,monospace}
summary{cursor:pointer;padding:.3rem 0}
summary b{display:inline-block;width:4.5rem;font:600 13px ui-monospace,monospace}
table{border-collapse:collapse;margin:.3rem 0 1rem 4.5rem}
td,th{text-align:left;vertical-align:top;padding:.15rem 1rem .15rem 0}
p.note{margin:.2rem 0 .2rem 4.5rem}
"""


def api_page(description: Mapping[str, Any], description_path: str = "/openapi.json") -> str:
    """The page of an OpenAPI 3 description, which is served at `description_path`."""
    info = description["info"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        f"<p>{_text(info.get('description', ''))}</p>",
        f'<p>For programs: <a href="{escape(description_path)}">OpenAPI description</a>.</p>',
    ]
    section = None
    for path, method, operation in _operations(description):
        tag = (operation.get("tags") or [""])[0]
        if tag != section:
            parts.append(f"<h2>{escape(tag)}</h2>")
            section = tag
        parts.append(_operation(path, method, operation))
    return "\n".join([*parts, "</body></html>"])


def _operations(description: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, item in description["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    rows = [_row(one["name"], one["in"], _text(one.get("description", ""))) for one in operation.get("parameters", ())]
    body = operation.get("requestBody", {}).get("content", {})
    if body:
        name = next(iter(body.values())).get("schema", {}).get("$ref", "").rpartition("/")[2]
        rows.append(_row(name, "body", escape(next(iter(body)))))
    rows += [
        _row(status, "answer", _text(answer.get("description", "")))
        for status, answer in operation.get("responses", {}).items()
    ]
    note = operation.get("description")
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> {_text(operation.get('summary', ''))}"
        f"</summary>{f'<p class=note>{_text(note)}</p>' if note else ''}<table>{''.join(rows)}</table></details>"
    )


def _row(name: str, place: str, text: str) -> str:
    return f"<tr><td><code>{escape(name)}</code></td><td>{place}</td><td>{text}</td></tr>"


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text, quote=False))
