"""Fields of generated rows: a short notation, and columns that depend only on seed, generator and row number.

Notation: `name:kind(arguments)`, separated by semicolons. A name with dots is a field of a struct.

| kind | value |
|---|---|
| `sequence(start, step)` | int64: 0, 1, 2 …; generator n of several begins n * 10^12 steps later |
| `int(low, high)`, `long(low, high)`, `double(low, high)` | a number of this range; `high` is in it if it is whole |
| `boolean(probability)` | true with this probability |
| `choice(a, b, …)` | one of these texts |
| `label(prefix, low, high)` | a text such as `User_7` |
| `words(count)`, `payload(size)` | a text of so many words; a text of so many characters |
| `ip` | a text such as `10.1.2.3` |
| `timestamp(start, step)` | Timestamp: milliseconds since 1970, and milliseconds per row |

The pseudo-random numbers are a hash (splitmix64) of the row number, so that any range of rows can be generated again.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_MASK: Final = 2**64 - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
GENERATOR_STRIDE: Final = 10**12
"""Distance between the sequences of two generators: more rows than one generates in its life."""

_FIELD: Final = re.compile(r"\s*([^:()]+?)\s*:\s*([a-z]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_WORDS: Final = (
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbor", "inlet", "juniper", "kelp", "lagoon",
    "meadow", "north", "orchard", "prairie", "quarry", "river", "spring", "tundra", "upland", "valley", "willow",
)  # fmt: skip


@dataclass(frozen=True)
class RowRange:
    """Rows of one generator, by number, the last one excluded."""

    generator: int
    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first


Make = Callable[["RowRange", pa.Array, int], pa.Array]
"""Called with the rows, their numbers (uint64), and the field's own seed."""


@dataclass(frozen=True)
class GeneratedField:
    """One field of the generated rows."""

    name: str
    kind: str
    arguments: tuple[str, ...] = ()

    def column(self, rows: RowRange, numbers: pa.Array, seed: int) -> pa.Array:
        own = zlib.crc32(self.name.encode()) ^ (seed & _MASK) ^ (rows.generator << 40)
        return _KINDS[self.kind](self.arguments)(rows, numbers, own)


def parse_fields(text: str) -> tuple[GeneratedField, ...]:
    """The fields of a notation. ValueError says which one is wrong, and why."""
    fields = []
    for part in filter(str.strip, text.split(";")):
        match = _FIELD.fullmatch(part)
        if match is None:
            raise ValueError(f"{part.strip()!r} is not of the form name:kind(arguments)")
        name, kind, inside = match.groups()
        arguments = tuple(one.strip() for one in inside.split(",")) if inside else ()
        field = GeneratedField(name, kind, arguments)
        _check(field)
        fields.append(field)
    if not fields:
        raise ValueError("there is no field")
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1 or any(other.startswith(name + ".") for other in names):
            raise ValueError(f"field {name} is there twice")
    return tuple(fields)


def _check(field: GeneratedField) -> None:
    if field.kind not in _KINDS:
        raise ValueError(f"field {field.name} has the unknown kind {field.kind}; kinds are {', '.join(_KINDS)}")
    try:
        rows = RowRange(0, 0, 2)
        field.column(rows, row_numbers(rows), 0)
    except (ValueError, IndexError, TypeError, OverflowError, pa.ArrowException) as error:
        raise ValueError(f"field {field.name}: {field.kind}({', '.join(field.arguments)}): {error}") from error


def row_numbers(rows: RowRange) -> pa.Array:
    return pa.array(range(rows.first, rows.last), pa.uint64())


def struct_of(fields: Sequence[GeneratedField], rows: RowRange, seed: int) -> pa.StructArray:
    """The generated rows as one struct array; no value is null."""
    numbers = row_numbers(rows)
    columns = {field.name: field.column(rows, numbers, seed) for field in fields}
    return _nested(columns)


