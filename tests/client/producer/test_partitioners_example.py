"""The example examples/partitioners.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tests.client.producer.support import PATIENCE_S

EXAMPLE = Path(__file__).parents[3] / "examples" / "partitioners.py"


@pytest.fixture
def example() -> ModuleType:
    spec = spec_from_file_location("partitioners_example", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_important_customers_have_a_partition_to_themselves(
    bootstrap: str, new_topic: Callable[..., str], example: ModuleType
) -> None:
    palace, baker, butcher, palace_again, cooper = example.send_orders(bootstrap, new_topic(partitions=4))
    assert palace.partition == palace_again.partition == 0
    assert all(1 <= other.partition <= 3 for other in (baker, butcher, cooper))


def test_a_topic_without_room_for_others_is_an_error_to_the_sender(
    bootstrap: str, topic: str, example: ModuleType
) -> None:
    with pytest.raises(ValueError, match="has 1 partitions, and 1 are for important keys alone"):
        example.send_orders(bootstrap, topic)


@pytest.mark.parametrize(("partitions", "expected"), [(4, [2, 0, 1, 2]), (2, [1, 0, 1, 1])])
def test_alerts_are_partitioned_by_level(
    bootstrap: str, new_topic: Callable[..., str], example: ModuleType, partitions: int, expected: list[int]
) -> None:
    sent = example.send_alerts(bootstrap, new_topic(partitions=partitions))
    assert [metadata.partition for metadata in sent] == expected


def test_the_example_runs(bootstrap: str) -> None:
    said = subprocess.run(
        [sys.executable, str(EXAMPLE), bootstrap], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert said.stdout.count("order: partition") == 5
    assert said.stdout.count("alert: partition") == 4
