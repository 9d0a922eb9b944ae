from __future__ import annotations

import re
from pathlib import Path

from moldau.spark.sink_options import REFUSED, SINK_OPTIONS

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "spark-sink.md"


def test_the_documentation_has_every_option_and_no_other() -> None:
    documented = set(re.findall(r"^\| `([A-Za-z.]+)` \|", DOCUMENT.read_text(), re.MULTILINE))
    assert documented == set(SINK_OPTIONS) | {"kafka.bootstrap.servers", "checkpointLocation"}


def test_the_documentation_names_the_settings_that_are_refused() -> None:
    text = DOCUMENT.read_text()
    of_classes = {"interceptor.classes", "key.serializer", "value.serializer"}  # "serializers and interceptors"
    assert [name for name in REFUSED if name not in of_classes and f"`kafka.{name}`" not in text] == []
