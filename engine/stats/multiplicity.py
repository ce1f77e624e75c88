"""Adjust p-values of many tests: false discovery rate.

scipy.stats has this and Brown-Forsythe's test as well, but takes more than a second to import.
"""

from __future__ import annotations

import numpy as np

from engine.stats.ranks import Floats


def benjamini_hochberg(p: Floats) -> Floats:
    """Return q-values (adjusted p) of Benjamini and Hochberg (1995). NaN stays NaN and is not counted as a test."""
    q = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    m = tested.size
    if m:
        order = tested[np.argsort(p[tested], kind="stable")]
        scaled = p[order] * m / np.arange(1, m + 1)
        q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q
