"""Build the result: tables, summary, headline, notes, findings, gauges for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from engine.core.exports import Gauge
from engine.core.reading import Problem
from engine.core.units import named, plural
from engine.core.view import LEVELS, Finding, Headline, Inputs, Level, Result, Trend
from engine.run_comparison.insight import along_runs, statistical
from engine.run_comparison.insight.statistical import (
    DIFFERENT_METRICS,
    geometric_mean,
    level_of,
    overall_level,
    size_times_evidence,
    verdicts_by_label,
)
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.result.comparison_rows import Comparison
from engine.run_comparison.result.detail import Detail
from engine.run_comparison.runs.measurements import canonical_unit, is_time
from engine.run_comparison.runs.runs import RunKey, Runs, one_per_file
from engine.run_comparison.runs.selection import OWN_TIMES, Sides, counts_as_finished, in_words, shorten
from engine.run_comparison.tables import CHANGE_POINTS, METRICS, MISSING, RUNS
from engine.run_comparison.words import change_text, counted, p_text, side_names, size_text, title_of

MOST_NOTES = 5  # most notes of single files that are shown
MAX_FINDINGS = 200  # most regressions, and most improvements, with a finding of their own; the rest share one


def percent(share: float | None) -> str:
    """Format a share as a percentage."""
    return "–" if share is None else f"{share * 100:.1f}%"


def worse_by(ratio: float) -> str:
    """Word a ratio that is above 1 if the right side is worse."""
    return (
        "unchanged"
        if round(abs(ratio - 1.0), 3) == 0
        else f"{abs(ratio - 1.0) * 100:.1f}% {'worse' if ratio > 1 else 'better'}"
    )


def changed_in_words(summary: Mapping[str, Any]) -> str:
    """Word the numbers of worse and better metrics; if both are 0, also those that look worse or are undecided."""
    words = f"{summary['worse']} worse, {summary['better']} better"
    if summary["untold"]:
        return f"{words}, {summary['untold']} may be worse"
    decided = summary["worse"] or summary["better"] or not summary["undecided"]
    return words if decided else f"{words}, {summary['undecided']} undecided"


SIMILAR = {True: "yes", False: "no", None: "not known"}  # whether the sides are similar enough, in words

NAMED_IN_REVIEW = 3  # regressions named in the review line


def review_line(summary: Mapping[str, Any], metrics: pl.DataFrame, parameters: ComparisonParameters) -> str:
    """Return one line for a review: counts, overall change, largest regressions, both sides."""
    text = f"{changed_in_words(summary)} of {counted(summary['total'], 'metric')}"
    if summary["geometric_mean"] is not None:
        text += f", geometric mean {worse_by(summary['geometric_mean'])}"
    if summary["muted"]:
        text += f", {summary['muted']} muted"
    rows = metrics.filter("regression")
    worst = [
        f"{title_of(row)} {change_text(*middles(row), row['unit'])}"
        for row in _largest_first(rows).head(NAMED_IN_REVIEW).iter_rows(named=True)
    ]
    listed = f"; worst: {named(worst, NAMED_IN_REVIEW, rows.height)}" if worst else ""
    sides = (
        f"{counted(summary['runs_right'], 'run')} of {summary['right']} against "
        f"{counted(summary['runs_left'], 'run')} of {summary['left']}"
    )
    similar = f"similar enough: {SIMILAR[summary['pass']]}"
    return f"{summary['right_name']} against {summary['left_name']}: {text}{listed}; {similar} ({sides}, {parameters.mode})"


def findings(
    summary: Mapping[str, Any], metrics: pl.DataFrame, parameters: ComparisonParameters, sides: Sides
) -> tuple[Finding, ...]:
    """Return the whole comparison, regressions and other differences: the worst level first, within it the largest.

    Only the whole and regressions can be worse than ok, and improvements whose direction is a guess.
    """
    names = f"{summary['right_name']} against {summary['left_name']}"
    share = f"{summary['matched']} of {counted(summary['total'], 'metric')} ({percent(summary['share'])})"
    similar = f"similar enough: {SIMILAR[summary['pass']]}, {share}, {percent(parameters.pass_share)} are needed"
    failed = _failed(sides)
    level = overall_level(summary, parameters, failed)
    text = f"{names}: {changed_in_words(summary)}; {similar}"
    if summary["untold"]:
        fewest = statistical.fewest_values(parameters.alpha * summary["untold"] / summary["total"])
        text = (
            f"{names}: {summary['untold']} of {counted(summary['total'], 'metric')} may be worse by "
            f"{100 * parameters.worse_by:g}% or more, and fewer than {fewest} values a side "
            f"cannot tell: measure {fewest} runs of each"
        )
        looks_worse = pl.col("cliffs_delta") * pl.when(pl.col("direction") == "lower").then(-1).otherwise(1)
        few = pl.min_horizontal("n_left", "n_right") < statistical.fewest_values(parameters.alpha)
        undecided = (pl.col("verdict") == statistical.UNDECIDED) & ~pl.col("pooled") & ~pl.col("muted")
        rows = metrics.filter(undecided & (looks_worse >= pl.when(few).then(1e-9).otherwise(1)))
        for row in _largest_first(rows).head(1).iter_rows(named=True):
            text += f"; the largest: {title_of(row)} {change_text(*middles(row), row['unit'])}"
    elif not summary["total"] and summary["missing"]:
        text += f"; none of {counted(summary['missing'], 'metric')} is on both sides"
    elif level == "moderate":
        text += f"; {counted(summary['missing'], 'metric')} on one side only"
        text += f", where {counted(failed, 'run')} failed" if failed else ""
    elif level == "low" and summary["pass"] is False:
        text += "; the better ones explain it"
    found = [Finding(level, "comparison", text)]
    picked = metrics.filter(DIFFERENT_METRICS & (pl.col("n_left") > 0))
    found += _of_metrics(picked.filter("regression"), level_of(summary, parameters), "regressions", summary)
    better = pl.col("effect") == "better"
    doubted: Level = "ok" if not sides.guess else "low" if sides.guess == OWN_TIMES else "moderate"
    improved = picked.filter(better)
    for rows, of_rows, what in (
        (improved, doubted, "changes for the better"),
        (picked.filter(~pl.col("regression") & ~better), "ok", "differences that are no regression"),
    ):
        found += _of_metrics(rows, of_rows, what, summary, sides.guess if rows is improved else "")
    return tuple(sorted(found, key=lambda finding: -LEVELS.index(finding.level)))


def _of_metrics(
    rows: pl.DataFrame, level: Level, what: str, summary: Mapping[str, Any], guess: str = ""
) -> list[Finding]:
    largest = _largest_first(rows).head(MAX_FINDINGS)
    doubt = ""
    if guess:
        doubt = f"; only {guess} say{'' if guess.endswith('s') else 's'} which side is the newer: set left and right"
        what = "changes"
    found = [
        Finding(
            level,
            title_of(row),
            _sentence(row, summary) + doubt,
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
    if rows.height < 2:
        return rows
    return rows.sort(pl.col("ratio").log().abs().fill_null(float("inf")), descending=True, maintain_order=True)


def middles(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return the values behind the ratio: medians in the statistical mode, else means."""
    name = "mean" if row["median_left"] is None or row["median_right"] is None else "median"
    return row[f"{name}_left"], row[f"{name}_right"]


