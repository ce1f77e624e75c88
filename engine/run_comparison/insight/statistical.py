"""Test and estimate the shift of each metric, and decide: each metric (different, equivalent or undecided) and the whole; judge
what became worse or better, what is muted and what fails ``check``.

See docs/models/run-comparison.md, Tests of a metric, Shift and interval, and Verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.core.view import Level
from engine.run_comparison.parameters import ComparisonParameters, parse_size_rules
from engine.run_comparison.runs.measurements import Floats, Ints, canonical_unit, is_time
from engine.run_comparison.runs.samples import Samples, Side
from engine.run_comparison.tables import GROUPS
from engine.run_comparison.words import NAMING
from engine.stats.ranks import hodges_lehmann, mann_whitney, merge_sorted
from engine.stats.significance import benjamini_hochberg, brown_forsythe_p, ks_p_values


class Evidence(msgspec.Struct, frozen=True, eq=False):
    """Tests and estimates per metric; NaN if a side has no values (``compared`` is False).

    ``shift`` and its interval ``low`` to ``high`` are right minus left: of logarithms where all values are positive
    (``logarithmic``), else in units of ``base``, the left median's absolute value. ``deviation``: pooled standard
    deviation on the same scale.
    """

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

    def take(self, rows: Ints) -> Evidence:
        """Return the evidence of some rows."""
        return Evidence(*(getattr(self, name)[rows] for name in Evidence.__struct_fields__))


def gather(
    samples: Samples, alpha: float, check: Callable[[], None] = lambda: None, only: NDArray[np.bool_] | None = None
) -> Evidence:
    """Run the tests of every metric (or of those ``only``) with values on both sides, intervals at 1 - 2 ``alpha``."""
    k = samples.count
    base, p_value, spread_p, delta, shift, low, high, deviation = (np.full(k, np.nan) for _ in range(8))
    compared, logarithmic = np.zeros(k, dtype=bool), np.zeros(k, dtype=bool)
    for metrics, n1, n2 in samples.shapes():
        metrics = metrics if only is None else metrics[only[metrics]]
        if not (n1 and n2 and metrics.size):
            continue
        check()
        left = np.sort(samples.left.rows(metrics, n1), axis=1)
        right = np.sort(samples.right.rows(metrics, n2), axis=1)
        compared[metrics] = True
        merged = merge_sorted(left, right)
        p_value[metrics] = mann_whitney(left, right, merged).two_sided
        # The distance is a multiple of 1 / (n1 n2); rounding keeps the table of exact p-values small.
        spread_p[metrics] = ks_p_values(np.rint(merged.distance * n1 * n2) / (n1 * n2), n1, n2)
        delta[metrics] = merged.cliffs_delta
        positive = (left[:, 0] > 0) & (right[:, 0] > 0)
        logarithmic[metrics] = positive
        base[metrics] = np.abs((left[:, (n1 - 1) // 2] + left[:, n1 // 2]) / 2.0)
        left, right = transform(left, positive), transform(right, positive)
        estimate = hodges_lehmann(left, right, alpha, check, ordered=True)
        shift[metrics], low[metrics], high[metrics] = estimate.estimate, estimate.low, estimate.high
        if n1 + n2 > 2:
            deviation[metrics] = np.sqrt((_squares(left) + _squares(right)) / (n1 + n2 - 2))
    return Evidence(compared, logarithmic, base, p_value, spread_p, delta, shift, low, high, deviation)


def _squares(rows: Floats) -> Floats:
    """Return the sum of squared distances from the mean of each row."""
    return np.asarray(rows.shape[1] * np.ascontiguousarray(rows).var(axis=1))


def transform(rows: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Return logarithms of the rows that are ``positive``, and the others unchanged."""
    return (
        np.asarray(np.log(rows))
        if positive.all()
        else np.where(positive[:, None], np.log(np.where(rows > 0, rows, 1.0)), rows)
    )


def size_times_evidence() -> pl.Expr:
    """Return column ``evidence`` of the metrics table: distance of the ratio from 1, weighted by -log10 q if there is a q.

    Null if the ratio is missing or not positive.
    """
    sure = pl.when(pl.col("q_value").is_null()).then(1.0).otherwise(-pl.col("q_value").clip(1e-300, 1.0).log10())
    return pl.when(pl.col("ratio") > 0).then(pl.col("ratio").log().abs().clip(0.0, 50.0) * sure + 0.0)


def limits(evidence: Evidence, margin: float) -> tuple[Floats, Floats]:
    """Return the bounds of the equivalence margin [margin, 1 / margin] on each metric's own scale."""
    lower = np.where(evidence.logarithmic, math.log(margin), (margin - 1.0) * evidence.base)
    return lower, np.where(evidence.logarithmic, -math.log(margin), (1.0 / margin - 1.0) * evidence.base)


