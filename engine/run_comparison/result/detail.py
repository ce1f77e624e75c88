"""Give the screen what it draws beyond the tables: samples, and the explanation of one verdict in words; and CI systems the
test cases of a result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from engine.core.exports import Case, Suite
from engine.core.units import plural
from engine.core.view import Level, Result, at_least
from engine.run_comparison.insight import statistical
from engine.run_comparison.insight.along_runs import Axis, MetricChanges, all_series
from engine.run_comparison.insight.statistical import level_of
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.reading.metric_kinds import BY_NAME
from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Samples
from engine.run_comparison.tables import METRICS
from engine.run_comparison.words import change_text, figures, p_text, ratio_text, title_of


class Detail(msgspec.Struct, frozen=True, eq=False):
    """Samples by the ``row`` column of the metrics table, and what is drawn with them.

    Runs of both sides are newest first; ``axis``: all runs in time order; ``changes``: change points by row; ``margin`` and
    ``upper``: the limits of the ratio; ``names``: the sides, short; ``token``: equal for results of the same inputs.
    """

    samples: Samples
    left: tuple[Run, ...]
    right: tuple[Run, ...]
    axis: Axis
    changes: tuple[MetricChanges, ...]
    margin: float
    upper: float
    alpha: float
    left_patterns: tuple[str, ...]
    right_patterns: tuple[str, ...]
    names: tuple[str, str]
    token: object

    def sample(self, row: int) -> tuple[Floats, Floats]:
        """Return the left and the right values of a metric."""
        return self.samples.left.of(row), self.samples.right.of(row)

    def series(self, row: int) -> tuple[Floats, Floats, Floats]:
        """Return the mean per run along the time axis: positions on the axis, values, side of each (0 left, 1 right)."""
        series = all_series(self.samples, self.axis, np.array([row]))[0]
        places = np.flatnonzero(~np.isnan(series))
        return places.astype(np.float64), series[places], self.axis.sides[places].astype(np.float64)

    def histogram(self, row: int, bins: int) -> tuple[Floats, Floats, Floats]:
        """Return common edges (one more than bins) and both samples' counts; empty without values."""
        left, right = self.sample(row)
        both = np.concatenate([left, right])
        if not both.size:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        low, high = float(both.min()), float(both.max())
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, bins + 1)
        counts = [np.histogram(side, edges)[0].astype(np.float64) for side in (left, right)]
        return edges, counts[0], counts[1]

    def change_points(self, row: int) -> MetricChanges | None:
        """Return the change points of a metric, None if it has none or was not searched."""
        return next((changes for changes in self.changes if changes.metric == row), None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Detail) and self.token == other.token


class Fact(NamedTuple):
    """A label, its value (empty: the label is a heading), and the level of its colour or empty."""

    label: str
    value: str
    level: str = ""


def _number(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.4g}"


def arithmetic(detail: Detail, row: Mapping[str, Any], parameters: ComparisonParameters) -> tuple[Fact, ...]:
    """Explain a metrics ``row`` in the mode of ``parameters``."""
    left, right = detail.sample(row["row"])
    facts = [Fact(title_of(row), "")]
    known = [values for values in (left, right) if values.size]
    deviations = (float(np.std(values, ddof=1)) if values.size > 1 else 0.0 for values in known)
    around, _ = figures((*(float(values.mean()) for values in known), *deviations), row["unit"])
    medians, unit = figures([float(np.median(values)) for values in known], row["unit"])
    texts = iter(zip(around, around[len(known) :], medians, strict=False))
    for word, values, runs in ((detail.names[0], left, row["runs_left"]), (detail.names[1], right, row["runs_right"])):
        if not values.size:
            facts.append(Fact(word, "no values", "low"))
            continue
        mean, deviation, median = next(texts)
        spread = f" ± {deviation}" if values.size > 1 else ""
        counted = f"{plural(values.size, 'value')} of {plural(runs, 'run')}"
        facts.append(Fact(word, f"mean {mean}{spread}, median {median}{unit}, {counted}"))
    with np.errstate(all="ignore"):
        if parameters.mode == "statistical":
            facts += _statistical(detail, row, left, right, parameters)
            facts += _changes(detail, row)
        elif parameters.mode == "published":
            facts += _published(row, parameters)
        else:
            facts += _benchmark(row, parameters)
    return tuple(facts)


