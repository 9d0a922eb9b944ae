"""Description of a connector's pipeline: what a task needs to create its converters and transforms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.connect.engine.run_settings import ConverterSpecs


@dataclass(frozen=True)
class PipelineSpec:
    """What a task needs to create its pipeline. Spark copies it."""

    connector: str
    config: Mapping[str, Any]
    """The connector's settings, of which the transforms read theirs."""
    converters: ConverterSpecs
