"""Renderer of docs/connector-settings.md from the declarations of connectors; `--check` tells whether it is current."""

from __future__ import annotations

import sys
from typing import Any

from rendered_page import ROOT, write_or_check

PAGE = ROOT / "docs" / "connector-settings.md"
sys.path.insert(0, str(ROOT / "src"))

from moldau.connect.built_in_plugins import BUILT_IN, BuiltIn, Kind  # noqa: E402
from moldau.connect.config_def import ConfigDef, ConfigKey  # noqa: E402
from moldau.connect.connector_settings import SINK, SOURCE  # noqa: E402
from moldau.connect.engine.run_settings import ENGINE_SETTINGS  # noqa: E402
from moldau.connect.plugins import installed  # noqa: E402

INTRODUCTION = """\
# Settings of connectors

<!-- Written by tools/render_connector_settings.py from src/moldau/connect/. Change the declarations, not this page. -->

Settings of every connector come first, then those of each class. A setting without a default is required. A name that
is not declared is an error that names the nearest one. [connectors.md](connectors.md) says what each connector does and
guarantees; [connect.md](connect.md) describes the service.
"""

TABLE_HEAD = "| name | type | default | what it does |\n|---|---|---|---|\n"


def render() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        _table("Every connector", ConfigDef(key for name, key in SOURCE.keys.items() if name in SINK.keys)),
        _table("Every source", ConfigDef(key for name, key in SOURCE.keys.items() if name not in SINK.keys)),
        _table("Every sink", ConfigDef(key for name, key in SINK.keys.items() if name not in SOURCE.keys)),
        _table("Of Moldau, for every connector", ENGINE_SETTINGS),
    ]
    for kind, title in ((Kind.SOURCE, "Source"), (Kind.SINK, "Sink")):
        parts += [_connector(title, one) for one in BUILT_IN if one.kind is kind]
    return "\n".join(parts)


def _connector(title: str, one: BuiltIn) -> str:
    names = ", ".join(f"`{name}`" for name in (one.name, *one.aliases))
    connector: Any = installed().load(one.name, one.kind)
    text = f"`connector.class`: {names}. Installed with `pip install 'moldau[{one.extra}]'`.\n"
    return _table(f"{title}: {one.name.rpartition('.')[2]}", connector.config_def, text)


def _table(title: str, definition: ConfigDef, text: str = "") -> str:
    rows = "".join(_row(key) for key in definition.keys.values())
    return f"## {title}\n\n" + (f"{text}\n" if text else "") + TABLE_HEAD + rows


def _row(key: ConfigKey) -> str:
    if key.required:
        default = "required"
    elif key.default is None or key.default in ("", (), []):
        default = "none"
    elif isinstance(key.default, bool):
        default = f"`{str(key.default).lower()}`"
    else:
        value = ",".join(key.default) if isinstance(key.default, (tuple, list)) else key.default
        default = f"`{value}`"
    doc = key.doc.replace("|", "\\|")
    return f"| `{key.name}` | {key.type.value.lower()} | {default} | {doc} |\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render, sys.argv[1:]))
