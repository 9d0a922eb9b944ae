"""Rules of single case studies: significance, matching, trending, co-viewing, as plain functions."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice, pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.examples.bank_alerts import generator as bank
from moldau.examples.bank_alerts import reference as bank_reference
from moldau.examples.campaign_comparison.significance import p_value, verdict
from moldau.examples.social_counters import generator as social
from moldau.examples.social_counters import reference as social_reference
from moldau.examples.social_counters.pipeline import first_posts
from moldau.examples.study import StudyRecord
from moldau.examples.taxi import generator as taxi
from moldau.examples.taxi import reference as taxi_reference
from moldau.examples.taxi.pipeline import match
from moldau.examples.video_analytics import reference as video_reference
from moldau.examples.video_analytics.pipeline import pairs_with_earlier

# -- Significance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "p"),
    [
        ((45, 100, 30, 100), 0.02846),
        ((30, 100, 45, 100), 0.02846),
        ((50, 1000, 50, 1000), 1.0),
        ((120, 1000, 100, 1000), 0.15295),
        ((1200, 10000, 1000, 10000), 6.19e-06),
    ],
)
def test_p_values_are_those_of_the_textbook(counts: tuple[int, int, int, int], p: float) -> None:
    assert p_value(*counts) == pytest.approx(p, rel=1e-3)


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (0, 0, 5, 10), (5, 10, 0, 0), (0, 10, 0, 20), (10, 10, 20, 20)])
def test_nothing_to_compare_is_no_difference(counts: tuple[int, int, int, int]) -> None:
    assert p_value(*counts) == 1.0
    assert verdict(*counts) == "no difference yet"


def test_a_verdict_names_the_better_one() -> None:
    assert verdict(45, 100, 30, 100) == "better"
    assert verdict(30, 100, 45, 100) == "worse"
    assert verdict(4, 10, 3, 10) == "no difference yet"


def test_equal_variants_are_called_different_in_one_of_twenty_cases() -> None:
    chance = random.Random(3)
    called = 0
    for _ in range(1000):
        first, second = (sum(chance.random() < 0.3 for _ in range(100)) for _ in range(2))
        called += verdict(first, 100, second, 100) != "no difference yet"
    assert 25 <= called <= 80


# -- Keyed state -------------------------------------------------------------------------------------------------------


def stepped(step: Callable[[dict[str, Any], Any], Iterable[dict[str, Any]]], rows: Iterable[Any]) -> list[Any]:
    """The results of a step for the rows of one key. Before each row the state is stored and loaded, as by Spark."""
    state: dict[str, Any] = {}
    found = []
    for row in rows:
        state = json.loads(json.dumps(state))
        found += list(step(state, row))
    return found


def test_matches_are_those_of_the_reference(seed: int) -> None:
    events = [record for record in islice(taxi.records(seed, 0, 10), 2000) if record.topic == taxi.EVENTS]
    for area in taxi.AREAS:
        mine = [record for record in events if record.key == area]
        rows = [SimpleNamespace(**{"driver": None, "ride": None, "key": area, **(one.value or {})}) for one in mine]
        found = stepped(match, rows)
        assert found
        assert found == taxi_reference.matches(mine)
        assert max(Counter(one["ride"] for one in found).values()) == 1


def test_a_rider_waits_for_a_driver_and_gets_the_nearest_one() -> None:
    def event(**fields: Any) -> SimpleNamespace:
        return SimpleNamespace(**{"key": "centre", "driver": None, "ride": None, **fields})

    first = event(kind="request", ride="r1", x=0, y=0)
    second = event(kind="request", ride="r2", x=9, y=0)
    near = event(kind="free", driver="d1", x=10, y=0)
    assert stepped(match, [first, second, near]) == [{"ride": "r1", "driver": "d1", "area": "centre", "metres": 10}]
    far = event(kind="free", driver="d2", x=0, y=0)
    again = event(kind="free", driver="d1", x=100, y=100)  # the driver has moved
    assert [one["driver"] for one in stepped(match, [near, far, second])] == ["d1"]
    assert [one["driver"] for one in stepped(match, [near, far, again, second])] == ["d2"]
    assert stepped(match, [near, again]) == []


def test_a_fare_grows_with_distance_and_surge() -> None:
    def path(*places: tuple[int, int], surge: int = 100) -> list[dict[str, Any]]:
        return [{"x": x, "y": y, "surge_percent": surge, "last": True} for x, y in places]

    assert taxi_reference.fare(path((0, 0), (0, 1000), (500, 1000)))["metres"] == 1500
    assert taxi_reference.fare(path((0, 0)))["cents"] == 250
    assert taxi_reference.fare(path((0, 0), (1000, 0)))["cents"] == 430
    assert taxi_reference.fare(path((0, 0), (1000, 0), surge=150))["cents"] == 645


@pytest.mark.parametrize(
    ("requests", "free", "price"), [(0, 0, 100), (1, 1, 100), (3, 2, 150), (9, 1, 300), (5, 0, 300)]
)
def test_prices_have_bounds(requests: int, free: int, price: int) -> None:
    assert taxi.surge_percent(requests, free) == price


def test_the_trending_posts_are_those_of_the_final_counts(seed: int) -> None:
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    rows = []
    for _ in range(200):
        post = f"post-{chance.randint(1, 12)}"
        counts[post] += chance.randint(1, 5)
        rows.append(SimpleNamespace(key="12:00", post=post, actions=counts[post]))
    written = stepped(first_posts, rows)
    assert written[-1] == {"minute": "12:00", **social_reference.first(counts)}
    assert all(before != after for before, after in pairwise(written))


def test_each_pair_of_videos_is_written_once_per_viewer(seed: int) -> None:
    chance = random.Random(seed)
    viewers = [[f"video-{chance.randint(1, 6)}" for _ in range(20)] for _ in range(10)]
    pairs = [
        pair for videos in viewers for pair in stepped(pairs_with_earlier, [SimpleNamespace(video=v) for v in videos])
    ]
    expected = video_reference.recommendations([set(videos) for videos in viewers])
    assert Counter(pair["video"] for pair in pairs) == {video: one["pairs"] for video, one in expected.items()}
    assert all(pair["video"] != pair["other"] for pair in pairs)


# -- Data --------------------------------------------------------------------------------------------------------------


def test_a_launch_is_a_burst() -> None:
    records = islice(social.records(1, 0, 100), 6000)
    seconds = Counter(record.at_ms // 1000 for record in records)
    assert 80 <= seconds[5] <= 120
    assert 400 <= seconds[22] <= 600


def test_thresholds_change_while_transactions_flow_and_some_are_removed() -> None:
    records = list(islice(bank.records(1, 0, 100), 5000))
    changes = [record for record in records if record.topic == bank.THRESHOLDS][bank.ACCOUNTS :]
    assert len(changes) > 200
    assert any(record.value is None for record in changes)
    for account in {record.key for record in changes}:
        times = [record.at_ms for record in records if record.topic == bank.THRESHOLDS and record.key == account]
        assert times == sorted(set(times)), "two thresholds of one time would be ambiguous"


def test_an_alert_needs_a_threshold_that_was_valid_at_the_time() -> None:
    def threshold(cents: int | None, at_ms: int) -> StudyRecord:
        return StudyRecord(bank.THRESHOLDS, "a", None if cents is None else {"cents": cents}, at_ms)

    def transaction(number: int, cents: int, at_ms: int) -> StudyRecord:
        value = {"id": number, "account": "a", "cents": cents, "at": at_ms}
        return StudyRecord(bank.TRANSACTIONS, "a", value, 0)

    topics = {
        bank.THRESHOLDS: [threshold(100, 10), threshold(50, 20), threshold(None, 30)],
        bank.TRANSACTIONS: [
            transaction(1, 1000, 9),  # before the first threshold
            transaction(2, 100, 10),  # not above it
            transaction(3, 101, 19),
            transaction(4, 51, 20),
            transaction(5, 1000, 30),  # no more alerts
        ],
    }
    alerts = bank_reference.expected(topics.__getitem__)["bank.alerts"]
    assert [(alert["id"], alert["threshold"]) for alert in alerts] == [(3, 100), (4, 50)]
