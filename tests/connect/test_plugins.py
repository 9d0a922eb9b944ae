from __future__ import annotations

import logging
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from moldau.connect.built_in_plugins import BUILT_IN, CONNECTORS, BuiltIn, Kind
from moldau.connect.connector import Connector, SinkConnector, SourceConnector
from moldau.connect.plugins import Plugin, PluginLoadError, Plugins, UnknownPlugin, installed

HERE = "tests.connect.test_plugins"


class LineSource(SourceConnector):
    version = "7"


class LineSink(SinkConnector):
    version = "7"


def plugin(kind: Kind, name: str, *aliases: str, target: str = f"{HERE}:LineSource") -> Plugin:
    return Plugin(kind, name, target, frozenset({name, *aliases}))


FILE_SOURCE = plugin(Kind.SOURCE, "org.apache.kafka.connect.file.FileStreamSourceConnector", "com.example.Lines")


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSourceConnector",
        "FileStreamSource",
        "com.example.Lines",
        "Lines",
    ],
)
def test_a_connector_is_found_by_full_and_short_names(name: str) -> None:
    assert Plugins([FILE_SOURCE]).find(name, *CONNECTORS) is FILE_SOURCE


@pytest.mark.parametrize("name", ["", "Connector", "filestreamsource", "FileStream", "file.FileStreamSourceConnector"])
def test_other_names_are_refused_with_the_names_that_exist(name: str) -> None:
    with pytest.raises(UnknownPlugin) as caught:
        Plugins([FILE_SOURCE]).find(name, *CONNECTORS)
    assert str(caught.value) == (
        f"Failed to find any class that implements Connector and which name matches {name}, available connectors are: "
        "org.apache.kafka.connect.file.FileStreamSourceConnector"
    )


def test_a_short_form_of_two_classes_is_no_name_of_either() -> None:
    two = Plugins([plugin(Kind.SINK, "a.FilesConnector"), plugin(Kind.SINK, "b.FilesConnector")])
    assert two.find("b.FilesConnector", Kind.SINK).name == "b.FilesConnector"
    for name in ("FilesConnector", "Files"):
        with pytest.raises(UnknownPlugin):
            two.find(name, *CONNECTORS)


def test_a_name_is_found_only_among_the_kinds_that_are_asked_for() -> None:
    plugins = Plugins([plugin(Kind.CONVERTER, "x.JsonConverter"), plugin(Kind.TRANSFORMATION, "x.Json")])
    assert plugins.find("Json", Kind.CONVERTER).kind is Kind.CONVERTER
    assert plugins.find("Json", Kind.TRANSFORMATION).kind is Kind.TRANSFORMATION
    with pytest.raises(UnknownPlugin, match="implements Predicate"):
        plugins.find("Json", Kind.PREDICATE)


def test_plugins_are_listed_by_kind_and_name() -> None:
    plugins = Plugins([plugin(Kind.SOURCE, "z"), plugin(Kind.SOURCE, "a"), plugin(Kind.SINK, "m")])
    assert [one.name for one in plugins.listed()] == ["m", "a", "z"]
    assert [one.name for one in plugins.listed(Kind.SOURCE)] == ["a", "z"]


def test_the_version_of_a_foreign_plugin_is_that_of_its_class() -> None:
    assert FILE_SOURCE.version == "7"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_package:X", r"ModuleNotFoundError.*pip install 'moldau\[connect-lake\]'"),
        (f"{HERE}:Missing", "AttributeError"),
        (f"{HERE}:HERE", "it is no class"),
    ],
)
def test_a_class_that_cannot_be_loaded_says_why_and_what_to_install(target: str, message: str) -> None:
    with pytest.raises(PluginLoadError, match=message):
        Plugin(Kind.SOURCE, "x", target, extra="connect-lake").load()


# Built-in plugins ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", BUILT_IN, ids=lambda row: f"{row.kind.value}-{row.name}")
def test_every_built_in_plugin_loads_and_declares_its_settings(row: BuiltIn) -> None:
    loaded = installed().load(row.name, row.kind)
    assert loaded.config_def.keys is not None
    if row.kind in CONNECTORS:
        assert issubclass(loaded, Connector)
        assert issubclass(loaded, SinkConnector) == (row.kind is Kind.SINK)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.kafka.connect.file.FileStreamSourceConnector", Kind.SOURCE),
        ("FileStreamSource", Kind.SOURCE),
        ("org.apache.kafka.connect.file.FileStreamSinkConnector", Kind.SINK),
        ("FileStreamSinkConnector", Kind.SINK),
        ("io.confluent.connect.jdbc.JdbcSourceConnector", Kind.SOURCE),
        ("JdbcSink", Kind.SINK),
        ("io.confluent.connect.s3.S3SinkConnector", Kind.SINK),
        ("io.confluent.connect.hdfs.HdfsSinkConnector", Kind.SINK),
        ("io.confluent.kafka.connect.datagen.DatagenConnector", Kind.SOURCE),
        ("io.debezium.connector.postgresql.PostgresConnector", Kind.SOURCE),
        ("io.debezium.connector.mysql.MySqlConnector", Kind.SOURCE),
        ("io.debezium.connector.mariadb.MariaDbConnector", Kind.SOURCE),
        ("org.apache.kafka.connect.transforms.Cast$Value", Kind.TRANSFORMATION),
        ("Cast$Value", Kind.TRANSFORMATION),
        ("org.apache.kafka.connect.transforms.predicates.TopicNameMatches", Kind.PREDICATE),
        ("JsonConverter", Kind.CONVERTER),
        ("Json", Kind.CONVERTER),
        ("org.apache.kafka.connect.storage.SimpleHeaderConverter", Kind.HEADER_CONVERTER),
    ],
)
def test_class_names_that_users_of_kafka_connect_know_are_found(name: str, kind: Kind) -> None:
    assert installed().find(name, kind).kind is kind


def test_plugins_of_other_packages_are_found_and_broken_ones_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    facts = tmp_path / "others-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        f"""[moldau.connectors]
com.example.LineSource = {HERE}:LineSource
com.example.Lines = {HERE}:LineSource
com.example.LineSink = {HERE}:LineSink
com.example.Broken = no_such_package:Broken
com.example.NoConnector = {HERE}:Path
"""
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    installed.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            found = {
                one.name: one.kind for one in installed().listed(*CONNECTORS) if one.name.startswith("com.example")
            }
        assert found == {"com.example.LineSink": Kind.SINK, "com.example.LineSource": Kind.SOURCE}
        assert installed().load("Lines", Kind.SOURCE) is LineSource
        ignored = sorted(vars(record)["plugin"] for record in caplog.records)
        assert ignored == ["no_such_package:Broken", f"{HERE}:Path"]
    finally:
        installed.cache_clear()


def test_no_two_built_in_plugins_of_a_kind_share_a_name() -> None:
    names = Counter((row.kind, name) for row in BUILT_IN for name in {row.name, *row.aliases})
    assert not [name for name, count in names.items() if count > 1]


def test_listing_the_plugins_imports_neither_spark_nor_drivers() -> None:
    heavy = ["pyspark", "adbc_driver_sqlite", "adbc_driver_postgresql", "pymysql", "deltalake", "pyiceberg", "s3fs"]
    script = (
        "import sys; from moldau.connect.plugins import installed\n"
        "[(one.name, one.version) for one in installed().listed()]\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
