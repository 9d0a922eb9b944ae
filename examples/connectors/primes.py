"""A source connector of one's own: prime numbers, as an example of a source that can read any part again.

In a package of your own, an entry point makes it known to `moldau connect`:

    [project.entry-points."moldau.connectors"]
    Primes = "primes:Primes"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, between
from moldau.connect.connector import Slice, SourceConnector, SourceOffsets
from moldau.connect.record_batch import ConnectBatch, ValueColumn, source_batch
from moldau.connect.schemas import schema_of

RANGE = {"range": "all"}  # the only source partition
STEP = 1_000  # numbers that one slice looks at


class Primes(SourceConnector):
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey("topic", ConfigType.STRING, "The topic to write to."),
            ConfigKey("below", ConfigType.INT, "Look at numbers below this one.", 10_000, validator=between(2)),
        ]
    )

    def slices(self, offsets: SourceOffsets) -> list[Slice]:
        stored = offsets[RANGE]
        first = stored["next"] if stored else 2
        last = min(first + STEP, self.config["below"])
        return [Slice(RANGE, end={"next": last}, detail=(first, last))] if first < last else []

    def read(self, part: Slice) -> Iterator[ConnectBatch]:
        numbers = [n for n in range(*part.detail) if all(n % d for d in range(2, int(n**0.5) + 1))]
        rows = pa.array([{"prime": n} for n in numbers], pa.struct([("prime", pa.int64())]))
        yield source_batch(self.config["topic"], ValueColumn(rows, schema_of(rows.type)))