def _nested(columns: Mapping[str, pa.Array]) -> pa.StructArray:
    """A struct array in which names with dots have become structs, in the order of their first field."""
    grouped: dict[str, pa.Array | dict[str, pa.Array]] = {}
    for name, column in columns.items():
        first, dot, rest = name.partition(".")
        if not dot:
            grouped[first] = column
        else:
            group = grouped.setdefault(first, {})
            assert isinstance(group, dict)
            group[rest] = column
    arrays = [_nested(one) if isinstance(one, dict) else one for one in grouped.values()]
    names = [pa.field(name, array.type, nullable=False) for name, array in zip(grouped, arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=names)


# -- pseudo-random numbers ---------------------------------------------------------------------------------------------


def hashed(numbers: pa.Array, seed: int) -> pa.Array:
    """A hash of each row number, uniform over all 64-bit numbers."""
    mixed = pc.add(pc.multiply(numbers, pa.scalar(_GOLDEN, pa.uint64())), pa.scalar(_scrambled(seed), pa.uint64()))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = pc.multiply(_xor_shifted(mixed, shift), pa.scalar(factor, pa.uint64()))
    return _xor_shifted(mixed, 31)


def _xor_shifted(array: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(array, pc.shift_right(array, pa.scalar(bits, pa.uint64())))


def _scrambled(seed: int) -> int:
    """The seed with all bits mixed: neighbouring seeds must not give neighbouring sequences of rows."""
    value = (seed * 0xD6E8FEB86659FD93 + _GOLDEN) & _MASK
    return ((value ^ (value >> 32)) * 0xD6E8FEB86659FD93) & _MASK


def _below(numbers: pa.Array, seed: int, limit: int) -> pa.Array:
    """Whole numbers from 0 to `limit` - 1, as int64."""
    if limit < 1:
        raise ValueError("the first number is greater than the last")
    hashes = hashed(numbers, seed)
    divisor = pa.scalar(limit, pa.uint64())
    return pc.subtract(hashes, pc.multiply(pc.divide(hashes, divisor), divisor)).cast(pa.int64())


def _fraction(numbers: pa.Array, seed: int) -> pa.Array:
    """Numbers from 0 to 1, 1 excluded."""
    return pc.multiply(
        pc.shift_right(hashed(numbers, seed), pa.scalar(11, pa.uint64())).cast(pa.float64()), pa.scalar(2.0**-53)
    )


# -- kinds -------------------------------------------------------------------------------------------------------------


def _sequence(arguments: Sequence[str]) -> Make:
    start, step = int(arguments[0]) if arguments else 0, int(arguments[1]) if len(arguments) > 1 else 1

    def make(rows: RowRange, numbers: pa.Array, seed: int) -> pa.Array:
        first = start + step * rows.generator * GENERATOR_STRIDE
        return pc.add(pc.multiply(numbers.cast(pa.int64()), pa.scalar(step, pa.int64())), pa.scalar(first, pa.int64()))

    return make


def _whole(kind: pa.DataType) -> Callable[[Sequence[str]], Make]:
    def kind_of(arguments: Sequence[str]) -> Make:
        low, high = int(arguments[0]), int(arguments[1])

        def make(rows: RowRange, numbers: pa.Array, seed: int) -> pa.Array:
            return pc.add(_below(numbers, seed, high - low + 1), pa.scalar(low, pa.int64())).cast(kind)

        pa.scalar(high, kind)
        return make

    return kind_of


def _double(arguments: Sequence[str]) -> Make:
    low, high = float(arguments[0]), float(arguments[1])

    def make(rows: RowRange, numbers: pa.Array, seed: int) -> pa.Array:
        return pc.add(pc.multiply(_fraction(numbers, seed), pa.scalar(high - low)), pa.scalar(low))

    return make


def _boolean(arguments: Sequence[str]) -> Make:
    probability = float(arguments[0]) if arguments else 0.5
    return lambda rows, numbers, seed: pc.less(_fraction(numbers, seed), pa.scalar(probability))


def _choice(arguments: Sequence[str]) -> Make:
    if not arguments:
        raise ValueError("there is nothing to choose from")
    texts = pa.array(arguments, pa.string())
    return lambda rows, numbers, seed: texts.take(_below(numbers, seed, len(texts)))


def _label(arguments: Sequence[str]) -> Make:
    prefix, low, high = arguments[0], int(arguments[1]), int(arguments[2])

    def make(rows: RowRange, numbers: pa.Array, seed: int) -> pa.Array:
        number = pc.add(_below(numbers, seed, high - low + 1), pa.scalar(low, pa.int64()))
        return pc.binary_join_element_wise(pa.scalar(prefix), number.cast(pa.string()), "")

    return make


def _words(arguments: Sequence[str]) -> Make:
    count = int(arguments[0])
    if count < 1:
        raise ValueError("a text has at least one word")
    words = pa.array(_WORDS, pa.string())

    def make(rows: RowRange, numbers: pa.Array, seed: int) -> pa.Array:
        chosen = [words.take(_below(numbers, seed + one, len(words))) for one in range(count)]
        return pc.binary_join_element_wise(*chosen, " ")

    return make


def _payload(arguments: Sequence[str]) -> Make:
    size = int(arguments[0])

    def make(rows: RowRange, numbers: pa.Array, seed: int) -> pa.Array:
        parts = [hashed(numbers, seed + one).cast(pa.string()) for one in range(size // 16 + 1)]
        padded = pc.utf8_rpad(pc.binary_join_element_wise(*parts, ""), size, ".")
        return pc.utf8_slice_codeunits(padded, 0, size)

    return make


def _ip(arguments: Sequence[str]) -> Make:
    def make(rows: RowRange, numbers: pa.Array, seed: int) -> pa.Array:
        parts = [_below(numbers, seed + one, 254).cast(pa.string()) for one in range(3)]
        return pc.binary_join_element_wise(pa.scalar("10"), *parts, ".")

    return make


def _timestamp(arguments: Sequence[str]) -> Make:
    sequence = _sequence((arguments[0], arguments[1] if len(arguments) > 1 else "1000"))

    def make(rows: RowRange, numbers: pa.Array, seed: int) -> pa.Array:
        own_time = RowRange(0, rows.first, rows.last)
        return sequence(own_time, numbers, seed).cast(pa.timestamp("ms", tz="UTC"))

    return make


_KINDS: Final[Mapping[str, Callable[[Sequence[str]], Make]]] = {
    "sequence": _sequence,
    "int": _whole(pa.int32()),
    "long": _whole(pa.int64()),
    "double": _double,
    "boolean": _boolean,
    "choice": _choice,
    "label": _label,
    "words": _words,
    "payload": _payload,
    "ip": _ip,
    "timestamp": _timestamp,
}
