"""The alerts of the pipeline, computed in plain Python from the same records."""

from __future__ import annotations

from collections import defaultdict

from moldau.examples.bank_alerts.database import TRANSACTIONS
from moldau.examples.bank_alerts.generator import THRESHOLDS
from moldau.examples.bank_alerts.pipeline import ALERTS
from moldau.examples.study import Content, Read, StudyRecord


def expected(read: Read) -> dict[str, Content]:
    thresholds: defaultdict[str, list[StudyRecord]] = defaultdict(list)
    for record in read(THRESHOLDS):
        thresholds[record.key].append(record)
    alerts = []
    for record in read(TRANSACTIONS):
        one = record.value or {}
        valid = [threshold for threshold in thresholds[one["account"]] if threshold.at_ms <= one["at"]]
        # The last one before the transaction; a tombstone has no value.
        value = valid[-1].value if valid else None
        if value is not None and one["cents"] > value["cents"]:
            alerts.append({**one, "threshold": value["cents"]})
    return {ALERTS: alerts}
