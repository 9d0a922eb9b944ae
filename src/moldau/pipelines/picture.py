"""Picture of a pipeline's graph as SVG: layers from left to right, rates on the edges, for light and dark pages.

The input is the status as JSON, so that `moldau pipeline graph` can draw the last run. A node's layer is the longest
way to it from a source. Within a layer, nodes are ordered by the mean place of their neighbours, which avoids most
crossings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape

from moldau.pipelines.graph import EXTERNAL, MATERIALIZED_VIEW, SINK, TABLE, TOPIC, VIEW

BOX_WIDTH: Final = 190
BOX_HEIGHT: Final = 62
GAP_X: Final = 120
GAP_Y: Final = 34
MARGIN: Final = 24
TITLE: Final = 40
MAX_LABEL: Final = 24
SWEEPS: Final = 4
"""Passes over the layers, forwards and backwards by turns."""

FONT: Final = "system-ui, Helvetica, Arial, sans-serif"
ARROW: Final = (
    '<defs><marker id="h" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
    '<path class="h" d="M0 0L9 4L0 8z"/></marker></defs>'
)

CLASSES: Final = {TOPIC: "topic", TABLE: "table", MATERIALIZED_VIEW: "mv", VIEW: "view", SINK: "sink", EXTERNAL: "view"}

STYLE: Final = """
.bg{fill:#fff}.t{fill:#16283c;font-weight:600}.s{fill:#51687f;font-size:11.5px}.h{fill:#7a8fa6}.x{fill:#c53030}
.e{stroke:#7a8fa6;stroke-width:1.6;fill:none}
.r{fill:#16283c;font-size:11.5px;paint-order:stroke;stroke:#fff;stroke-width:4px}
rect{stroke-width:1.5}.topic{fill:#fdf3dc;stroke:#b58900}.table{fill:#e8f1fa;stroke:#2b6cb0}
.mv{fill:#e6f6ee;stroke:#2f855a}.view{fill:#f4f4f6;stroke:#8a94a3;stroke-dasharray:5 3}
.sink{fill:#f3e9fb;stroke:#805ad5}.bad{stroke:#c53030;stroke-width:3}
@media (prefers-color-scheme:dark){
.bg{fill:#11181f}.t,.r{fill:#e6edf3}.s{fill:#9fb0c0}.r{stroke:#11181f}.e{stroke:#6b7f94}.h{fill:#6b7f94}
.topic{fill:#3a2f10;stroke:#d6a41d}.table{fill:#13293f;stroke:#63a4e6}.mv{fill:#12301f;stroke:#5fc08c}
.view{fill:#20262d;stroke:#8a94a3}.sink{fill:#2b1d3d;stroke:#b794f4}.x{fill:#fc8181}}
"""


@dataclass(frozen=True)
class BoxCorner:
    x: float
    y: float


def draw(status: Mapping[str, Any]) -> str:
    """The picture of a status (`RunStatus.to_json`)."""
    nodes = {node["id"]: node for node in status["graph"]["nodes"]}
    edges = [(source, target) for source, target in status["graph"]["edges"]]
    places = layout(list(nodes), edges)
    width = max((place.x for place in places.values()), default=0) + BOX_WIDTH + MARGIN
    height = max((place.y for place in places.values()), default=0) + BOX_HEIGHT + MARGIN
    rates = {(one["from"], one["to"]): one for one in status["edges"]}
    datasets = {one["name"]: one for one in status["datasets"]}
    title = f"{status['pipeline']}: {status['state']}"
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" font-size="13.5" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        ARROW,
        f'<rect class="bg" width="{width:g}" height="{height:g}" stroke="none"/>',
        f'<text class="t" x="{MARGIN}" y="26">{escape(title)}</text>',
    ]
    parts += [_edge(places[source], places[target], rates.get((source, target))) for source, target in edges]
    parts += [_box(places[name], node, datasets.get(name)) for name, node in nodes.items()]
    return "\n".join([*parts, "</svg>"]) + "\n"


def layout(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, BoxCorner]:
    """The upper left corner of each node."""
    layers = _layers(nodes, edges)
    tallest = max((len(layer) for layer in layers), default=0)
    found = {}
    for number, layer in enumerate(layers):
        offset = (tallest - len(layer)) * (BOX_HEIGHT + GAP_Y) / 2
        for row, name in enumerate(layer):
            x, y = MARGIN + number * (BOX_WIDTH + GAP_X), TITLE + offset + row * (BOX_HEIGHT + GAP_Y)
            found[name] = BoxCorner(x, y)
    return found


def _layers(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:  # as often as the longest way can be; a cycle, which Spark refuses, ends here as well
        changed = False
        for source, target in edges:
            if depth[target] < depth[source] + 1 < len(depth):
                depth[target], changed = depth[source] + 1, True
        if not changed:
            break
    layers = [[name for name in nodes if depth[name] == level] for level in range(max(depth.values(), default=-1) + 1)]
    for sweep in range(SWEEPS):
        forwards = sweep % 2 == 0
        pairs = edges if forwards else [(target, source) for source, target in edges]
        for level in range(len(layers)) if forwards else reversed(range(len(layers))):
            rows = {name: row for layer in layers for row, name in enumerate(layer)}
            layers[level].sort(key=lambda name, rows=rows, pairs=pairs: _mean(name, rows, pairs))  # type: ignore[misc]
    return [layer for layer in layers if layer]


def _mean(name: str, rows: Mapping[str, int], pairs: Sequence[tuple[str, str]]) -> float:
    neighbours = [rows[source] for source, target in pairs if target == name]
    return sum(neighbours) / len(neighbours) if neighbours else rows[name]


def _edge(start: BoxCorner, end: BoxCorner, counted: Mapping[str, Any] | None) -> str:
    x1, y1 = start.x + BOX_WIDTH, start.y + BOX_HEIGHT / 2
    x2, y2 = end.x - 2, end.y + BOX_HEIGHT / 2
    middle = (x1 + x2) / 2
    path = (
        f'<path class="e" marker-end="url(#h)" d="M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}"/>'
    )
    if counted is None or not counted["rows"]:
        return path
    y = (y1 + y2) / 2 - 7
    rate, rows = f"{short_number(counted['rate'])}/s", f"{short_number(counted['rows'])} rows"
    at = f'class="r" text-anchor="middle" x="{middle:g}"'
    return f'{path}<text {at} y="{y:g}">{rate}</text><text {at} y="{y + 20:g}">{rows}</text>'


def _box(place: BoxCorner, node: Mapping[str, Any], dataset: Mapping[str, Any] | None) -> str:
    label = node["label"] if len(node["label"]) <= MAX_LABEL else node["label"][: MAX_LABEL - 1] + "…"
    failed = dataset is not None and dataset["error"]
    style = CLASSES.get(node["kind"], "view") + (" bad" if failed else "")
    x = place.x + 12
    detail = ""
    if dataset is not None:
        lag = "" if dataset["lag"] is None else f", lag {short_number(dataset['lag'])}"
        detail = "failed" if failed else f"{short_number(dataset['rows'])} rows{lag}"
    hint = f"<title>{escape(str(dataset['error']))}</title>" if dataset is not None and failed else ""
    box = f'x="{place.x:g}" y="{place.y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="9"'
    return (
        f'<g>{hint}<rect class="{style}" {box}/>'
        f'<text class="t" x="{x:g}" y="{place.y + 23:g}">{escape(label)}</text>'
        f'<text class="s" x="{x:g}" y="{place.y + 39:g}">{escape(node["kind"])}</text>'
        f'<text class="s{" x" if failed else ""}" x="{x:g}" y="{place.y + 54:g}">{escape(detail)}</text></g>'
    )


def short_number(value: float) -> str:
    """A number for people: 950, 1.2 k, 3.4 M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (limit if unit != 'k' else 1e3):.1f} {unit}"
    return f"{value:.1f}" if value != int(value) and value < 100 else f"{round(value):,}".replace(",", " ")
