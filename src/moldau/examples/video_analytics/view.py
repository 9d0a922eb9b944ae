"""Live view: positions, the busiest viewers, recommendations, and minutes of the analytics store."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table

from moldau.examples.results import Results
from moldau.examples.video_analytics.pipeline import POSITIONS, PROFILES, RECOMMENDATIONS, STORE

ROWS = 8


def picture(results: Results) -> RenderableType:
    positions = Table("user/video", "resumes at", title="resume positions")
    for key, value in list(results.table(POSITIONS).items())[-ROWS:]:
        positions.add_row(key, f"{value['position_s']} s")
    profiles = Table("user", "watched", "videos", "likes", title="profiles")
    busiest = sorted(results.table(PROFILES).items(), key=lambda item: -item[1]["watched_s"])
    for user, value in busiest[:ROWS]:
        profiles.add_row(user, f"{value['watched_s']} s", str(value["videos"]), value["favourite"])
    recommended = Table("after", "watch", title="recommendations")
    for video, value in sorted(results.table(RECOMMENDATIONS).items())[:ROWS]:
        recommended.add_row(video, value["next"])
    store = Table("minute", "watched", title="analytics store (SQLite)")
    for name, seconds in list(dict(results.stored.get(STORE, {})).items())[-ROWS:]:
        store.add_row(name, f"{seconds} s")
    return Columns([positions, profiles, recommended, store])
