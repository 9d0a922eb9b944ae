"""Writes docs/configuration.md from the declarations of the settings; `--check` only says whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "configuration.md"
sys.path.insert(0, str(ROOT / "src"))

from moldau.settings import BROKER, TOPIC, Scope, Setting, SettingTable  # noqa: E402

INTRODUCTION = """\
# Configuration

<!-- Written by tools/render_configuration.py from src/moldau/settings/. Change the declarations, not this page. -->

Settings have the names, units and defaults of Apache Kafka 4; those that begin with `moldau.` are our own.

## Where settings come from

A broker takes a setting from the last of these that gives it:

1. the file of `--config`, in the form of Kafka's `server.properties`;
2. the environment: `MOLDAU_LOG_DIRS` sets `log.dirs`, `MOLDAU_METRICS_PORT` sets `moldau.metrics.port`;
3. the command line: `--set log.dirs=/var/lib/moldau`.

A setting marked *dynamic* can also be changed while the broker runs, for one broker or for all, by any Kafka
administration tool; that wins over all of the above and survives restarts. A topic's own settings win over the
broker's defaults for topics.

An unknown or malformed setting is an error that names it, and the nearest known one. Settings that a
`server.properties` written for Kafka carries, and that mean nothing here, are accepted with a warning.
"""

TABLE_HEAD = "| name | type | default | allowed | what it does |\n|---|---|---|---|---|\n"


def render() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, _render_table("Broker settings", BROKER), _render_table("Topic settings", TOPIC)])


def _render_table(title: str, table: SettingTable) -> str:
    parts = [f"## {title}\n"]
    for heading, settings in table.sections.items():
        parts.append(f"### {heading}\n\n{TABLE_HEAD}" + "".join(_render_row(setting) for setting in settings))
    return "\n".join(parts)


def _render_row(setting: Setting) -> str:
    text = setting.format(setting.default)
    default = "none" if text is None else f"`{text}`" if text else "empty"
    kind = setting.type.name.lower() + (", dynamic" if setting.scope is Scope.BROKER_DYNAMIC else "")
    documentation = setting.documentation
    if setting.synonyms and setting.scope is Scope.TOPIC:
        documentation += f" Broker default: {', '.join(f'`{name}`' for name in setting.synonyms)}."
    return f"| `{setting.name}` | {kind} | {default} | {setting.allowed} | {documentation} |\n"


def main(arguments: list[str]) -> int:
    page = render()
    if arguments == ["--check"]:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page
        if not current:
            print("docs/configuration.md is not current: run tools/render_configuration.py", file=sys.stderr)
        return 0 if current else 1
    if arguments:
        print("usage: render_configuration.py [--check]", file=sys.stderr)
        return 2
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
