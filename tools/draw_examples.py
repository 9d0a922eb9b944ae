"""Pictures of the case studies: picture.svg of each study, drawn from columns of boxes and from arrows.

    python tools/draw_examples.py            # draw
    python tools/draw_examples.py --check    # fail if a picture is not current

A box has a name, a kind, and a line below the name. A program sends or shows data, a topic or a store keeps it, and a
query is one of Spark.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

EXAMPLES = Path(__file__).resolve().parents[1] / "src" / "moldau" / "examples"

COLOURS = {"program": "#e8e8e8", "topic": "#cfe3f7", "query": "#fbe3c0", "store": "#d5ecd4"}
WIDTH, HEIGHT = 190, 54
GAP_X, GAP_Y = 60, 22
MARGIN = 16


class Box(NamedTuple):
    """One box of a picture."""

    name: str
    kind: str
    says: str = ""


class Picture(NamedTuple):
    """Boxes by column, and arrows from name to name."""

    columns: list[list[Box]]
    arrows: list[tuple[str, str]]


PICTURES = {
    "video_analytics": Picture(
        [
            [Box("viewers", "program")],
            [Box("video.watching", "topic", "key: user")],
            [
                Box("positions", "query", "latest of user and video"),
                Box("profiles", "query", "aggregate per user"),
                Box("pairs", "query", "keyed state per user"),
                Box("viewing", "query", "windows of a minute"),
            ],
            [
                Box("video.positions", "topic", "compacted"),
                Box("video.profiles", "topic", "compacted"),
                Box("video.pairs", "topic"),
                Box("viewing.sqlite", "store", "for analysts"),
            ],
            [Box("recommendations", "query", "most frequent pair")],
            [Box("video.recommendations", "topic", "compacted")],
        ],
        [
            ("viewers", "video.watching"),
            ("video.watching", "positions"),
            ("video.watching", "profiles"),
            ("video.watching", "pairs"),
            ("video.watching", "viewing"),
            ("positions", "video.positions"),
            ("profiles", "video.profiles"),
            ("pairs", "video.pairs"),
            ("viewing", "viewing.sqlite"),
            ("video.pairs", "recommendations"),
            ("recommendations", "video.recommendations"),
        ],
    ),
    "taxi": Picture(
        [
            [Box("drivers and riders", "program"), Box("taximeters", "program")],
            [Box("taxi.events", "topic", "key: area"), Box("taxi.positions", "topic", "key: ride")],
            [
                Box("matches", "query", "keyed state per area"),
                Box("prices", "query", "windows of a minute"),
                Box("fares", "query", "SQL over all positions"),
            ],
            [Box("taxi.matches", "topic"), Box("taxi.prices", "topic", "compacted"), Box("taxi.fares", "topic")],
        ],
        [
            ("drivers and riders", "taxi.events"),
            ("taximeters", "taxi.positions"),
            ("taxi.events", "matches"),
            ("taxi.events", "prices"),
            ("taxi.positions", "fares"),
            ("matches", "taxi.matches"),
            ("prices", "taxi.prices"),
            ("fares", "taxi.fares"),
        ],
    ),
    "campaign_comparison": Picture(
        [
            [Box("visitors", "program", "some records twice")],
            [Box("campaign.visits", "topic")],
            [Box("counts", "query", "each visitor once")],
            [Box("comparison", "query", "z test against A")],
            [Box("campaign.results", "topic", "compacted")],
        ],
        [
            ("visitors", "campaign.visits"),
            ("campaign.visits", "counts"),
            ("counts", "comparison"),
            ("comparison", "campaign.results"),
        ],
    ),
    "social_counters": Picture(
        [
            [Box("people", "program", "with bursts")],
            [Box("social.activity", "topic", "key: post")],
            [Box("counters", "query", "SQL"), Box("actions", "query", "per post and minute")],
            [Box("social.counters", "topic", "compacted"), Box("social.actions", "topic", "key: minute")],
            [Box("trending", "query", "keyed state per minute")],
            [Box("social.trending", "topic", "compacted")],
        ],
        [
            ("people", "social.activity"),
            ("social.activity", "counters"),
            ("social.activity", "actions"),
            ("counters", "social.counters"),
            ("actions", "social.actions"),
            ("social.actions", "trending"),
            ("trending", "social.trending"),
        ],
    ),
    "bank_alerts": Picture(
        [
            [Box("application", "program", "inserts transactions"), Box("users", "program", "set thresholds")],
            [Box("bank.sqlite", "store", "table transactions")],
            [Box("Connect", "program", "JdbcSource")],
            [Box("bank.transactions", "topic"), Box("bank.thresholds", "topic", "compacted")],
            [Box("alerts", "query", "SQL: join by time")],
            [Box("bank.alerts", "topic")],
        ],
        [
            ("application", "bank.sqlite"),
            ("bank.sqlite", "Connect"),
            ("Connect", "bank.transactions"),
            ("users", "bank.thresholds"),
            ("bank.transactions", "alerts"),
            ("bank.thresholds", "alerts"),
            ("alerts", "bank.alerts"),
        ],
    ),
    "lake_ingestion": Picture(
        [
            [Box("shops", "program", "orders, some late")],
            [Box("lake.orders", "topic")],
            [Box("lake", "query", "each batch once"), Box("recent counts", "query", "by window and shop")],
            [Box("Delta table", "store", "all orders"), Box("lake.recent-counts", "topic", "compacted")],
            [Box("batch layer", "program", "counts old windows"), Box("speed layer", "program", "recent windows")],
            [Box("sum by shop", "program", "exact")],
        ],
        [
            ("shops", "lake.orders"),
            ("lake.orders", "lake"),
            ("lake.orders", "recent counts"),
            ("lake", "Delta table"),
            ("recent counts", "lake.recent-counts"),
            ("Delta table", "batch layer"),
            ("lake.recent-counts", "speed layer"),
            ("batch layer", "sum by shop"),
            ("speed layer", "sum by shop"),
        ],
    ),
    "sensor_health": Picture(
        [
            [Box("gateway", "program", "callback per alert")],
            [
                Box("sensors.alerts", "topic", "partition 0: critical"),
                Box("sensors.readings", "topic"),
            ],
            [Box("pager", "program", "reads partition 0"), Box("statuses", "query", "state and timers")],
            [Box("sensors.history", "topic", "every change"), Box("sensors.statuses", "topic", "compacted")],
        ],
        [
            ("gateway", "sensors.alerts"),
            ("gateway", "sensors.readings"),
            ("sensors.alerts", "pager"),
            ("sensors.readings", "statuses"),
            ("statuses", "sensors.history"),
            ("statuses", "sensors.statuses"),
        ],
    ),
    "web_activity": Picture(
        [
            [Box("browsers", "program", "page views"), Box("web servers", "program", "write log files")],
            [Box("web.page-views", "topic"), Box("log collector", "program", "lines and positions")],
            [Box("sessions", "query", "session windows"), Box("page counts", "query"), Box("web.host-logs", "topic")],
            [Box("web.sessions", "topic"), Box("web.page-counts", "topic", "compacted"), Box("host errors", "query")],
            [Box("web.host-errors", "topic", "compacted")],
        ],
        [
            ("browsers", "web.page-views"),
            ("web servers", "log collector"),
            ("web.page-views", "sessions"),
            ("web.page-views", "page counts"),
            ("log collector", "web.host-logs"),
            ("sessions", "web.sessions"),
            ("page counts", "web.page-counts"),
            ("web.host-logs", "host errors"),
            ("host errors", "web.host-errors"),
        ],
    ),
    "customer_360": Picture(
        [
            [Box("bank", "program", "three systems")],
            [
                Box("customers.people", "topic", "latest counts"),
                Box("customers.cards", "topic", "latest counts"),
                Box("customers.payments", "topic", "all count"),
            ],
            [Box("views", "query", "state per customer")],
            [Box("customers.views", "topic", "compacted")],
        ],
        [
            ("bank", "customers.people"),
            ("bank", "customers.cards"),
            ("bank", "customers.payments"),
            ("customers.people", "views"),
            ("customers.cards", "views"),
            ("customers.payments", "views"),
            ("views", "customers.views"),
        ],
    ),
    "database_rebuild": Picture(
        [
            [Box("application", "program", "one transaction each")],
            [Box("shop.sqlite", "store", "tables and outbox")],
            [Box("shop.changes", "topic", "one partition")],
            [Box("replica", "query", "whole transactions"), Box("rebuild", "query", "up to a time or offset")],
            [Box("replica.sqlite", "store", "as of now"), Box("a new file", "store", "as of then")],
        ],
        [
            ("application", "shop.sqlite"),
            ("shop.sqlite", "shop.changes"),
            ("shop.changes", "replica"),
            ("shop.changes", "rebuild"),
            ("replica", "replica.sqlite"),
            ("rebuild", "a new file"),
        ],
    ),
}


def svg(picture: Picture) -> str:
    """The picture. A column is centred vertically."""
    rows = max(len(column) for column in picture.columns)
    width = 2 * MARGIN + len(picture.columns) * (WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + rows * (HEIGHT + GAP_Y) - GAP_Y
    corners = {
        box.name: (
            MARGIN + place * (WIDTH + GAP_X),
            (height - len(column) * (HEIGHT + GAP_Y) + GAP_Y) // 2 + row * (HEIGHT + GAP_Y),
        )
        for place, column in enumerate(picture.columns)
        for row, box in enumerate(column)
    }
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            'font-family="sans-serif" text-anchor="middle">'
        ),
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>'
        ),
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    parts += [_arrow(corners[start], corners[end]) for start, end in picture.arrows]
    parts += [_box(box, corners[box.name]) for column in picture.columns for box in column]
    return "\n".join([*parts, "</svg>", ""])


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + WIDTH, start[1] + HEIGHT // 2
    x2, y2 = end[0] - 2, end[1] + HEIGHT // 2
    middle = (x1 + x2) // 2
    return (
        f'<path d="M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}" '
        'fill="none" stroke="#555" stroke-width="1.5" marker-end="url(#tip)"/>'
    )


def _box(box: Box, corner: tuple[int, int]) -> str:
    x, y = corner
    middle = x + WIDTH // 2
    radius = {"topic": HEIGHT // 2, "query": 8}.get(box.kind, 2)
    lines = [
        (
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{radius}" '
            f'fill="{COLOURS[box.kind]}" stroke="#555"/>'
        ),
        f'<text x="{middle}" y="{y + (23 if box.says else 32)}" font-size="15">{escape(box.name)}</text>',
    ]
    if box.says:
        lines.append(f'<text x="{middle}" y="{y + 42}" font-size="12" fill="#444">{escape(box.says)}</text>')
    return "\n".join(lines)


def main(check: bool) -> int:
    stale = []
    for name, picture in PICTURES.items():
        path = EXAMPLES / name / "picture.svg"
        if path.exists() and path.read_text(encoding="utf-8") == svg(picture):
            continue
        stale.append(name)
        if not check:
            path.write_text(svg(picture), encoding="utf-8")
    if check and stale:
        print(f"not current: the pictures of {', '.join(stale)}; run tools/draw_examples.py")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
