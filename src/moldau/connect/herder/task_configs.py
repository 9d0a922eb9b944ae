"""Configurations of tasks in the config topic, such that Kafka Connect can start the tasks. No I/O.

Here a connector with all its tasks is one unit, and the engine divides the work of each micro-batch. The config topic
has one configuration per task nevertheless: Kafka Connect's users ask for them, and a worker of Kafka Connect that
takes over the topic starts from them until the connector has made its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TASK_CLASS: Final = "task.class"


def task_class(connector_class: str) -> str:
    """The name of the task's class, by the habit of Kafka Connect's connectors."""
    return connector_class.removesuffix("Connector") + "Task"


def task_configs(config: Mapping[str, str], connector_class: str, count: int) -> list[dict[str, str]]:
    """The configurations of all tasks. `connector_class` is the full class name."""
    one = {**config, TASK_CLASS: task_class(connector_class)}
    return [dict(one) for _ in range(count)]
