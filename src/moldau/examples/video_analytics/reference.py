"""The results of the pipeline, computed in plain Python from the same records."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

from moldau.examples.study import Content, Read
from moldau.examples.video_analytics.generator import WATCHING
from moldau.examples.video_analytics.pipeline import POSITIONS, PROFILES, RECOMMENDATIONS, STORE


def expected(read: Read) -> dict[str, Content]:
    positions: dict[str, Any] = {}
    spent: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seen: defaultdict[str, set[str]] = defaultdict(set)
    viewing: Counter[str] = Counter()
    for record in read(WATCHING):
        one = record.value or {}
        positions[f"{one['user']}/{one['video']}"] = {"position_s": one["position_s"]}
        spent[one["user"]][one["category"]] += one["watched_s"]
        seen[one["user"]].add(one["video"])
        minute = datetime.fromtimestamp(record.at_ms / 1000, UTC)
        viewing[f"{minute:%H:%M} {one['category']}"] += one["watched_s"]
    profiles = {
        user: {
            "watched_s": times.total(),
            "videos": len(seen[user]),
            "favourite": max(times, key=lambda category: (times[category], category)),
        }
        for user, times in spent.items()
    }
    return {
        POSITIONS: positions,
        PROFILES: profiles,
        RECOMMENDATIONS: recommendations(seen.values()),
        STORE: dict(viewing),
    }


def recommendations(viewers: Any) -> dict[str, Any]:
    """`viewers`: the set of videos of each viewer."""
    together: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for videos in viewers:
        for video in videos:
            together[video].update(videos - {video})
    return {
        video: {"next": min(others, key=lambda other: (-others[other], other)), "pairs": others.total()}
        for video, others in together.items()
        if others
    }
