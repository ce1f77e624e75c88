"""Build the result: tables, summary, headline, notes, findings and their JUnit test cases, gauges for Prometheus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
import polars as pl

from engine.core import units
from engine.core.reading import Problem
from engine.core.view import Finding, Headline, Inputs, Level, Result, Trend
from engine.output.export import at_least
from engine.output.exposition import Gauge
from engine.output.junit import Case, Suite
from engine.run_comparison.insight import change_points, statistical
from engine.run_comparison.insight.statistical import (
    DIFFERENT_METRICS,
    geometric_mean,
    level_of,
    name_of,
    overall_level,
    size_times_evidence,
    verdicts_by_label,
)
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.result.comparison_rows import Comparison
from engine.run_comparison.result.detail import Detail
from engine.run_comparison.runs.runs import RunKey, Runs, one_per_file
from engine.run_comparison.runs.selection import Sides, in_words, shorten
from engine.run_comparison.tables import CHANGE_POINTS, METRICS, MISSING, RUNS

MAX_FINDINGS = 200
"""Most regressions, and most improvements, with a finding of their own; the rest share one."""


def percent(share: float | None) -> str:
    """Format a share as a percentage."""
    return "–" if share is None else f"{share * 100:.1f} %"


def worse_by(ratio: float) -> str:
    """Word a ratio that is above 1 if the right side is worse."""
    if round(abs(ratio - 1.0), 3) == 0:
        return "unchanged"
    return f"{abs(ratio - 1.0) * 100:.1f} % {'worse' if ratio > 1 else 'better'}"


def changed_in_words(summary: Mapping[str, Any]) -> str:
    """Word the numbers of worse and better metrics; if both are 0, also the undecided ones."""
    words = f"{summary['worse']} worse, {summary['better']} better"
    decided = summary["worse"] or summary["better"] or not summary["undecided"]
    return words if decided else f"{words}, {summary['undecided']} undecided"


NAMED_IN_REVIEW = 3
"""Regressions named in the review line."""


def review_line(summary: Mapping[str, Any], metrics: pl.DataFrame, parameters: ComparisonParameters) -> str:
    """Return one line for a review: counts, overall change, largest regressions, both sides."""
    text = f"{changed_in_words(summary)} of {summary['total']} metrics"
    if summary["geometric_mean"] is not None:
        text += f", geometric mean {worse_by(summary['geometric_mean'])}"
    if summary["muted"]:
        text += f", {summary['muted']} muted"
    rows = metrics.filter("regression")
    worst = []
    for row in _largest_first(rows).head(NAMED_IN_REVIEW).iter_rows(named=True):
        left, right = _middles(row)
        worst.append(f"{name_of(row)} {left:.4g} to {right:.4g} {row['unit']}".rstrip())
    more = f" and {rows.height - len(worst)} more" if rows.height > len(worst) else ""
    listed = f"; worst: {', '.join(worst)}{more}" if worst else ""
    sides = f"{summary['runs_right']} runs of {summary['right']} against {summary['runs_left']} of {summary['left']}"
    return f"{summary['verdict']}: {text}{listed} ({sides}, {parameters.mode})"


def findings(
    summary: Mapping[str, Any], metrics: pl.DataFrame, parameters: ComparisonParameters
) -> tuple[Finding, ...]:
    """Return the overall verdict, then regressions and other differences, each the largest first.

    Only the verdict and regressions can be worse than ok.
    """
    share = f"{summary['matched']} of {summary['total']} metrics matched ({percent(summary['share'])})"
    if summary["share_low"] is not None:
        share += f", {percent(summary['share_low'])} to {percent(summary['share_high'])} over resampled runs"
    counted = f"{summary['regressions']} regressions, {summary['better']} for the better"
    text = f"{summary['verdict']}: {share}; {percent(parameters.pass_share)} are needed; {counted}"
    level = overall_level(summary, parameters)
    if level == "low":
        text += ", without which it would pass"
    found = [Finding(level, "comparison", text)]
    picked = metrics.filter(DIFFERENT_METRICS & (pl.col("n_left") > 0))
    found += _of_metrics(picked.filter("regression"), level_of(summary, parameters), "regressions", parameters)
    found += _of_metrics(picked.filter(~pl.col("regression")), "ok", "differences that are no regression", parameters)
    return tuple(found)


def _of_metrics(rows: pl.DataFrame, level: Level, what: str, parameters: ComparisonParameters) -> list[Finding]:
    largest = _largest_first(rows).head(MAX_FINDINGS)
    found = [
        Finding(
            level,
            name_of(row),
            _sentence(row, parameters),
            ("metrics", tuple(row[name] for name in METRICS.key)),
            cause=_same_operation(row, what),
        )
        for row in largest.iter_rows(named=True)
    ]
    rest = rows.height - MAX_FINDINGS
    if rest > 0:
        found.append(Finding(level, "comparison", f"{rest} more {what}", rest=rest))
    return found


def _same_operation(row: Mapping[str, Any], what: str) -> str:
    """Return what the metrics of one operation on one resource have in common, whatever test or quantile; else empty."""
    words = " ".join(row[name] for name in ("verb", "resource", "subresource", "scope") if row[name])
    return f"{what}: {words}" if words else ""


def _largest_first(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort metrics by the size of their ratio; those without one changed from or to 0 and come first."""
    return rows.sort(pl.col("ratio").log().abs().fill_null(float("inf")), descending=True, maintain_order=True)


