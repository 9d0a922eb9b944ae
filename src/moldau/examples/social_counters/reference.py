"""The results of the pipeline, computed in plain Python from the same records."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime

from moldau.examples.social_counters.generator import ACTIVITY
from moldau.examples.social_counters.pipeline import COUNTERS, TOP, TRENDING
from moldau.examples.study import Content, Read


def expected(read: Read) -> dict[str, Content]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    people: defaultdict[str, set[str]] = defaultdict(set)
    minutes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for record in read(ACTIVITY):
        one = record.value or {}
        counts[record.key][one["action"]] += 1
        people[record.key].add(one["person"])
        minutes[f"{datetime.fromtimestamp(record.at_ms / 1000, UTC):%H:%M}"][record.key] += 1
    counters = {
        post: {
            "likes": actions["like"] - actions["unlike"],
            "comments": actions["comment"],
            "people": len(people[post]),
        }
        for post, actions in counts.items()
    }
    return {COUNTERS: counters, TRENDING: {minute: first(posts) for minute, posts in minutes.items()}}


def first(actions: Counter[str]) -> dict[str, str]:
    ordered = sorted(actions.items(), key=lambda item: (-item[1], item[0]))
    return {"posts": ", ".join(f"{post}: {count}" for post, count in ordered[:TOP])}
