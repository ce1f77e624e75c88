"""What of the run comparison goes on to Prometheus."""

from __future__ import annotations

from engine.output.exposition import Gauge

_GROUP = {"group": "group", "by": "by"}

GAUGES = (
    Gauge("comparison_metrics", "groups", "metrics", "Metrics compared.", _GROUP),
    Gauge("comparison_worse_metrics", "groups", "worse", "Metrics that are worse on the right side.", _GROUP),
    Gauge("comparison_different_metrics", "groups", "different", "Metrics that differ.", _GROUP),
    Gauge("comparison_missing_metrics", "groups", "missing", "Metrics that one side lacks.", _GROUP),
    Gauge("comparison_matched_ratio", "groups", "share", "Part of the metrics that match.", _GROUP),
)
