from __future__ import annotations

from typing import Any

import pytest

from moldau.client.errors import ConfigurationError
from moldau.spark import write_updates


def test_a_frame_of_spark_connect_is_refused_with_a_way_out() -> None:
    frame: Any = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(ConfigurationError, match="does not work with Spark Connect"):
        write_updates(frame, {"kafka.bootstrap.servers": "localhost:9092", "topic": "totals"})