def _sentence(row: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Say what changed by how much, from which side to which, and how sure that is."""
    text = change_text(*middles(row), row["unit"])
    ratio = row["ratio"]
    if ratio:
        time = is_time(canonical_unit(row["unit"]).name)
        text += f", {size_text(ratio if summary['mode'] == 'statistical' else 1 / ratio, time=time)}"
    if row["direction"] == "higher":
        text += ", higher is better"
    sure = next(
        ((word, row[name]) for word, name in (("q", "q_value"), ("p", "p_value")) if row[name] is not None), None
    )
    tested = "" if sure is None else f", {sure[0]} {p_text(sure[1])}"
    return f"{text} ({summary['left_name']} → {summary['right_name']}{tested})"


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
        _without_nan(METRICS.frame(comparison.columns)).with_columns(
            size_times_evidence().alias("evidence"), statistical.WORSENED.fill_null(False).alias("regression")
        )
    )
    missing = metrics.filter(((pl.col("n_left") == 0) | (pl.col("n_right") == 0)) & ~pl.col("pooled")).select(
        *[column.name for column in MISSING.columns if column.name not in ("side", "n")],
        pl.when(pl.col("n_left") == 0).then(pl.lit("left")).otherwise(pl.lit("right")).alias("side"),
        (pl.col("n_left") + pl.col("n_right")).alias("n"),
    )
    tables = {
        "metrics": metrics,
        "runs": _runs_table(runs, sides, comparison, problems_of_run),
        "missing": MISSING.sorted(MISSING.frame(missing)),
        "change_points": _change_table(comparison, metrics),
        "groups": verdicts_by_label(metrics, parameters.group_by),
    }
    summary = _summary(tables, parameters, sides, runs, comparison)
    summary["review"] = review_line(summary, metrics, parameters)
    begun = [(run.started_ms, run.name) for run in (*sides.left, *sides.right) if run.started_ms is not None]
    notes = [note for note in (sides.note, runs.left_out, *runs.notes[:MOST_NOTES]) if note]
    notes += [
        _selection_note(parameters, sides, runs, (summary["left_name"], summary["right_name"])),
        *comparison.notes,
    ]
    upper = parameters.upper if parameters.mode == "published" else 1.0 / max(parameters.threshold, 1e-9)
    return Result(
        view="run-comparison",
        summary=summary,
        tables=tables,
        headline=_headline(summary, parameters, sides),
        findings=findings(summary, metrics, parameters, sides),
        notes=tuple(notes),
        problems=one_per_file((*problems, *runs.bad_names, *comparison.problems)),
        newest_ms=inputs.newest_ms,
        trend=Trend("worse", (float(summary["worse"]),)),
        answer=_answer(summary, metrics, _failed(sides)),
        latest=f"run {max(begun)[1]}" if begun else "",
        detail=Detail(
            comparison.samples,
            sides.left,
            sides.right,
            comparison.axis or along_runs.time_axis(sides.left, sides.right),
            comparison.changes,
            parameters.threshold,
            upper,
            parameters.alpha,
            sides.left_patterns,
            sides.right_patterns,
            (summary["left_name"], summary["right_name"]),
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
    left_name, right_name = side_names(left, right)
    return {
        "mode": parameters.mode,
        "scheme": parameters.scheme if parameters.mode == "upstream" else None,
        "threshold": parameters.threshold,
        "left": left,
        "right": right,
        "left_name": left_name,
        "right_name": right_name,
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
        "untold": comparison.untold,
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


def _answer(summary: Mapping[str, Any], metrics: pl.DataFrame, failed: int) -> str:
    """Return between what was compared and which metric became worst, as a sentence."""
    between = f"{summary['left_name']} → {summary['right_name']}"
    worse = _largest_first(metrics.filter("regression"))
    for row in worse.head(1).iter_rows(named=True):
        return f"{between}: {worse.height:,} worse, most {title_of(row)}, {change_text(*middles(row), row['unit'])}"
    if summary["untold"]:
        return f"{between}: {summary['untold']:,} may be worse, too few values to tell"
    if summary["missing"] and not summary["total"]:
        return f"{between}: none of {counted(summary['missing'], 'metric')} is on both sides"
    most = f", {summary['missing']:,} on one side only" * statistical.lacks_much(summary, failed)
    return f"{between}: nothing became worse{most}"


def _failed(sides: Sides) -> int:
    return sum(1 for run in (*sides.left, *sides.right) if (run.finished or run.ci) and not run.success)


def _selection_note(parameters: ComparisonParameters, sides: Sides, runs: Runs, names: tuple[str, str]) -> str:
    """Say how many runs are compared, and what one run a side cannot show."""
    failed = _failed(sides)
    odd = f"; {failed} of them did not finish with SUCCESS" if failed else ""
    jobs = {run.job_path for run in (*sides.left, *sides.right)}
    ended = sum(
        1 for path in jobs for run in runs.jobs[path] if run.values and not counts_as_finished(run, strict=False)
    )
    if not parameters.include_failed and ended > failed:
        odd += f"; {counted(ended - failed, 'run')} that failed or did not end left out (include-failed)"
    left, right = (
        f"{counted(len(side), 'run')} of {name}" for side, name in zip((sides.left, sides.right), names, strict=True)
    )
    text = f"{left} and {right} (select {parameters.select}){odd}."
    if parameters.mode == "statistical" and min(len(sides.left), len(sides.right)) == 1:
        text += (
            " With one run on a side only the values inside the runs are compared: what differs from run to run (machine, "
            "neighbours, warm-up) cannot be seen."
        )
    return text


def _runs_table(
    runs: Runs, sides: Sides, comparison: Comparison, problems_of_run: Mapping[RunKey, int]
) -> pl.DataFrame:
    row_of = {run: row for row, run in enumerate(runs.runs)}
    size = len(runs.runs)
    words = np.full(size, "", dtype=object)
    order, bad = np.full(size, None, dtype=object), np.full(size, None, dtype=object)
    scores = {name: np.full(size, np.nan) for name in ("influence", "badness", "outliers")}
    # A run on both sides shows its place and scores of the left one.
    for side, word, chosen in ((1, "right", sides.right), (0, "left", sides.left)):
        rows = np.array([row_of[run] for run in chosen], dtype=np.int64)
        words[rows] = np.where(words[rows] == "", word, "both")
        order[rows] = range(len(rows))
        if comparison.scores is not None:
            of_side = comparison.scores[side]
            for name, values in scores.items():
                values[rows] = getattr(of_side, name)
            bad[rows] = of_side.bad.tolist()
    columns: dict[str, Any] = {
        "job": [run.job for run in runs.runs],
        "run": [run.name for run in runs.runs],
        "number": [run.number for run in runs.runs],
        "time_ms": [run.time_ms for run in runs.runs],
        "result": [run.state for run in runs.runs],
        "side": words.tolist(),
        "order": order.tolist(),
        "files": [len(run.files) for run in runs.runs],
        "values": [run.values for run in runs.runs],
        "problems": [problems_of_run.get(run.key, 0) for run in runs.runs],
    }
    if comparison.scores is not None:
        columns |= {**scores, "bad": bad.tolist()}
    return RUNS.sorted(_without_nan(RUNS.frame(columns)))


def _change_table(comparison: Comparison, metrics: pl.DataFrame) -> pl.DataFrame:
    if comparison.axis is None:
        return CHANGE_POINTS.empty()
    parts = [("both sides", comparison.axis, comparison.changes), *comparison.by_job]
    found = [(along, axis, changes) for along, axis, every in parts for changes in every]
    names: tuple[str, ...] = ("test", "verb", "resource", "subresource", "scope", "bucket", "unit", "metric")
    wanted = pl.Series("row", sorted({changes.metric for _, _, changes in found}), dtype=pl.Int64)
    named = {
        row[0]: row[1:]
        for row in metrics.filter(pl.col("row").is_in(wanted.implode())).select("row", *names).iter_rows()
    }
    rows = [
        (
            *named[changes.metric], along, position, run.job, run.name, run.time_ms, point.mean_before, point.mean_after,
            _finite(point.relative_change), point.p_value, axis.inside(position),
        )
        for along, axis, changes in found
        for point, position in zip(changes.points, changes.positions, strict=True)
        for run in (axis.runs[position],)
    ]  # fmt: skip
    names += (
        "along", "index", "job", "run", "time_ms", "mean_before", "mean_after", "change", "p_value", "inside",
    )  # fmt: skip
    return CHANGE_POINTS.sorted(CHANGE_POINTS.frame(dict(zip(names, zip(*rows, strict=True), strict=False))))


def _headline(summary: dict[str, Any], parameters: ComparisonParameters, sides: Sides) -> tuple[Headline, ...]:
    changed = changed_in_words(summary)
    most = statistical.lacks_much(summary, _failed(sides))
    level: Level = "ok" if 2 * summary["undecided"] < summary["total"] and not most else ""
    if summary["regressions"]:
        level = statistical.level_of(summary, parameters)
    elif summary["untold"] or (sides.guess not in ("", OWN_TIMES) and summary["better"]):
        level = "moderate"
    facts = [f"{counted(summary['runs_right'], 'run')} against {summary['runs_left']}"]
    facts += [f"{summary['muted']} muted"] if summary["muted"] else []
    facts += [f"only {sides.guess} say which is newer"] if sides.guess else []
    left, right = side_names(summary["left"], summary["right"], 14)
    limits = f"from {percent(parameters.pass_share)} on"
    if summary["share_low"] is not None:
        limits += f"; {percent(summary['share_low'])} to {percent(summary['share_high'])} over resampled runs"
    similar = (
        f"{SIMILAR[summary['pass']]}, {summary['matched']} of "
        f"{counted(summary['total'], 'metric')} ({percent(summary['share'])})"
    )
    shown = [
        Headline(
            f"{summary['right_name']} against {summary['left_name']}",
            changed,
            "; ".join(facts),
            level,
            short=(f"{right} against {left}", changed),
        ),
        Headline(
            "Similar enough",
            similar,
            limits,
            statistical.similar_level(summary, parameters),
            short=("Similar enough", SIMILAR[summary["pass"]]),
        ),
    ]
    missing = Headline("Missing", str(summary["missing"]), "on one side only")
    if most:
        shown.insert(1, replace(missing, level="moderate", short=("missing", missing.value)))
    if summary["geometric_mean"] is not None:
        basis = f"of {plural(summary['geometric_mean_of'], 'ratio')}"
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
