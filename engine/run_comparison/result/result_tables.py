"""Build the result: tables, summary, headline, findings, notes, and the gauges for Prometheus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
import polars as pl

from engine.core.inputs import Inputs
from engine.core.problems import Problem
from engine.core.result import Headline, Result, Trend
from engine.output.exposition import Gauge
from engine.run_comparison.insight import change_points, regressions
from engine.run_comparison.insight.evidence import size_times_evidence
from engine.run_comparison.insight.regressions import geometric_mean, verdicts_by_label
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.result.comparison_rows import Comparison
from engine.run_comparison.result.detail import Detail
from engine.run_comparison.result.findings import changed_in_words, findings, percent, review_line, worse_by
from engine.run_comparison.runs.runs import RunKey, Runs, one_per_file
from engine.run_comparison.runs.selection import Sides, in_words, shorten
from engine.run_comparison.tables import CHANGE_POINTS, METRICS, MISSING, RUNS


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
        regressions.mark(
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
        "worse": metrics.filter(regressions.WORSENED).height,
        "better": metrics.filter(regressions.IMPROVED).height,
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
    # A run on both sides shows its place and scores on the left one.
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
    level = regressions.overall_level(summary, parameters)
    interval = ""
    if summary["share_low"] is not None:
        interval = f"{percent(summary['share_low'])} to {percent(summary['share_high'])} over resampled runs; "
    basis = f"{interval}{summary['runs_left']} against {summary['runs_right']} runs"
    changed = changed_in_words(summary)
    shown = [
        Headline(
            "Changed",
            changed,
            f"{summary['muted']} muted" if summary["muted"] else "",
            regressions.level_of(summary, parameters) if summary["regressions"] else "ok",
            short=("", changed),
        ),
        Headline("Verdict", str(summary["verdict"]), f"passes from {percent(parameters.pass_share)}", level),
        Headline("Matched", f"{summary['matched']} of {summary['total']} ({percent(summary['share'])})", basis),
    ]
    missing = Headline("Missing", str(summary["missing"]), "on one side only")
    most = summary["missing"] > summary["total"]  # then a verdict on the rest says little
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
