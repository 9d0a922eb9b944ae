"""Live view: the shares of buyers per campaign and variant, and what the comparison says."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table

from moldau.examples.campaign_comparison.generator import VARIANTS
from moldau.examples.campaign_comparison.pipeline import RESULTS
from moldau.examples.results import Results

STYLES = {"better": "bold green", "worse": "red"}


def picture(results: Results) -> RenderableType:
    table = Table("campaign", "variant", "visitors", "bought", "share", "p", "compared with A")
    for campaign, value in sorted(results.table(RESULTS).items()):
        for variant in VARIANTS:
            seen, bought = value[f"seen_{variant}"], value[f"bought_{variant}"]
            share = f"{100 * bought / seen:.1f} %" if seen else "-"
            p, says = value.get(f"p_{variant}"), value.get(f"verdict_{variant}", "")
            certainty = "" if p is None else f"{p:.4f}"
            table.add_row(campaign, variant, str(seen), str(bought), share, certainty, says, style=STYLES.get(says))
        table.add_section()
    return table
