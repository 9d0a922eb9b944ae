"""The results of the pipeline, computed in plain Python from the same records."""

from __future__ import annotations

from collections import Counter
from typing import Any

from moldau.examples.campaign_comparison.generator import CHANCES, VARIANTS, VISITS
from moldau.examples.campaign_comparison.pipeline import RESULTS
from moldau.examples.campaign_comparison.significance import p_value, verdict
from moldau.examples.study import Content, Read


def expected(read: Read) -> dict[str, Content]:
    visits = {record.key: record.value or {} for record in read(VISITS)}  # once per visitor
    seen: Counter[tuple[str, str]] = Counter()
    bought: Counter[tuple[str, str]] = Counter()
    for visit in visits.values():
        seen[visit["campaign"], visit["variant"]] += 1
        bought[visit["campaign"], visit["variant"]] += visit["bought"]
    results = {}
    for campaign in CHANCES:
        result: dict[str, Any] = {}
        for variant in VARIANTS:
            result[f"seen_{variant}"] = seen[campaign, variant]
            result[f"bought_{variant}"] = bought[campaign, variant]
        for variant in VARIANTS[1:]:
            counts = [count[campaign, one] for one in (variant, "A") for count in (bought, seen)]
            result[f"p_{variant}"] = round(p_value(*counts), 6)
            result[f"verdict_{variant}"] = verdict(*counts)
        results[campaign] = result
    return {RESULTS: results}