def verdict_level(row: Mapping[str, Any]) -> str:
    """Return the level of a row's verdict: only worse, or different without a direction, is bad."""
    if row["verdict"] == statistical.DIFFERENT:
        return "ok" if row["effect"] == "better" else "severe" if row["effect"] == "worse" else "moderate"
    return "ok" if row["verdict"] == statistical.EQUIVALENT else "low"


def _statistical(
    detail: Detail, row: Mapping[str, Any], left: Any, right: Any, parameters: ComparisonParameters
) -> list[Fact]:
    if not (left.size and right.size):
        return [Fact("verdict", "missing: on one side only, never counted as matched", "low")]
    margin = statistical.usable_margin(parameters.threshold)
    q = row["q_value"] if row["q_value"] is not None else math.nan
    numbers = statistical.explain(left, right, margin, parameters.alpha, q)
    confidence = f"{1 - 2 * parameters.alpha:.0%}"
    interval = (
        "no interval: too few values"
        if math.isinf(numbers.ratio_high)
        else f"{ratio_text(numbers.ratio_low)} to {ratio_text(numbers.ratio_high)}"
    )
    inside = margin <= numbers.ratio_low and numbers.ratio_high <= 1 / margin
    significant = q <= parameters.alpha
    over = "/".join(reversed(detail.names))
    verdict = str(row["verdict"])
    if row["changed"] and verdict == statistical.EQUIVALENT:
        verdict += ", changed by less than counts (worse-by)"
    if verdict == statistical.UNDECIDED and row["runs_needed"] is not None:
        verdict += f": about {plural(row['runs_needed'], 'more run')} per side"
    if row["effect"]:
        verdict += f" ({row['direction']} is better: {row['effect']})"
    pooled = Fact("pooled", "the benchmark tool puts several metrics into this sample; it is shown, never counted")
    return [
        Fact(
            "ratio",
            f"{ratio_text(numbers.ratio)} {over} (median of all pairwise ratios), {confidence} {interval}",
        ),
        Fact(
            "margin",
            f"{margin:.3g} to {1 / margin:.3g}: the interval {'lies' if inside else 'does not lie'} inside; "
            f"two one-sided tests p {p_text(numbers.equivalence_p)}",
            "ok" if inside else "",
        ),
        Fact(
            "shift",
            f"Mann-Whitney p {p_text(numbers.p_value)}, q {p_text(q)} {'≤' if significant else '>'} {parameters.alpha:g}; "
            f"Cliff's delta {_number(row['cliffs_delta'])}",
            "moderate" if significant else "",
        ),
        Fact(
            "spread",
            f"KS p {p_text(numbers.spread_p)}, q {p_text(row['spread_q'])}; Brown-Forsythe p {p_text(numbers.brown_forsythe_p)}",
        ),
        Fact("verdict", verdict, verdict_level(row)),
        *([pooled] if row["pooled"] else []),
        *([] if row["upstream_matched"] is None else [
            Fact("benchmark tool", _why_benchmark(row, parameters), "moderate" if row["disagree"] else ""),
        ]),
    ]  # fmt: skip


def _changes(detail: Detail, row: Mapping[str, Any]) -> list[Fact]:
    """Explain where the level changes along the runs of both sides."""
    changes = detail.change_points(row["row"])
    if changes is None:
        return []
    facts = []
    for point, position in zip(changes.points, changes.positions, strict=True):
        run = detail.axis.runs[position]
        side = detail.axis.inside(position)
        named = dict(zip(("left", "right"), detail.names, strict=True))
        where = "where the side changes" if side == "between" else f"inside {named[side]}"
        change = point.relative_change
        share = f" ({change:+.1%})" if math.isfinite(change) else ""
        text = f"from {run.job}/{run.name} on: {change_text(point.mean_before, point.mean_after, row['unit'])}{share}"
        facts.append(Fact("change", f"{text}, p {p_text(point.p_value)}, {where}", "moderate"))
    return facts


