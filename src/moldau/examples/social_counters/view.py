"""Live view: the posts with the most likes, and those that trend."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from moldau.examples.results import Results
from moldau.examples.social_counters.generator import ACTIVITY
from moldau.examples.social_counters.pipeline import COUNTERS, TRENDING

ROWS = 8


def picture(results: Results) -> RenderableType:
    counters = Table("post", "likes", "comments", "people", title=f"most liked; {results.count(ACTIVITY):,} actions")
    liked = sorted(results.table(COUNTERS).items(), key=lambda item: -item[1]["likes"])
    for post, value in liked[:ROWS]:
        counters.add_row(post, *(str(value[name]) for name in ("likes", "comments", "people")))
    trending = Table("minute", "posts with the most actions", title="trending")
    for minute, value in sorted(results.table(TRENDING).items())[-ROWS:]:
        trending.add_row(minute, value["posts"])
    return Group(counters, trending)
