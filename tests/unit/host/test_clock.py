"""Time and randomness."""

from __future__ import annotations

from moldau.host.clock import SeededRandomness, SystemClock, SystemRandomness, uuid4_bytes


def test_the_wall_clock_is_in_milliseconds_and_the_monotonic_one_does_not_run_backwards() -> None:
    clock = SystemClock()
    assert clock.now_ms() > 1_600_000_000_000
    assert clock.monotonic() <= clock.monotonic()


def test_a_random_id_is_a_version_4_uuid_that_never_looks_like_an_option() -> None:
    for sixteen in (bytes(16), b"\xff" * 16, SystemRandomness().uuid()):
        uuid = uuid4_bytes(sixteen)
        assert len(uuid) == 16
        assert uuid[6] >> 4 == 4
        assert uuid[8] >> 6 == 2
        assert uuid[0] < 0xF8


def test_two_random_ids_differ() -> None:
    randomness = SystemRandomness()
    assert randomness.uuid() != randomness.uuid()
    assert 0 <= randomness.random() < 1


def test_the_same_seed_makes_the_same_choices() -> None:
    one, two = SeededRandomness(7), SeededRandomness(7)
    assert [one.uuid(), one.random()] == [two.uuid(), two.random()]
    assert SeededRandomness(8).uuid() != SeededRandomness(7).uuid()
