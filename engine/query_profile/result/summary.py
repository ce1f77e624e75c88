"""The summary of a result: one number or word per key, in a fixed order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine.output.exposition import US, Gauge
from engine.query_profile.insight.prediction import Predictions
from engine.query_profile.insight.profile import Profile
from engine.query_profile.insight.trust import UNTESTED

FIRST = (
    "rows_trained", "rows_predicted", "slope", "intercept", "r2", "mape", "background", "unattributed",
)  # fmt: skip
"""Keys that a summary always has, also one without a workload."""


def summary(profile: Profile, predictions: Predictions, compared: tuple[str, str] | None) -> dict[str, Any]:
    """Summarise a profile and its predictions; numbers that are not finite become None, as JSON has none. ``compared``: the
    window and the one before in words."""
    work, trust, fitted = profile.work, profile.trust, profile.attribution
    attributable, measured, attributed = profile.attributable, profile.measured, profile.attributed
    values = {
        "rows_trained": profile.rows_trained,
        **scores(predictions),
        "background": profile.background,
        "unattributed": profile.unattributed(profile.method) if attributable else math.nan,
        "y_measured": measured,
        "attributed": attributed,
        "unattributed_share": profile.unattributed_share,
        "method": profile.method,
        "rules": profile.fits.rules,
        "target": work.y_name,
        "source": work.label,
        "y_source": work.y_source,
        "classes": len(work.classes),
        "intervals": len(work.y),
        "intervals_used": int(profile.used.sum()),
        "seconds": profile.seconds,
        "cores": work.cores,
        "utilisation": profile.utilisation,
        "active_cpus": profile.active_cpus,
        "window_now": compared[0] if compared else None,
        "window_before": compared[1] if compared else None,
        "trust": trust.score if attributable and trust is not UNTESTED else math.nan,
        "trust_grade": trust.grade,
        "counted_share": profile.counted.of_measured if profile.counted else math.nan,
        "model_error": profile.counted.error if profile.counted else math.nan,
        **{name: getattr(trust, name) for name in ("blocked_mape", "correlation", "disagreement")},
        "elbow": bool(fitted and fitted.elbow and fitted.elbow.found),
        "break_row": fitted.change_point.row + 1 if fitted and fitted.changed else None,
    }
    return {name: _plain(value) for name, value in values.items()}


def scores(predictions: Predictions) -> dict[str, Any]:
    """Summarise predictions: their number and the final line of VividCortex' program."""
    line = {name: _plain(getattr(predictions.quality, name)) for name in ("slope", "intercept", "r2", "mape")}
    return {"rows_predicted": predictions.frame.height, **line}


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


_CLASS = {"queryid": "class", "database": "database"}

GAUGES = (
    Gauge("query_cpu_seconds", "classes", "y_total", "CPU (or the chosen resource) of the class in the window.", _CLASS, US,
          adds=True),
    Gauge("query_cpu_measured_seconds", "classes", "cpu_measured_us", "CPU of the class as the server measured it.", _CLASS, US,
          adds=True),
    Gauge("query_time_seconds", "classes", "x_total", "Elapsed time of the class in the window.", _CLASS, US, adds=True),
    Gauge("query_calls", "classes", "calls", "Executions in the window.", _CLASS, adds=True),
)  # fmt: skip
