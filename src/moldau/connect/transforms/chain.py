"""Chains of transforms: the transforms of one connector, with their predicates.

A transform with a predicate changes only the rows where it holds (with `negate`: where it does not). Rows stay in
their order. `RowError` names rows of the batch that the chain was called with, whatever rows were dropped before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.errors import MoldauError
from moldau.connect.built_in_plugins import Kind
from moldau.connect.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType
from moldau.connect.errors import RowError
from moldau.connect.plugins import installed
from moldau.connect.record_batch import ConnectBatch
from moldau.connect.transforms.base import Predicate, Transform
from moldau.connect.transforms.filter import Filter
from moldau.connect.transforms.rows import each_run, interleaved

_ROW: Final = "\0row"
"""A column of `origin` with the row numbers of the first batch, while the bad rows of a failed chain are looked for."""
_NAMES: Final = ConfigDef(
    [
        ConfigKey("transforms", ConfigType.LIST, "Names of the transforms, in their order.", []),
        ConfigKey("predicates", ConfigType.LIST, "Names of the predicates.", []),
    ]
)


@dataclass(frozen=True)
class TransformStep:
    """One transform of a chain, with the predicate that selects its rows."""

    name: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        """The changed rows among the others, in order."""
        if self.predicate is None:
            return self.transform.apply(batch)
        mask = self.predicate.test(batch)
        if self.negate:
            mask = pc.invert(mask)
        chosen = pc.sum(mask).as_py() or 0
        if chosen == 0:
            return [batch]
        if chosen == batch.num_rows:
            return self.transform.apply(batch)
        if isinstance(self.transform, Filter):
            return [batch.filter(pc.invert(mask))]
        changed = self._chosen(batch, mask)
        if len(changed) == 1 and changed[0].num_rows == chosen:
            return interleaved(changed[0], batch.filter(pc.invert(mask)), mask)
        return each_run(batch, mask, lambda part, which: self.transform.apply(part) if which else [part])

    def _chosen(self, batch: ConnectBatch, mask: pa.BooleanArray) -> list[ConnectBatch]:
        try:
            return self.transform.apply(batch.filter(mask))
        except RowError as error:
            numbers = pc.indices_nonzero(mask).to_pylist()
            raise RowError({numbers[row]: why for row, why in error.reasons.items()}, error.stage) from error


@dataclass(frozen=True)
class Chain:
    """The transforms of a connector, in their order."""

    steps: tuple[TransformStep, ...] = ()

    def apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        """The changed batches, in the order of the rows; empty where all were dropped. A bad row raises RowError."""
        try:
            return self._apply(batch)
        except RowError:
            # The rows of the error are those of a batch in the middle of the chain. Numbered rows tell which they were.
            self._apply(_numbered(batch))
            raise

    def _apply(self, batch: ConnectBatch) -> list[ConnectBatch]:
        batches = [batch]
        for step in self.steps:
            changed: list[ConnectBatch] = []
            for one in batches:
                if one.num_rows:
                    changed.extend(_applied(step, one))
            batches = changed
        return [one for one in batches if one.num_rows]


def _applied(step: TransformStep, batch: ConnectBatch) -> list[ConnectBatch]:
    try:
        return step.apply(batch)
    except RowError as error:
        if batch.origin is None or _ROW not in batch.origin.schema.names:
            raise
        numbers = batch.origin.column(_ROW).to_pylist()
        reasons = {numbers[row]: f"transform {step.name}: {why}" for row, why in error.reasons.items()}
        raise RowError(reasons, error.stage) from error


def _numbered(batch: ConnectBatch) -> ConnectBatch:
    numbers = pa.array(range(batch.num_rows), pa.int64())
    if batch.origin is None:
        return replace(batch, origin=pa.RecordBatch.from_arrays([numbers], [_ROW]))
    return replace(batch, origin=batch.origin.append_column(_ROW, numbers))


def chain(config: Mapping[str, Any]) -> Chain:
    """The chain of a connector's configuration; ConfigError names every mistake."""
    names = _NAMES.parse(config)
    problems: list[str] = []
    steps: list[TransformStep] = []
    for name in names["transforms"]:
        try:
            steps.append(_step(config, name, names["predicates"]))
        except MoldauError as error:
            problems.append(f"transform {name}: {error}")
    if len(set(names["transforms"])) < len(names["transforms"]):
        problems.append("transforms: a name is there twice")
    if problems:
        raise ConfigError("; ".join(problems))
    return Chain(tuple(steps))


def _step(config: Mapping[str, Any], name: str, predicates: list[str]) -> TransformStep:
    settings = _with_prefix(config, f"transforms.{name}.")
    transform: Transform = _created(settings, Kind.TRANSFORMATION, Transform, f"transforms.{name}.type")
    chosen = settings.get("predicate")
    negate = ConfigKey("negate", ConfigType.BOOLEAN, "", False).convert(settings.get("negate", False))
    if not chosen:
        if negate:
            raise ConfigError(f"there is no predicate to negate: set transforms.{name}.predicate")
        return TransformStep(name, transform)
    if chosen not in predicates:
        raise ConfigError(f"its predicate {chosen} is not in the setting predicates")
    own = _with_prefix(config, f"predicates.{chosen}.")
    return TransformStep(name, transform, _created(own, Kind.PREDICATE, Predicate, f"predicates.{chosen}.type"), negate)


def _with_prefix(config: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}


def _created(settings: Mapping[str, Any], kind: Kind, base: type[Any], setting: str) -> Any:
    class_name = settings.get("type")
    if not class_name:
        raise ConfigError(f'Missing required configuration "{setting}" which has no default value.')
    found = installed().load(class_name, kind)
    if not issubclass(found, base):
        raise ConfigError(f"{class_name} is no subclass of moldau.connect.transforms.{base.__name__}")
    return found(found.config_def.parse(settings))
