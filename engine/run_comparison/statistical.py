"""Statistical mode: per metric a three-state verdict, and one for the whole comparison with an interval over runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.chunks import Floats
from engine.run_comparison.samples import Samples, Side
from engine.stats.bootstrap import percentile_interval, resample_counts
from engine.stats.kolmogorov import ks_p_values
from engine.stats.multiplicity import benjamini_hochberg
from engine.stats.ranks import mann_whitney, merge_sorted
from engine.stats.shift import hodges_lehmann
from engine.stats.spread import brown_forsythe_p

DIFFERENT, EQUIVALENT, NOT_ENOUGH, MISSING = "different", "equivalent", "not enough data", "missing"
_CLIP = 4.0
"""Winsorising limit of run means, in robust standard deviations: one wild value must not decide a resample."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the samples say, before any margin is chosen. Shift and interval are right minus left on the log scale
    where all values are positive (``logarithmic``), else in units of ``base``, the left median's absolute value."""

    compared: NDArray[np.bool_]
    logarithmic: NDArray[np.bool_]
    base: Floats
    p_value: Floats
    spread_p: Floats
    cliffs_delta: Floats
    shift: Floats
    low: Floats
    high: Floats
    deviation: Floats


def gather(samples: Samples, alpha: float, check: Callable[[], None] = lambda: None) -> Evidence:
    """Tests and Hodges-Lehmann intervals of every metric with values on both sides."""
    k = samples.count
    nan = [np.full(k, np.nan) for _ in range(8)]
    base, p_value, spread_p, delta, shift, low, high, deviation = nan
    compared = np.zeros(k, dtype=bool)
    logarithmic = np.zeros(k, dtype=bool)
    for metrics, n1, n2 in samples.shapes():
        if not (n1 and n2):
            continue
        check()
        left, right = samples.left.rows(metrics, n1), samples.right.rows(metrics, n2)
        compared[metrics] = True
        left, right = np.sort(left, axis=1), np.sort(right, axis=1)
        merged = merge_sorted(left, right)
        p_value[metrics] = mann_whitney(left, right, merged).two_sided
        spread_p[metrics] = ks_p_values(merged.distance, n1, n2)
        delta[metrics] = merged.cliffs_delta
        positive = (left[:, 0] > 0) & (right[:, 0] > 0)
        logarithmic[metrics] = positive
        base[metrics] = np.abs((left[:, (n1 - 1) // 2] + left[:, n1 // 2]) / 2.0)
        left, right = _transform(left, positive), _transform(right, positive)
        found = hodges_lehmann(left, right, alpha, check, ordered=True)
        shift[metrics], low[metrics], high[metrics] = found.estimate, found.low, found.high
        if n1 + n2 > 2:
            squares = n1 * left.var(axis=1) + n2 * right.var(axis=1)
            deviation[metrics] = np.sqrt(squares / (n1 + n2 - 2))
    return Evidence(compared, logarithmic, base, p_value, spread_p, delta, shift, low, high, deviation)


def _transform(rows: Floats, positive: NDArray[np.bool_]) -> Floats:
    if positive.all():
        return np.asarray(np.log(rows))
    return np.where(positive[:, None], np.log(np.where(rows > 0, rows, 1.0)), rows)


def limits(evidence: Evidence, margin: float) -> tuple[Floats, Floats]:
    """Bounds of the equivalence margin on each metric's own scale: ratio within [margin, 1 / margin]."""
    lower = np.where(evidence.logarithmic, math.log(margin), (margin - 1.0) * evidence.base)
    upper = np.where(evidence.logarithmic, -math.log(margin), (1.0 / margin - 1.0) * evidence.base)
    return lower, upper


def as_ratio(evidence: Evidence, value: Floats) -> Floats:
    """A shift as the ratio right / left; NaN where it has none (a left median of zero that moves)."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        relative = np.where(value == 0, 1.0, np.where(evidence.base > 0, 1.0 + value / evidence.base, np.nan))
        return np.where(evidence.logarithmic, np.exp(value), relative)


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


class RunMeans(NamedTuple):
    """Sums and counts of one side's transformed, winsorised values per run and metric: [runs, metrics]. ``scores``,
    where every run has one value of every metric: its distance from the side's median in robust deviations, [metrics,
    runs], NaN where nothing deviates; None elsewhere."""

    sums: Floats
    counts: Floats
    scores: Floats | None = None


@dataclass(frozen=True, slots=True)
class Overall:
    """Resampled shifts of every counted metric ([draws, metrics], float32), how many metrics each draw holds, and the
    run means behind them."""

    metrics: NDArray[np.int64]
    shifts: Columns
    held: NDArray[np.int64]
    left: RunMeans
    right: RunMeans


def run_means(side: Side, metrics: NDArray[np.int64], logarithmic: NDArray[np.bool_]) -> RunMeans:
    """Per run and metric of ``metrics``; values beyond ``_CLIP`` robust deviations of their side are drawn in."""
    if metrics.size == side.offsets.size - 1 and side.single:
        rows = _transform(side.values.reshape(metrics.size, side.n_runs), logarithmic)
        drawn_in, scores = _winsorised(rows)
        return RunMeans(drawn_in.T, np.broadcast_to(1.0, drawn_in.T.shape), scores)
    cells = side.n_runs * metrics.size
    flats: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    weights: list[Floats] = [np.zeros(0)]
    sizes = side.sizes[metrics]
    for size in np.unique(sizes[sizes > 0]).tolist():
        columns = np.flatnonzero(sizes == size)
        rows, _ = _winsorised(_transform(side.rows(metrics[columns], size), logarithmic[metrics[columns]]))
        places = side.runs[side.offsets[metrics[columns]][:, None] + np.arange(size)]
        flats.append((places.astype(np.int64) * metrics.size + columns[:, None]).ravel())
        weights.append(rows.ravel())
    flat = np.concatenate(flats)
    shape = (side.n_runs, metrics.size)
    sums = np.bincount(flat, weights=np.concatenate(weights), minlength=cells).astype(np.float64).reshape(shape)
    counts: Floats = np.bincount(flat, minlength=cells).astype(np.float64).reshape(shape)
    return RunMeans(sums, counts)


def _winsorised(rows: Floats) -> tuple[Floats, Floats]:
    """Values of each row drawn in to ``_CLIP`` robust deviations from its median, and their distance from it in robust
    deviations before that."""
    centre = np.median(rows, axis=1)[:, None]
    apart = np.abs(rows - centre)
    spread = 1.4826 * np.median(apart, axis=1)[:, None]
    reach = np.where(spread > 0, _CLIP * spread, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = apart / np.where(spread > 0, spread, np.nan)
    return np.clip(rows, centre - reach, centre + reach), scores


_KEPT_CELLS = 8_000_000
"""Draws times metrics up to which the means of a side's draws are formed at once and kept: 32 MB a side."""


class Draws:
    """Resampled runs of one side: its run means, and the means of all metrics in each draw. ``number``: 0 left, 1 right;
    each side has a stream of random numbers of its own, so that a run on one leaves the other's draws as they are."""

    def __init__(
        self,
        side: Side,
        metrics: NDArray[np.int64],
        logarithmic: NDArray[np.bool_],
        draws: int,
        seed: int,
        number: int,
    ) -> None:
        """Draw ``draws`` times as many runs as ``side`` has, with replacement."""
        self._side = side
        self._wish = (draws, seed, metrics.tobytes(), logarithmic[metrics].tobytes())
        self.means = run_means(side, metrics, logarithmic)
        self._mean = _resampled(self.means)
        self._weights = resample_counts(side.n_runs, draws, np.random.default_rng([seed, number]))
        self._whole = self._mean(self._weights) if draws * metrics.size <= _KEPT_CELLS else None

    def holds(
        self, side: Side, metrics: NDArray[np.int64], logarithmic: NDArray[np.bool_], draws: int, seed: int
    ) -> bool:
        """Whether these are the draws of ``side`` as it is now. Samples are never written to, so the same array holds
        the same values."""
        mine = self._side
        return (
            mine.values is side.values
            and mine.runs is side.runs
            and mine.n_runs == side.n_runs
            and np.array_equal(mine.offsets, side.offsets)
            and self._wish == (draws, seed, metrics.tobytes(), logarithmic[metrics].tobytes())
        )

    def block(self, rows: slice) -> NDArray[np.float32]:
        """Means of all metrics in some of the draws: [draws, metrics]."""
        return self._mean(self._weights[rows]) if self._whole is None else self._whole[rows]


def resample(
    samples: Samples,
    evidence: Evidence,
    counted: NDArray[np.bool_],
    draws: int,
    seed: int,
    check: Callable[[], None] = lambda: None,
    kept: dict[int, Draws] | None = None,
) -> Overall:
    """Draw whole runs with replacement on each side, since the metrics of a run move together. ``kept``: draws of
    earlier calls by side; a side that did not change since is not drawn again."""
    metrics = np.flatnonzero(counted & evidence.compared)
    kept = {} if kept is None else kept
    for number, side in enumerate((samples.left, samples.right)):
        check()
        before = kept.get(number)
        if before is None or not before.holds(side, metrics, evidence.logarithmic, draws, seed):
            kept.pop(number, None)  # its memory is free before the new ones are drawn
            kept[number] = Draws(side, metrics, evidence.logarithmic, draws, seed, number)
    left, right = kept[0], kept[1]
    shifts = np.empty((draws, metrics.size), dtype=np.float32)
    held = np.full(draws, metrics.size, dtype=np.int64)
    # Large pieces: each product of matrices wakes the threads of the linear algebra library.
    for start in range(0, draws if metrics.size else 0, 2_000):
        check()
        rows = slice(start, start + 2_000)
        block = np.subtract(right.block(rows), left.block(rows), out=shifts[rows])
        if left.means.scores is None or right.means.scores is None:
            held[rows] = np.isfinite(block).sum(axis=1)
    return Overall(metrics, Columns.of(shifts), held, left.means, right.means)


def _resampled(means: RunMeans) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """The means of all metrics for draws of runs, given how often each run is drawn."""
    sums = means.sums.astype(np.float32)
    if means.scores is not None:
        sums /= np.float32(max(means.sums.shape[0], 1))
        return lambda weights: np.asarray(weights @ sums)
    counts = means.counts.astype(np.float32)

    def mean(weights: NDArray[np.float32]) -> NDArray[np.float32]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((weights @ sums) / (weights @ counts))

    return mean


@dataclass(frozen=True, slots=True)
class Columns:
    """A matrix whose rows are counted for one range after another, with the least and greatest value of each column
    (NaN where it holds one): a column that lies wholly inside a range, or outside, needs no look at its values."""

    values: NDArray[np.float32]
    least: NDArray[np.float32]
    greatest: NDArray[np.float32]

    @classmethod
    def of(cls, values: NDArray[np.float32]) -> Columns:
        """The matrix with its extremes."""
        if not values.size:
            none = np.zeros(values.shape[1], dtype=np.float32)
            return cls(values, none, none)
        return cls(values, values.min(axis=0), values.max(axis=0))


def count_inside(
    matrix: Columns, low: NDArray[np.float32], high: NDArray[np.float32], step: int = 200_000
) -> NDArray[np.int64]:
    """How many values of each row lie within the bounds of their columns; NaN lies nowhere. In blocks of rows, so that
    the masks stay in the cache."""
    with np.errstate(invalid="ignore"):
        within = (matrix.least >= low) & (matrix.greatest <= high)
        open_ = ~(within | (matrix.greatest < low) | (matrix.least > high))
    values = matrix.values
    found = np.full(len(values), np.count_nonzero(within), dtype=np.int64)
    columns = np.flatnonzero(open_)
    if not columns.size:
        return found
    whole = columns.size > values.shape[1] // 4
    if whole:
        # Gathering so many columns costs more than comparing all.
        found[:] = 0
    else:
        low, high = low[columns], high[columns]
    rows_at_once = max(1, step // max(values.shape[1], 1))
    with np.errstate(invalid="ignore"):
        for start in range(0, len(values), rows_at_once):
            rows = values[start : start + rows_at_once]
            if not whole:
                rows = rows[:, columns]
            mask = rows >= low
            mask &= rows <= high
            found[start : start + rows_at_once] += np.count_nonzero(mask, axis=1)
    return found


def share_interval(
    overall: Overall, evidence: Evidence, margin: float, confidence: float, share: float
) -> tuple[float, float]:
    """Interval of the ``share`` of metrics whose shift lies inside the margin, over the resamples.

    A resample is noisier than the sample, so fewer of its shifts lie inside: the draws are moved by that bias, their
    mean onto ``share``. Metrics that a resample does not hold are left out of its share.
    """
    if not overall.shifts.values.size:
        return float("nan"), float("nan")
    lower, upper = limits(evidence, margin)
    low = lower[overall.metrics].astype(np.float32)
    high = upper[overall.metrics].astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = count_inside(overall.shifts, low, high) / overall.held
    low_share, high_share = percentile_interval(shares + (share - float(np.nanmean(shares))), confidence)
    return max(0.0, low_share), min(1.0, high_share)


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
    a, b = _transform(rows_left, evidence.logarithmic), _transform(rows_right, evidence.logarithmic)
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
