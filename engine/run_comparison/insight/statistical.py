"""Statistical mode: per metric a three-state verdict, and one for the whole comparison with an interval over runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.insight.evidence import Evidence, as_ratio, gather, limits, transform
from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.samples import Samples, Side
from engine.stats.multiplicity import benjamini_hochberg
from engine.stats.ranks import mann_whitney
from engine.stats.spread import brown_forsythe_p

DIFFERENT, EQUIVALENT, NOT_ENOUGH, MISSING = "different", "equivalent", "not enough data", "missing"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Per metric: adjusted p-values, the verdict word (missing where a side is empty), whether the shift is
    significant, whether the point estimate lies inside the margin, and further runs needed (NaN: none or unknown)."""

    q_value: Floats
    spread_q: Floats
    words: NDArray[np.object_]
    changed: NDArray[np.bool_]
    inside: NDArray[np.bool_]
    runs_needed: Floats


def decide(evidence: Evidence, samples: Samples, margin: float, alpha: float, counted: NDArray[np.bool_]) -> Verdicts:
    """Verdicts for a margin. ``counted``: metrics that form the family for the false discovery rate; the others
    (upstream's pools) form one of their own. Cheap: a threshold that moves on screen asks only this again."""
    q_value, spread_q = (np.full(evidence.p_value.shape, np.nan) for _ in range(2))
    for family in (counted, ~counted):
        q_value[family] = benjamini_hochberg(evidence.p_value[family])
        spread_q[family] = benjamini_hochberg(evidence.spread_p[family])
    lower, upper = limits(evidence, margin)
    with np.errstate(invalid="ignore"):
        proven = (evidence.low >= lower) & (evidence.high <= upper)
        inside = (evidence.shift >= lower) & (evidence.shift <= upper)
        changed = q_value <= alpha
        spread = spread_q <= alpha
    words = np.full(evidence.p_value.shape, NOT_ENOUGH, dtype=object)
    words[changed | spread] = DIFFERENT
    words[proven] = EQUIVALENT
    words[~evidence.compared] = MISSING
    needed = _runs_needed(evidence, samples, lower, upper, alpha)
    needed[words != NOT_ENOUGH] = np.nan
    return Verdicts(q_value, spread_q, words, changed, inside & evidence.compared, needed)


def _runs_needed(evidence: Evidence, samples: Samples, lower: Floats, upper: Floats, alpha: float) -> Floats:
    """Further values per side until either answer is likely (power 80 %): the smaller of what equivalence and what
    difference take at the present estimate and spread."""
    from scipy.special import ndtri

    z = -float(ndtri(alpha))
    z_two = -float(ndtri(alpha / 2))
    power, power_centre = 0.8416212335729143, 1.2815515655446004
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.minimum(upper - evidence.shift, evidence.shift - lower)
        equivalence = np.where(
            room > 0,
            np.maximum(
                2 * (evidence.deviation / room) ** 2 * (z + power) ** 2,
                2 * (evidence.deviation / np.minimum(upper, -lower)) ** 2 * (z + power_centre) ** 2,
            ),
            np.inf,
        )
        difference = 2 * (evidence.deviation / evidence.shift) ** 2 * (z_two + power) ** 2
    total = np.fmin(equivalence, difference)
    smallest = max(3.0, math.ceil(-math.log2(alpha)) - 1.0)
    have = np.minimum(samples.left.sizes, samples.right.sizes)
    further = np.maximum(np.ceil(np.maximum(total, smallest)) - have, 1.0)
    return np.where(np.isfinite(total), np.minimum(further, 99_999.0), np.nan)


class Arithmetic(NamedTuple):
    """The numbers behind one verdict, for the detail of a row."""

    n_left: int
    n_right: int
    p_value: float
    q_value: float
    equivalence_p: float
    spread_p: float
    ratio: float
    ratio_low: float
    ratio_high: float
    margin_low: float
    margin_high: float
    brown_forsythe_p: float
    deviation_left: float
    deviation_right: float


def explain(left: Floats, right: Floats, margin: float, alpha: float, q_value: float) -> Arithmetic:
    """Arithmetic of one metric. ``equivalence_p`` is the larger p of the two one-sided rank tests against the margin
    (TOST); Brown and Forsythe's test asks about spread alone."""
    rows_left, rows_right = left[None, :], right[None, :]
    samples = Samples(_single(left), _single(right))
    evidence = gather(samples, alpha)
    lower, upper = limits(evidence, margin)
    a, b = transform(rows_left, evidence.logarithmic), transform(rows_right, evidence.logarithmic)
    against_lower = mann_whitney(a + lower[:, None], b).below
    against_upper = mann_whitney(a + upper[:, None], b).above
    return Arithmetic(
        left.size,
        right.size,
        float(evidence.p_value[0]),
        q_value,
        float(max(against_lower[0], against_upper[0])),
        float(evidence.spread_p[0]),
        float(as_ratio(evidence, evidence.shift)[0]),
        float(as_ratio(evidence, evidence.low)[0]),
        float(as_ratio(evidence, evidence.high)[0]),
        margin,
        1.0 / margin,
        brown_forsythe_p(a[0], b[0]),
        float(np.std(left, ddof=1)) if left.size > 1 else float("nan"),
        float(np.std(right, ddof=1)) if right.size > 1 else float("nan"),
    )


def _single(values: Floats) -> Side:
    return Side(values, np.arange(values.size, dtype=np.int32), np.array([0, values.size], dtype=np.int64), values.size)
