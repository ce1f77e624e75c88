"""Put the methods side by side: the error of each, what it attributes, and how far it moves CPU between classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from engine.query_profile.insight.profile import Profile
from engine.query_profile.tables import METHODS_SIDE_BY_SIDE, NAN_TO_NULL


def methods_side_by_side(profile: Profile) -> pl.DataFrame:
    """Build the ``methods`` table: what each method makes of the same intervals."""
    rows: list[dict[str, Any]] = []
    y, measured = profile.fits.y, profile.measured
    positive = y > 0
    for name, total in profile.totals.items():
        fitted = profile.fits.fitted(name)
        with np.errstate(invalid="ignore", over="ignore"):
            mape = float(np.mean(np.abs(fitted[positive] / y[positive] - 1))) if positive.any() else math.nan
        top = int(np.argmax(total)) if len(total) else -1
        moved = math.nan
        if "default" in profile.totals and measured > 0:
            moved = float(np.abs(total - profile.totals["default"]).sum()) / 2 / measured
        rows.append(
            {
                "method": name,
                "mape": mape,
                "attributed": float(total.sum()),
                "background": profile.fits.background(name),
                "unattributed": profile.unattributed(name),
                "moved_share": moved,
                "top_class": profile.work.classes[top].name if top >= 0 else "",
                "top_share": float(total[top]) / measured if top >= 0 and measured > 0 else math.nan,
            }
        )
    return pl.DataFrame(rows, schema=METHODS_SIDE_BY_SIDE.schema).with_columns(NAN_TO_NULL)
