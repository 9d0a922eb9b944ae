"""Random bytes: the engine decodes or refuses them, and nothing else happens."""

import random
from collections.abc import Callable

import pytest

from moldau.records import BatchError, BatchRecord, Codec, check_batch, decode_batch, encode_batch, reseal, walk

SEEDS = [
    encode_batch(
        [BatchRecord(i, 1000 * i, b"key%d" % i, b"v" * i, (("h", b"x"), ("n", None))) for i in range(8)], codec=codec
    )
    for codec in Codec
]
EDGES = bytes([0, 1, 2, 3, 0x0F, 0x10, 0x7F, 0x80, 0xFE, 0xFF])


def spoil(batch: bytearray, chance: random.Random) -> bytearray:
    spoilt = bytearray(batch)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(21, len(spoilt))
        roll = chance.random()
        if roll < 0.5:
            spoilt[at] = chance.choice(EDGES)
        elif roll < 0.7:
            spoilt[at] = chance.randrange(256)
        elif roll < 0.85:
            spoilt[at:at] = chance.randbytes(chance.randint(1, 12))
        elif len(spoilt) > 80:
            del spoilt[at : at + chance.randint(1, 12)]
    if len(spoilt) < 61:
        spoilt += bytes(61 - len(spoilt))
    spoilt[8:12] = (len(spoilt) - 12).to_bytes(4, "big")
    reseal(spoilt, 0, len(spoilt))
    return spoilt


@pytest.mark.parametrize("allow", [False, True])
def test_damaged_batches_are_decoded_or_refused(count: Callable[[int, int], int], allow: bool) -> None:
    chance = random.Random(20_240_601 + allow)
    taken = refused = 0
    for _ in range(count(10_000, 1_000_000)):
        batch = spoil(chance.choice(SEEDS), chance)
        try:
            info = check_batch(batch, 0, allow_control=allow, allow_gaps=allow, max_decompressed=1 << 20)
        except BatchError:
            refused += 1
            continue
        taken += 1
        # Every reader can read a batch that a broker accepts.
        records = decode_batch(batch)
        columns = walk(batch)
        assert len(records) == len(columns) == info.count
        if records:
            assert min(one.timestamp for one in records) == info.min_record_timestamp
            assert max(one.timestamp for one in records) == info.max_record_timestamp
    assert taken
    assert refused > taken


def test_noise_is_refused(count: Callable[[int, int], int]) -> None:
    chance = random.Random(7)
    for _ in range(count(10_000, 1_000_000)):
        noise = bytearray(chance.randbytes(chance.randrange(200)))
        if len(noise) > 16:
            noise[16] = 2
        if len(noise) >= 61:
            noise[8:12] = (len(noise) - 12).to_bytes(4, "big")
            reseal(noise, 0, len(noise))
        with pytest.raises(BatchError):
            check_batch(noise, 0, allow_control=True, allow_gaps=True, max_decompressed=1 << 20)
