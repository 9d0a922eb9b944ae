"""Griffe extension for the API pages of the site: documents calls and errors that have no docstring of their own.

The blocking clients take calls from the asyncio ones, as `create_topics = _blocking(AioAdmin.create_topics)`, or only
their docstrings, as `@_documented_by(AioConsumer.poll)`. An error of a broker says what it means with
`class UnknownTopicOrPartition(BrokerError, says="...")`. Griffe reads the source without running it, so it sees none of
them.
"""

from __future__ import annotations

import ast
from copy import copy
from typing import Any

from griffe import Alias, Attribute, Class, Docstring, ExprCall, Extension, Function, Module

BLOCKING_CLIENTS = {
    "client.blocking.admin.Admin": "client.admin.admin.Admin",
    "client.blocking.consumer.Consumer": "client.consumer.consumer.Consumer",
}


class ApiReference(Extension):
    """Adds the docstrings when the package is loaded."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Document the blocking clients and the errors of brokers."""
        if pkg.name != "moldau":
            return
        for blocking, asyncio in BLOCKING_CLIENTS.items():
            _document(pkg[blocking], pkg[asyncio])
        for module in pkg["client.broker_errors"].modules.values():
            for error in module.classes.values():
                _explain(error)


def _document(blocking: Class, asyncio: Class) -> None:
    for name, member in list(blocking.members.items()):
        if isinstance(member, Attribute) and _is_blocking_call(member):
            blocking.set_member(name, _without_async(_call(asyncio, name), member))
        elif isinstance(member, Function) and _has_docstring_elsewhere(member):
            member.docstring = _call(asyncio, name).docstring


def _call(client: Class, name: str) -> Function:
    found = client.all_members[name]
    return found.final_target if isinstance(found, Alias) else found


def _is_blocking_call(member: Attribute) -> bool:
    return isinstance(member.value, ExprCall) and str(member.value.function) in ("_blocking", "_on_loop")


def _has_docstring_elsewhere(member: Function) -> bool:
    return any(str(decorator.value).startswith("_documented_by(") for decorator in member.decorators)


def _without_async(call: Function, member: Attribute) -> Function:
    blocking = copy(call)
    blocking.parent = member.parent
    blocking.labels = call.labels - {"async"}
    return blocking


def _explain(error: Class) -> None:
    says = error.keywords.get("says")
    if says is not None and error.docstring is None:
        text = ast.literal_eval(str(says))
        error.docstring = Docstring(text[0].upper() + text[1:] + ".", parent=error)
