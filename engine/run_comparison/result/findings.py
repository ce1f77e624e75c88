"""Word the findings and turn them into JUnit test cases: the verdict on the whole, regressions and other differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from engine.core.result import Finding, Level, Result
from engine.output.export import at_least
from engine.output.junit import Case, Suite
from engine.run_comparison.insight.regressions import DIFFERENT_METRICS, level_of, name_of, overall_level
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.tables import METRICS

MAX_FINDINGS = 200
"""Regressions, and improvements, that have a finding of their own; the rest of each is one."""


def percent(share: float | None) -> str:
    """Format a share as a percentage."""
    return "–" if share is None else f"{share * 100:.1f} %"


def worse_by(ratio: float) -> str:
    """Word a ratio that is above 1 where the right side is worse."""
    if round(abs(ratio - 1.0), 3) == 0:
        return "unchanged"
    return f"{abs(ratio - 1.0) * 100:.1f} % {'worse' if ratio > 1 else 'better'}"


def changed_in_words(summary: Mapping[str, Any]) -> str:
    """Return how many metrics became worse and better, the worse ones first; if none did, how many are undecided."""
    words = f"{summary['worse']} worse, {summary['better']} better"
    decided = summary["worse"] or summary["better"] or not summary["undecided"]
    return words if decided else f"{words}, {summary['undecided']} undecided"


NAMED_IN_REVIEW = 3
"""Regressions that the line for a review names."""


def review_line(summary: Mapping[str, Any], metrics: pl.DataFrame, parameters: ComparisonParameters) -> str:
    """Return one line to paste into a review: what changed, by how much on the whole, the worst of it, against what."""
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
    """Return the verdict on the whole, then the regressions and what else differs, each the largest first.

    Only the verdict and the regressions can be worse than ok.
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
        Finding(level, name_of(row), _sentence(row, parameters), ("metrics", tuple(row[name] for name in METRICS.key)))
        for row in largest.iter_rows(named=True)
    ]
    rest = rows.height - MAX_FINDINGS
    if rest > 0:
        found.append(Finding(level, "comparison", f"{rest} more {what}", rest=rest))
    return found


def _largest_first(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort metrics by the size of their ratio; one without a ratio changed from or to 0."""
    return rows.sort(pl.col("ratio").log().abs().fill_null(float("inf")), descending=True, maintain_order=True)


def _middles(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return what the ratio compares: the medians in the statistical mode, else the means."""
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

    What fails is what makes ``check`` fail from level ``failing`` on: the verdict on the whole, and regressions. A missing
    metric and one that is undecided are skipped; a metric that became better passes.
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
        words = [row[part] for part in names[1:6] if row[part]]
        name = " ".join(words) or "value"
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