def _why_benchmark(row: Mapping[str, Any], parameters: ComparisonParameters) -> str:
    """Explain the benchmark tool's answer for the same metric, and why it differs from the verdict."""
    word = "matched" if row["upstream_matched"] else "mismatched"
    left, right = row["mean_left"], row["mean_right"]
    ratio = left / right if left is not None and right else math.nan
    text = f"{word} ({parameters.scheme}): ratio of means left/right {_number(ratio)}"
    if not row["disagree"]:
        return text
    if row["upstream_matched"]:
        if left is not None and right is not None and max(left, right) < parameters.min_average:
            return f"{text}; both lie below {parameters.min_average:g} and are excused"
        if parameters.scheme == "avg":
            return f"{text} lies within the limits; the ranks tell the samples apart"
        return f"{text}; its p is above the threshold, the exact rank test over the whole comparison is not"
    if parameters.scheme == "ks":
        return f"{text}; a p below {parameters.threshold:g} says that there is a change, not that it matters"
    return f"{text} is beyond the limits: a few large values move the mean, not the median"


def _published(row: Mapping[str, Any], parameters: ComparisonParameters) -> list[Fact]:
    kind = BY_NAME.get(row["kind"])
    cut = kind.cutoff if kind is not None and row["unit"] == "ms" else None
    return [
        *([] if cut is None else [Fact("cutoff", f"values below {cut:g} ms count as {cut:g} ms")]),
        Fact("means", f"{_number(row['mean_left'])} and {_number(row['mean_right'])} after that"),
        Fact("ratio", f"{_number(row['ratio'])} left/right; limits {parameters.threshold:g} to {parameters.upper:g}"),
        Fact("similarity", f"{_number(row['similarity'])} ({parameters.similarity})"),
        Fact(
            "verdict",
            "matched" if row["matched"] else str(row["verdict"]),
            "ok" if row["matched"] else verdict_level(row),
        ),
    ]


def _benchmark(row: Mapping[str, Any], parameters: ComparisonParameters) -> list[Fact]:
    low = parameters.threshold
    high = math.inf if not low else 1.0 / low
    means, least = (row["mean_left"], row["mean_right"]), parameters.min_average
    verdict = "matched" if row["matched"] else "mismatched"
    if row["effect"]:
        verdict += f" ({row['direction']} is better: {row['effect']})"
    told = (
        (parameters.scheme == "avg",
         Fact("ratio", f"{_number(row['ratio'])} left/right; limits {low:g} to {high:.4g}, both inclusive")),
        (parameters.scheme != "avg", Fact("KS-Test", f"p {p_text(row['p_value'])}; matched from {low:g} on")),
        (None not in means and max(means) < least,
         Fact("excused", f"both means lie below {least:g}: matched in any case")),
        (not (row["n_left"] and row["n_right"]),
         Fact("one-sided", "a metric that one side lacks is matched, as in the benchmark tool", "moderate")),
        (True, Fact("verdict", verdict, "ok" if row["matched"] else verdict_level(row))),
    )  # fmt: skip
    return [fact for so, fact in told if so]


def junit_suite(result: Result, parameters: ComparisonParameters, failing: Level) -> Suite:
    """Return one case for the comparison and one per metric.

    The overall verdict and regressions fail exactly if they make ``check`` fail at level ``failing``. Missing and undecided
    metrics are skipped; improvements pass.
    """
    summary = result.summary
    failed = at_least(result.findings, failing)
    gates = {finding.row[1]: finding for finding in failed if finding.row is not None}
    overall = next(finding for finding in result.findings if finding.subject == "comparison")
    group, name = "run-comparison", "whole comparison"
    cases = [
        Case(group, name, "failure", overall.text, overall.level)
        if overall in failed
        else Case(group, name, "passed" if summary["pass"] is not None else "skipped", overall.text)
    ]
    level = level_of(summary, parameters)
    worse_fails = bool(at_least((overall.__class__(level, "", ""),), failing))
    for row in (
        result.tables["metrics"].select(*METRICS.key, "verdict", "pooled", "regression", "muted").iter_rows(named=True)
    ):
        if row["pooled"]:
            continue
        group, finding = (
            f"run-comparison.{row['test'] or 'metrics'}",
            gates.get(tuple(row[name] for name in METRICS.key)),
        )
        name = title_of(row)
        if finding is not None or (row["regression"] and worse_fails):
            cases.append(
                Case(group, name, "failure", finding.text if finding else "worse", finding.level if finding else level)
            )
        elif row["muted"] or row["verdict"] in ("missing", "undecided"):
            cases.append(Case(group, name, "skipped", "muted" if row["muted"] else row["verdict"]))
        else:
            cases.append(Case(group, name))
    properties = {key: str(value) for key, value in summary.items() if value is not None}
    return Suite("run-comparison", tuple(cases), properties, " ".join(result.notes))
