"""Parts of the broker: their constructors name what they use, and none takes the whole Broker."""

from __future__ import annotations

import ast
from pathlib import Path

import moldau.broker

PACKAGE = Path(moldau.broker.__file__).parent
MAY_USE_THE_BROKER = {"assembly.py", "connection/session.py"}
"""The assembly creates the Broker. The session passes it to the handlers with each request."""


def imports_the_broker(path: Path) -> bool:
    tree = ast.parse(path.read_text())
    return any(isinstance(node, ast.ImportFrom) and node.module == "moldau.broker.broker" for node in ast.walk(tree))


def test_only_the_assembly_the_session_and_handlers_use_the_broker() -> None:
    modules = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if imports_the_broker(path)}
    assert {name for name in modules if not name.startswith("handlers/")} == MAY_USE_THE_BROKER
