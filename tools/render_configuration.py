"""Renderer of docs/configuration.md from the settings declarations; `--check` tells whether it is up to date."""

from __future__ import annotations

import sys

from rendered_page import ROOT, write_or_check

PAGE = ROOT / "docs" / "configuration.md"
sys.path.insert(0, str(ROOT / "src"))

from moldau.connect.worker_setting_table import CONNECT  # noqa: E402
from moldau.registry.setting_table import REGISTRY  # noqa: E402
from moldau.rest.setting_table import REST_PROXY  # noqa: E402
from moldau.settings import BROKER, GROUP, TOPIC, Scope, Setting, SettingTable  # noqa: E402
from moldau.sql.server.setting_table import SQL_SERVER  # noqa: E402

INTRODUCTION = """\
# Configuration

<!-- Written by tools/render_configuration.py from src/moldau/settings/. Change the declarations, not this page. -->

Settings have the names, units and defaults of Apache Kafka 4. Settings that begin with `moldau.` exist only in Moldau.

## Where settings come from

A broker reads settings from three places. A later one overrides an earlier one:

1. the file of `--config`, in the format of Kafka's `server.properties`;
2. the environment: `MOLDAU_LOG_DIRS` sets `log.dirs`, `MOLDAU_METRICS_PORT` sets `moldau.metrics.port`;
3. the command line: `--set log.dirs=/var/lib/moldau`.

A setting marked *dynamic* can also be changed while the broker runs, for one broker or for all, with any Kafka
administration tool. Such a change overrides all of the above and survives restarts. Settings of a topic override the
broker's defaults for topics.

A malformed setting is an error that names the setting. Settings of Kafka 4.3 that have no effect in Moldau are accepted
with a warning; they are stored and described. `create.topic.policy.class.name` and `alter.config.policy.class.name` are
refused, because Moldau would not check anything.

A name that neither Kafka nor Moldau knows is accepted with a warning in a file and at run time, as in Kafka, because
plugins have their own settings. Its value is never shown, because it may be a secret. On the command line and in the
environment such a name is an error. A name in the file that is almost a known one is also an error.

## Secrets

A value may name the place of a secret, or of any other text, instead of the secret itself. The broker reads it at its
start. What it finds is not searched for such names again. Run-time changes are taken literally.

| value | stands for |
|---|---|
| `${env:NAME}` | the environment variable NAME |
| `${file:/path}` | the content of a file, without the line break at its end |
| `${file:/path:key}` | one entry of a properties file, as with Kafka's `FileConfigProvider` |

For example `sasl.jaas.config=... required user_alice="${file:/run/secrets/alice}";`. Settings of the type password are
never described, logged or quoted in an error. A run-time change of such a setting is stored in the metadata store as it
is; prefer files.

## Settings of one listener

`listener.name.NAME.SETTING` sets an `ssl.` or `sasl.` setting, or `connections.max.reauth.ms`, for the listener NAME.
`listener.name.NAME.MECHANISM.SETTING` sets `sasl.jaas.config`, `connections.max.reauth.ms` or
`sasl.server.callback.handler.class` for one mechanism of it: `listener.name.external.plain.sasl.jaas.config`. The most
specific one counts. NAME must be a listener of this broker, so that a misspelt name cannot leave a listener without its
protection. At run time, `ssl.` settings and `sasl.jaas.config` can be changed only in this form.

Changed certificates (in the files, or by a run-time change) and changed login settings are used for new connections.
Open ones go on. If the new ones cannot be used, the old ones stay in use, and the log says why.
"""

CONNECT_INTRODUCTION = """\
A worker (`moldau connect`) reads settings from the file of `--config`, in the format of Kafka's
`connect-distributed.properties`, from the environment (`MOLDAU_CONNECT_GROUP_ID` sets `group.id`), and from `--set`;
later ones override earlier ones. An unknown name is an error in each of them. These prefixes are known as well:

| prefix | what follows it |
|---|---|
| `producer.`, `consumer.`, `admin.` | settings of the clients of connectors |
| `key.converter.`, `value.converter.`, `header.converter.` | settings of the converters |
| `config.storage.`, `status.storage.`, `offset.storage.` | settings of these topics when they are created |
| `config.providers.NAME.` | `class` (FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider) and `param.` |
| `spark.` | settings of Spark |
"""

SQL_INTRODUCTION = """\
A server (`moldau sql serve`) reads settings from the file of `--config`, in the format of Java properties, from the
environment (`MOLDAU_SQL_STATE_DIR` sets `state.dir`), and from `--set`; later ones override earlier ones. An unknown
name is an error in each of them. Names that begin with `spark.` are settings of Spark.
"""

REGISTRY_INTRODUCTION = """\
A registry (`moldau registry`) reads settings from the file of `--config`, in the format of Confluent's
`schema-registry.properties`, from the environment (`MOLDAU_REGISTRY_HOST_NAME` sets `host.name`), and from `--set`;
later ones override earlier ones. An unknown name is an error in each of them. Settings of the Kafka clients are also
known with the prefix `kafkastore.`, and `kafkastore.topic.config.NAME` sets NAME of the topic when it is created.
"""

REST_INTRODUCTION = """\
A proxy (`moldau rest`) reads settings from the file of `--config`, in the format of Java properties, from the
environment (`MOLDAU_REST_SCHEMA_REGISTRY_URL` sets `schema.registry.url`), and from `--set`; later ones override
earlier ones. An unknown name is an error in each of them. Names that begin with `producer.`, `consumer.` or `admin.`
are settings of the proxy's clients.
"""

TABLE_HEAD = "| name | type | default | allowed | what it does |\n|---|---|---|---|---|\n"


def render() -> str:
    """The whole page."""
    tables = {"Broker settings": BROKER, "Topic settings": TOPIC, "Group settings": GROUP}
    parts = [_render_table(title, table) for title, table in tables.items()]
    services = [
        _render_table("Connect worker settings", CONNECT, CONNECT_INTRODUCTION),
        _render_table("SQL server settings", SQL_SERVER, SQL_INTRODUCTION),
        _render_table("Schema registry settings", REGISTRY, REGISTRY_INTRODUCTION),
        _render_table("REST proxy settings", REST_PROXY, REST_INTRODUCTION),
    ]
    return "\n".join([INTRODUCTION, *parts, *services])


def _render_table(title: str, table: SettingTable, introduction: str = "") -> str:
    parts = [f"## {title}\n", *([introduction] if introduction else [])]
    for heading, settings in table.sections.items():
        parts.append(f"### {heading}\n\n{TABLE_HEAD}" + "".join(_render_row(setting) for setting in settings))
    return "\n".join(parts)


def _render_row(setting: Setting) -> str:
    text = setting.format(setting.default)
    default = "none" if text is None else f"`{text}`" if text else "empty"
    kind = setting.type.name.lower() + (", dynamic" if setting.scope is Scope.BROKER_DYNAMIC else "")
    documentation = setting.documentation
    if setting.synonyms and setting.scope in (Scope.TOPIC, Scope.GROUP):
        documentation += f" Broker default: {', '.join(f'`{name}`' for name in setting.synonyms)}."
    return f"| `{setting.name}` | {kind} | {default} | {setting.allowed} | {documentation} |\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render, sys.argv[1:]))