def as_ratio(evidence: Evidence, value: Floats) -> Floats:
    """Convert a shift to the ratio right / left, at least 0; NaN for a shift from a left median of zero."""
    relative = np.maximum(1.0 + value / evidence.base, 0.0)
    relative = np.where(value == 0, 1.0, np.where(evidence.base > 0, relative, np.nan))
    return np.where(evidence.logarithmic, np.exp(value), relative)


DIFFERENT, EQUIVALENT, UNDECIDED, MISSING = "different", "equivalent", "undecided", "missing"
"""Verdicts of a metric; missing: one side has no values."""

_POWER_80, _POWER_80_CENTRE = 0.8416212335729143, 1.2815515655446004
"""Standard normal quantiles of 0.8 and 0.9: power 80 %, in general and for a shift at the centre of the margin."""

MOST_RUNS_NEEDED = 99_999.0  # highest number of further values that is reported


class Verdicts(msgspec.Struct, frozen=True):
    """Verdict of each metric, and what it rests on.

    ``q_value``, ``spread_q``: adjusted p-values. ``words``: the verdict. ``changed``: the shift is significant.
    ``inside``: the estimated shift lies inside the margin. ``runs_needed``: further values (NaN: none or unknown).
    ``untold``: so few values cannot tell whether the shift, which is large, is chance.
    """

    q_value: Floats
    spread_q: Floats
    words: NDArray[np.object_]
    changed: NDArray[np.bool_]
    inside: NDArray[np.bool_]
    runs_needed: Floats
    untold: NDArray[np.bool_]


def usable_margin(threshold: float) -> float:
    """Convert a threshold to the lower end of an equivalence margin, between 0 and 1."""
    margin = max(threshold, 1e-9)
    return min(margin, 1.0 / margin)


def decide(
    evidence: Evidence,
    samples: Samples,
    margin: float,
    alpha: float,
    counted: NDArray[np.bool_],
    large: NDArray[np.bool_],
) -> Verdicts:
    """Decide all metrics for a margin. ``large``: shifts of the size that counts; a significant one of them is a difference,
    whatever the margin says, and one that no test can tell is undecided.

    ``counted``: metrics in the family for the false discovery rate; the others (pools of perf-tests' benchmark tool) form
    their own family.
    """
    q_value, spread_q = (np.full(evidence.p_value.shape, np.nan) for _ in range(2))
    for family in (counted, ~counted):
        q_value[family] = benjamini_hochberg(evidence.p_value[family])
        spread_q[family] = benjamini_hochberg(evidence.spread_p[family])
    lower, upper = limits(evidence, margin)
    proven = (evidence.low >= lower) & (evidence.high <= upper)
    inside = (evidence.shift >= lower) & (evidence.shift <= upper)
    changed = q_value <= alpha
    words = np.full(evidence.p_value.shape, UNDECIDED, dtype=object)
    words[changed | (spread_q <= alpha)] = DIFFERENT
    untold = large & (evidence.shift != 0) & ~changed & _too_few(evidence, samples, alpha)
    words[proven & ~(large & changed) & ~untold] = EQUIVALENT
    words[~evidence.compared] = MISSING
    needed = _runs_needed(evidence, samples, lower, upper, alpha)
    needed[words != UNDECIDED] = np.nan
    return Verdicts(q_value, spread_q, words, changed, inside & evidence.compared, needed, untold)


def _runs_needed(evidence: Evidence, samples: Samples, lower: Floats, upper: Floats, alpha: float) -> Floats:
    """Return the further values per side needed for an answer with power 80 %.

    The smaller number of those for equivalence and for a difference, at the present estimate and deviation.
    """
    from engine.stats.compiled import ndtri

    z = -float(ndtri(alpha))
    z_two = -float(ndtri(alpha / 2))
    room = np.minimum(upper - evidence.shift, evidence.shift - lower)
    equivalence = np.where(
        room > 0,
        np.maximum(
            2 * (evidence.deviation / room) ** 2 * (z + _POWER_80) ** 2,
            2 * (evidence.deviation / np.minimum(upper, -lower)) ** 2 * (z + _POWER_80_CENTRE) ** 2,
        ),
        np.inf,
    )
    total = np.fmin(equivalence, 2 * (evidence.deviation / evidence.shift) ** 2 * (z_two + _POWER_80) ** 2)
    present = np.minimum(samples.left.sizes, samples.right.sizes)
    further = np.maximum(np.ceil(np.maximum(total, fewest_values(alpha))) - present, 1.0)
    return np.where(np.isfinite(total), np.minimum(further, MOST_RUNS_NEEDED), np.nan)