def _middles(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return the values behind the ratio: medians in the statistical mode, else means."""
    name = "mean" if row["median_left"] is None or row["median_right"] is None else "median"
    return row[f"{name}_left"], row[f"{name}_right"]


def _sentence(row: Mapping[str, Any], parameters: ComparisonParameters) -> str:
    left, right = _middles(row)
    text = f"{left:.6g} against {right:.6g} {row['unit']}".rstrip()
    if row["ratio"] is not None:
        side = "right/left" if parameters.mode == "statistical" else "left/right"
        text += f", ratio {side} {row['ratio']:.3g}"
    if row["ratio_low"] is not None and row["ratio_high"] is not None:
        text += f" [{row['ratio_low']:.3g}, {row['ratio_high']:.3g}]"
    if row["q_value"] is not None:
        text += f", q {row['q_value']:.2g}"
    elif row["p_value"] is not None:
        text += f", p {row['p_value']:.2g}"
    text += f", n {row['n_left']} and {row['n_right']}"
    return f"{text}, {row['effect']}" if row["effect"] else text


def junit_suite(result: Result, parameters: ComparisonParameters, failing: Level) -> Suite:
    """Return one case for the comparison and one per metric.

    The overall verdict and regressions fail exactly if they make ``check`` fail at level ``failing``. Missing and undecided
    metrics are skipped; improvements pass.
    """
    summary = result.summary
    gates = {finding.subject: finding for finding in reversed(at_least(result.findings, failing))}
    overall = next(finding for finding in result.findings if finding.subject == "comparison")
    group, name = "run-comparison", "whole comparison"
    if gates.get("comparison") is overall:
        cases = [Case(group, name, "failure", overall.text, overall.level)]
    else:
        cases = [Case(group, name, "passed" if summary["pass"] is not None else "skipped", overall.text)]
    level = level_of(summary, parameters)
    worse_fails = bool(at_least((overall.__class__(level, "", ""),), failing))
    names = (
        "test",
        "verb",
        "resource",
        "subresource",
        "scope",
        "bucket",
        "verdict",
        "pooled",
        "metric",
        "regression",
        "muted",
    )
    for row in result.tables["metrics"].select(names).iter_rows(named=True):
        if row["pooled"]:
            continue
        name = " ".join([row[part] for part in names[1:6] if row[part]]) or "value"
        if row["metric"] and row["metric"] not in name:
            name += f" ({row['metric']})"
        group = f"run-comparison.{row['test'] or 'metrics'}"
        if row["regression"] and worse_fails:
            finding = gates.get(name_of(row))
            cases.append(Case(group, name, "failure", finding.text if finding else "worse", level))
        elif row["muted"] or row["verdict"] in ("missing", "undecided"):
            cases.append(Case(group, name, "skipped", "muted" if row["muted"] else row["verdict"]))
        else:
            cases.append(Case(group, name))
    properties = {key: str(value) for key, value in summary.items() if value is not None}
    return Suite("run-comparison", tuple(cases), properties, " ".join(result.notes))


def build_result(
    inputs: Inputs,
    parameters: ComparisonParameters,
    sides: Sides,
    runs: Runs,
    comparison: Comparison,
    problems: Sequence[Problem],
    problems_of_run: Mapping[RunKey, int],
) -> Result:
    """Return the result that all front ends show."""
    metrics = METRICS.sorted(
        statistical.mark(
            _without_nan(METRICS.frame(comparison.columns)).with_columns(size_times_evidence().alias("evidence")),
            parameters,
        )
    )
    tables = {
        "metrics": metrics,
        "runs": _runs_table(runs, sides, comparison, problems_of_run),
        "missing": _missing_table(metrics),
        "change_points": _change_table(comparison, metrics),
        "groups": verdicts_by_label(metrics, parameters.group_by),
    }
    summary = _summary(tables, parameters, sides, runs, comparison)
    summary["review"] = review_line(summary, metrics, parameters)
    begun = [(run.started_ms, run.name) for run in (*sides.left, *sides.right) if run.started_ms is not None]
    notes = [note for note in (sides.note, runs.left_out) if note]
    notes += [_selection_note(parameters, sides), *comparison.notes]
    upper = parameters.upper if parameters.mode == "published" else 1.0 / max(parameters.threshold, 1e-9)
    return Result(
        view="run-comparison",
        summary=summary,
        tables=tables,
        headline=_headline(summary, parameters),
        findings=findings(summary, metrics, parameters),
        notes=tuple(notes),
        problems=one_per_file((*problems, *runs.bad_names, *comparison.problems)),
        newest_ms=inputs.newest_ms,
        trend=Trend("worse", (float(summary["worse"]),)),
        answer=_answer(metrics, sides),
        latest=f"run {max(begun)[1]}" if begun else "",
        detail=Detail(
            comparison.samples,
            sides.left,
            sides.right,
            comparison.axis or change_points.time_axis(sides.left, sides.right),
            comparison.changes,
            parameters.threshold,
            upper,
            parameters.alpha,
            sides.left_patterns,
            sides.right_patterns,
            (inputs.version, parameters, tuple(run.key for run in (*sides.left, *sides.right))),
        ),
    )


def _summary(
    tables: Mapping[str, pl.DataFrame],
    parameters: ComparisonParameters,
    sides: Sides,
    runs: Runs,
    comparison: Comparison,
) -> dict[str, Any]:
    verdicts = Counter(compress(comparison.columns["verdict"], comparison.counted.tolist()))
    matched = int((comparison.matched & comparison.counted).sum())
    total = int(comparison.counted.sum())
    metrics = tables["metrics"]
    mean, of = geometric_mean(metrics, right_over_left=parameters.mode == "statistical")
    strict, failed = parameters.mode == "upstream", parameters.include_failed
    left, right = (
        in_words(shorten(patterns, runs, strict=strict, failed=failed))
        for patterns in (sides.left_patterns, sides.right_patterns)
    )
    return {
        "mode": parameters.mode,
        "scheme": parameters.scheme if parameters.mode == "upstream" else None,
        "threshold": parameters.threshold,
        "left": left,
        "right": right,
        "runs_left": len(sides.left),
        "runs_right": len(sides.right),
        "matched": matched,
        "mismatched": total - matched,
        "total": total,
        "share": comparison.share,
        "share_low": _finite(comparison.interval[0]) if comparison.interval else None,
        "share_high": _finite(comparison.interval[1]) if comparison.interval else None,
        "pass": comparison.passed,
        "verdict": comparison.verdict,
        "missing": tables["missing"].height,
        "different": verdicts.get("different", 0),
        "equivalent": verdicts.get("equivalent", 0),
        "undecided": verdicts.get("undecided", 0),
        "worse": metrics.filter(statistical.WORSENED).height,
        "better": metrics.filter(statistical.IMPROVED).height,
        "regressions": int(metrics["regression"].sum()),
        "muted": metrics.filter(pl.col("muted") & ~pl.col("pooled")).height,
        "geometric_mean": mean,
        "geometric_mean_of": of,
        "change_points": tables["change_points"].height,
        "bad_runs": int(tables["runs"].get_column("bad").fill_null(False).sum()),
        **comparison.extra,
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _without_nan(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def _answer(metrics: pl.DataFrame, sides: Sides) -> str:
    """Return between what was compared and which metric became worst, as a sentence."""
    before, after = (
        " and ".join(dict.fromkeys(run.job or run.name for run in side)) for side in (sides.left, sides.right)
    )
    between = f"{before} → {after}" if before != after else f"{before}: {len(sides.left)} → {len(sides.right)} runs"
    worse = _largest_first(metrics.filter("regression"))
    if worse.is_empty():
        return f"{between}: nothing became worse"
    row = worse.row(0, named=True)
    left, right = _middles(row)
    change = units.number(left, 3), units.number(right, 3)
    return f"{between}: {worse.height:,} worse, most {name_of(row)}, {change[0]} → {change[1]} {row['unit']}".rstrip()


def _selection_note(parameters: ComparisonParameters, sides: Sides) -> str:
    failed = sum(1 for run in (*sides.left, *sides.right) if run.ci and not run.success)
    odd = f"; {failed} of them did not finish with SUCCESS" if failed else ""
    runs = "run" if len(sides.left) == 1 else "runs"
    return (
        f"{len(sides.left)} {runs} on the left and {len(sides.right)} on the right (select {parameters.select}){odd}."
    )


def _runs_table(
    runs: Runs, sides: Sides, comparison: Comparison, problems_of_run: Mapping[RunKey, int]
) -> pl.DataFrame:
    row_of = {run: row for row, run in enumerate(runs.runs)}
    size = len(runs.runs)
    words = np.full(size, "", dtype=object)
    order: list[int | None] = [None] * size
    bad: list[bool | None] = [None] * size
    scores = {name: np.full(size, np.nan) for name in ("influence", "badness", "outliers")}
    # A run on both sides shows its place and scores of the left one.
    for side, word, chosen in ((1, "right", sides.right), (0, "left", sides.left)):
        rows = np.array([row_of[run] for run in chosen], dtype=np.int64)
        words[rows] = np.where(words[rows] == "", word, "both")
        for place, row in enumerate(rows.tolist()):
            order[row] = place
        if comparison.scores is not None:
            of_side = comparison.scores[side]
            for name, values in scores.items():
                values[rows] = getattr(of_side, name)
            for row, stands_out in zip(rows.tolist(), of_side.bad.tolist(), strict=True):
                bad[row] = stands_out
    columns: dict[str, Any] = {
        "job": [run.job for run in runs.runs],
        "run": [run.name for run in runs.runs],
        "number": [run.number for run in runs.runs],
        "time_ms": [run.time_ms for run in runs.runs],
        "result": [run.state for run in runs.runs],
        "side": words.tolist(),
        "order": order,
        "files": [len(run.files) for run in runs.runs],
        "values": [run.values for run in runs.runs],
        "problems": [problems_of_run.get(run.key, 0) for run in runs.runs],
    }
    if comparison.scores is not None:
        columns |= {**scores, "bad": bad}
    return RUNS.sorted(_without_nan(RUNS.frame(columns)))


def _missing_table(metrics: pl.DataFrame) -> pl.DataFrame:
    lacking = metrics.filter(((pl.col("n_left") == 0) | (pl.col("n_right") == 0)) & ~pl.col("pooled"))
    names = [column.name for column in MISSING.columns if column.name not in ("side", "n")]
    return MISSING.sorted(
        MISSING.frame(
            lacking.select(
                *names,
                pl.when(pl.col("n_left") == 0).then(pl.lit("left")).otherwise(pl.lit("right")).alias("side"),
                (pl.col("n_left") + pl.col("n_right")).alias("n"),
            )
        )
    )


def _change_table(comparison: Comparison, metrics: pl.DataFrame) -> pl.DataFrame:
    if comparison.axis is None:
        return CHANGE_POINTS.empty()
    parts = [("both sides", comparison.axis, comparison.changes), *comparison.by_job]
    found = [(along, axis, changes) for along, axis, every in parts for changes in every]
    names = ("test", "verb", "resource", "subresource", "scope", "bucket", "unit", "metric")
    wanted = pl.Series("row", sorted({changes.metric for _, _, changes in found}), dtype=pl.Int64)
    named = {
        row[0]: row[1:]
        for row in metrics.filter(pl.col("row").is_in(wanted.implode())).select("row", *names).iter_rows()
    }
    columns: dict[str, list[Any]] = defaultdict(list)
    for along, axis, changes in found:
        for point, position in zip(changes.points, changes.positions, strict=True):
            run = axis.runs[position]
            for name, value in zip(names, named[changes.metric], strict=True):
                columns[name].append(value)
            columns["along"].append(along)
            columns["index"].append(position)
            columns["job"].append(run.job)
            columns["run"].append(run.name)
            columns["time_ms"].append(run.time_ms)
            columns["mean_before"].append(point.mean_before)
            columns["mean_after"].append(point.mean_after)
            columns["change"].append(point.relative_change if np.isfinite(point.relative_change) else None)
            columns["p_value"].append(point.p_value)
            columns["inside"].append(axis.inside(position))
    return CHANGE_POINTS.sorted(CHANGE_POINTS.frame(columns))


def _headline(summary: dict[str, Any], parameters: ComparisonParameters) -> tuple[Headline, ...]:
    level = statistical.overall_level(summary, parameters)
    interval = (
        f"{percent(summary['share_low'])} to {percent(summary['share_high'])} over resampled runs; "
        if summary["share_low"] is not None
        else ""
    )
    basis = f"{interval}{summary['runs_left']} against {summary['runs_right']} runs"
    changed = changed_in_words(summary)
    shown = [
        Headline(
            "Changed",
            changed,
            f"{summary['muted']} muted" if summary["muted"] else "",
            statistical.level_of(summary, parameters) if summary["regressions"] else "ok",
            short=("", changed),
        ),
        Headline("Verdict", str(summary["verdict"]), f"passes from {percent(parameters.pass_share)}", level),
        Headline("Matched", f"{summary['matched']} of {summary['total']} ({percent(summary['share'])})", basis),
    ]
    missing = Headline("Missing", str(summary["missing"]), "on one side only")
    most = summary["missing"] > summary["total"]  # then a verdict on the remaining metrics says little
    if most:
        shown.insert(1, replace(missing, level="moderate", short=("missing", missing.value)))
    if summary["geometric_mean"] is not None:
        basis = f"of {summary['geometric_mean_of']} ratios"
        shown.append(Headline("geometric mean", worse_by(summary["geometric_mean"]), basis))
    if parameters.mode == "statistical":
        shown += [
            Headline("Equivalent", str(summary["equivalent"]), "interval inside the margin"),
            Headline("Undecided", str(summary["undecided"])),
        ]
    elif parameters.mode == "published" and summary.get("similarity") is not None:
        shown.append(Headline("Similarity", f"{summary['similarity']:.2f}", "mean over the compared metrics"))
    return tuple(shown if most else [*shown, missing])


_GROUP = {"group": "group", "by": "by"}

GAUGES = (
    Gauge("comparison_metrics", "groups", "metrics", "Metrics compared.", _GROUP),
    Gauge("comparison_worse_metrics", "groups", "worse", "Metrics that are worse on the right side.", _GROUP),
    Gauge("comparison_different_metrics", "groups", "different", "Metrics that differ.", _GROUP),
    Gauge("comparison_missing_metrics", "groups", "missing", "Metrics that one side lacks.", _GROUP),
    Gauge("comparison_matched_ratio", "groups", "share", "Part of the metrics that match.", _GROUP),
)
