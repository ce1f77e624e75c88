"""Print what VividCortex' program prints: predictions, the table of classes, the final line.

See docs/models/query-profile.md, "The printout".
"""

from __future__ import annotations

import math

import numpy as np

from engine.query_profile.wlr.regression import Lines, Quality


def go_float(value: float, width: int, digits: int) -> str:
    """Format ``value`` like Go's ``%{width}.{digits}g``."""
    if math.isnan(value):
        text = "NaN"
    elif math.isinf(value):
        text = "+Inf" if value > 0 else "-Inf"
    else:
        text = f"{value:.{digits}g}"
    return text.rjust(width)


def _fixed(value: float, width: int, digits: int) -> str:
    """Format ``value`` like Go's ``%{width}.{digits}f``."""
    if math.isfinite(value):
        return f"{value:{width}.{digits}f}"
    return go_float(value, width, digits)


def _ratio(stderr: float, estimate: float) -> float:
    """Return the program's "t-stat": the error over the estimate, with its sign; the inverse of Student's t."""
    with np.errstate(all="ignore"):
        return float(np.float64(stderr) / np.float64(estimate))


def text(names: list[str], lines: Lines, actual: np.ndarray, predicted: np.ndarray, score: Quality) -> str:
    """Print all tables, classes sorted by name (the program's own order is random).

    ``lines``: of the classes ``names``; ``actual``, ``predicted``: (rows,); ``score``: the final line.
    """
    out = ["PREDICT actual predicted"]
    use = actual != 0
    out += [
        f"PREDICT {go_float(a, 0, 5)} {go_float(p, 0, 5)}"
        for a, p in zip(actual[use].tolist(), predicted[use].tolist(), strict=True)
    ]
    out += ["", "================== RESULTS: VARIABLES ====================", ""]
    out.append("variable             count  R^2     slope  (t-stat) intercept  (t-stat)")
    for i in sorted((i for i in range(len(names)) if lines.n[i] > 0), key=lambda i: names[i]):
        slope, intercept = float(lines.slope[i]), float(lines.intercept[i])
        out.append(
            f"{names[i]:<20} {lines.n[i]:5.0f} {_fixed(float(lines.r2[i]), 4, 2)} {go_float(slope, 9, 3)} "
            f"{go_float(_ratio(float(lines.slope_stderr[i]), slope), 9, 3)} {go_float(intercept, 9, 3)} "
            f"{go_float(abs(_ratio(float(lines.intercept_stderr[i]), intercept)), 9, 3)}"
        )
    out += ["", "================= RESULTS: ACTUAL-VS-PRED ==================="]
    out.append(
        f"Slope: {go_float(score.slope, 0, 2)} T-stat: {go_float(_ratio(score.slope_stderr, score.slope), 0, 2)} "
        f"Intercept: {go_float(score.intercept, 0, 2)} "
        f"T-stat: {go_float(abs(_ratio(score.intercept_stderr, score.intercept)), 0, 2)} "
        f"R^2 {go_float(score.r2, 0, 2)} MAPE: {go_float(score.mape, 0, 2)}"
    )
    return "\n".join(out) + "\n"