def fewest_values(alpha: float) -> int:
    """Return the fewest values on each side with which a rank test can reach p ≤ ``alpha``."""
    values = 3
    while 2 / math.comb(2 * values, values) > alpha:
        values += 1
    return values


def _too_few(evidence: Evidence, samples: Samples, alpha: float) -> NDArray[np.bool_]:
    """Return for which metrics the values are too few for a rank test: it can never reach ``alpha``, or not with as many
    metrics, though the sides do not overlap and a t-test with Bonferroni's correction is significant."""
    from engine.stats.compiled import stdtr

    n1, n2 = samples.left.sizes, samples.right.sizes
    with np.errstate(all="ignore"):
        t = np.abs(evidence.shift) / (evidence.deviation * np.sqrt(1 / n1 + 1 / n2))
        sure = 2 * stdtr(n1 + n2 - 2.0, -t) * evidence.compared.sum() <= alpha
    return (np.minimum(n1, n2) < fewest_values(alpha)) | ((np.abs(evidence.cliffs_delta) == 1) & sure)


def in_runs(values: Floats, samples: Samples) -> list[int | None]:
    """Convert further values per metric to further runs, by the values per run."""
    left, right = samples.left, samples.right
    per_run = np.minimum(left.sizes / np.maximum(left.runs_behind, 1), right.sizes / np.maximum(right.runs_behind, 1))
    return [None if np.isnan(value) else int(value) for value in np.ceil(values / np.maximum(per_run, 1.0))]


def overall(
    share: float | None, interval: tuple[float, float], samples: Samples, pass_share: float, different: int
) -> tuple[str, bool | None]:
    """Return the overall verdict from the interval of the matched share and ``pass_share``.

    ``different``: number of different metrics. Without one the comparison cannot fail: with three runs a side no metric can
    be different, however large its shift.
    """
    if share is None or min(samples.left.n_runs, samples.right.n_runs) < 3 or not np.isfinite(interval).all():
        return UNDECIDED, None
    low, high = interval
    return (
        ("PASS", True)
        if low >= pass_share
        else ("FAIL", False)
        if high < pass_share and different
        else (UNDECIDED, None)
    )


class Arithmetic(NamedTuple):
    """The numbers behind one verdict."""

    n_left: int
    n_right: int
    p_value: float
    q_value: float
    equivalence_p: float
    spread_p: float
    ratio: float
    ratio_low: float
    ratio_high: float
    brown_forsythe_p: float


def explain(left: Floats, right: Floats, margin: float, alpha: float, q_value: float) -> Arithmetic:
    """Compute the numbers behind the verdict of one metric from its samples.

    ``equivalence_p`` is the larger p of the two one-sided rank tests against the margin (TOST); Brown and Forsythe's test
    compares spread alone.
    """
    rows_left, rows_right = left[None, :], right[None, :]
    evidence = gather(Samples(_single(left), _single(right)), alpha)
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
        brown_forsythe_p(a[0], b[0]),
    )


def _single(values: Floats) -> Side:
    return Side(values, np.arange(values.size, dtype=np.int32), np.array([0, values.size], dtype=np.int64), values.size)


def matching(columns: Mapping[str, Any], patterns: Sequence[str]) -> NDArray[np.bool_]:
    """Return per row of ``columns`` of the metrics table whether one of ``patterns`` matches it.

    A pattern (``*`` and ``?`` match any text, case is ignored) is compared with the words of the name joined by spaces, and
    with the metric's further labels.
    """
    rows = len(columns["test"])
    if not patterns:
        return np.zeros(rows, dtype=bool)
    wanted = [pattern.lower() for pattern in patterns]
    names = zip(*(columns[name] for name in NAMING), columns["metric"], strict=True)
    texts = ((" ".join(word for word in words if word).lower(), str(label).lower()) for *words, label in names)
    return np.fromiter((any(fnmatchcase(t, p) for t in both if t for p in wanted) for both in texts), bool, rows)


DIFFERENT_METRICS = (pl.col("verdict") == DIFFERENT) & ~pl.col("pooled")
"""Metrics that are different, without the benchmark tool's pools of several metrics."""
IMPROVED = DIFFERENT_METRICS & ~pl.col("muted") & (pl.col("effect") == "better")
"""Metrics that became better by enough to count: they never fail a check."""
WORSENED = DIFFERENT_METRICS & ~pl.col("muted") & (pl.col("effect") == "worse")
"""Metrics that became worse by enough to count: the regressions."""


def least_sizes(columns: Mapping[str, Any], parameters: ComparisonParameters) -> Floats:
    """Return the smallest relative change that counts for each metric: ``worse_by``, or the first rule of
    ``worse_by_of`` that names it."""
    least = np.full(len(columns["test"]), parameters.worse_by)
    for rule in reversed(parse_size_rules(parameters.worse_by_of)):
        least[matching(columns, (rule.pattern,))] = rule.size
    return least


def is_large(ratio: Floats, samples: Samples, least: Floats) -> NDArray[np.bool_]:
    """Whether a ``ratio`` right / left differs from 1 by at least ``least``. A change from 0 exceeds any size."""
    ratio = np.where(np.isnan(ratio), samples.right.means / samples.left.means, ratio)
    return (np.abs(ratio - 1.0) >= least - 1e-9) | (samples.left.means == 0) | np.isnan(ratio)


def effects(
    shift: Floats, real: NDArray[Any], samples: Samples, units: Iterable[str], directions: Sequence[str]
) -> list[str]:
    """Return ``worse`` or ``better`` for each ``real`` change, by the sign of its shift and the direction of the metric; empty
    otherwise.

    A time that is zero throughout a side was not measured: a change to or from it is neither.
    """
    unmeasured = (samples.left.means == 0) | (samples.right.means == 0)
    found = []
    rows = zip(shift.tolist(), real.tolist(), unmeasured.tolist(), units, directions, strict=True)
    for moved, is_real, zeros, unit, better in rows:
        if not is_real or moved != moved or moved == 0 or (zeros and is_time(canonical_unit(unit).name)):
            found.append("")
        else:
            found.append("worse" if (moved > 0) == (better == "lower") else "better")
    return found


def level_of(summary: Mapping[str, Any], parameters: ComparisonParameters) -> Level:
    """Return the level of each regression: severe if there are more than may pass."""
    return "severe" if summary["regressions"] > parameters.regressions else "low"


def lacks_much(summary: Mapping[str, Any], failed: int) -> bool:
    """Whether a verdict on the metrics that both sides have says little: most are on one side only, or some are, and of
    the sides' runs ``failed`` failed, which may be why."""
    return bool(summary["missing"] > (0 if failed else summary["total"]))


def overall_level(summary: Mapping[str, Any], parameters: ComparisonParameters, failed: int) -> Level:
    """Return the level of the whole comparison: that of "similar enough", and what cannot be told is not fine."""
    level = similar_level(summary, parameters)
    return "moderate" if (summary["untold"] or lacks_much(summary, failed)) and level != "severe" else level


def similar_level(summary: Mapping[str, Any], parameters: ComparisonParameters) -> Level:
    """Return the level of "similar enough"; improvements are no reason to fail."""
    share = summary["share"]
    if summary["pass"]:
        return "ok"
    matched_or_better = summary["matched"] + min(summary["better"], summary["mismatched"])
    if share is not None and share < parameters.pass_share <= matched_or_better / max(summary["total"], 1):
        return "low"
    return "severe" if summary["pass"] is False else "low"


def verdicts_by_label(metrics: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return table ``groups``: verdicts of the ``metrics`` table by one of its labels, most worse ones first."""
    verdict = pl.col("verdict")
    return GROUPS.sorted(
        GROUPS.frame(
            metrics.filter(~pl.col("pooled") & ~pl.col("muted"))
            .group_by(pl.col(by).alias("group"), maintain_order=True)
            .agg(
                pl.len().cast(pl.Int64).alias("metrics"),
                (verdict == "different").sum().cast(pl.Int64).alias("different"),
                ((pl.col("effect") == "worse") & (verdict == "different")).sum().cast(pl.Int64).alias("worse"),
                (verdict == "equivalent").sum().cast(pl.Int64).alias("equivalent"),
                (verdict == "undecided").sum().cast(pl.Int64).alias("undecided"),
                (verdict == "missing").sum().cast(pl.Int64).alias("missing"),
                pl.col("matched").filter(verdict != "missing").mean().alias("share"),
                pl.col("ratio").filter(pl.col("ratio").is_finite()).median().alias("ratio"),
            )
            .with_columns(pl.lit(by).alias("by"))
        )
    )


def geometric_mean(metrics: pl.DataFrame, *, right_over_left: bool) -> tuple[float | None, int]:
    """Return the geometric mean over the counted rows of the ``metrics`` table (None without any) and their number.

    Ratios right to left of metrics for which higher is better are inverted, so that above 1 is worse. Ratios that are 0,
    infinite or unknown are left out. ``right_over_left``: the column ``ratio`` is right to left, else left to right.
    """
    counted = metrics.filter(~pl.col("pooled") & ~pl.col("muted") & (pl.col("ratio") > 0) & pl.col("ratio").is_finite())
    if not counted.height:
        return None, 0
    worse_above = (counted["direction"] == "lower") == right_over_left
    logs = counted["ratio"].log()
    total = math.fsum(log if above else -log for log, above in zip(logs.to_list(), worse_above.to_list(), strict=True))
    return math.exp(total / counted.height), counted.height
