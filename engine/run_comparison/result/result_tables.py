"""From answers to the result: tables, summary, headline, findings, notes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.inputs import Inputs
from engine.problems import Problem
from engine.result import Finding, Headline, Level, Result
from engine.run_comparison.insight import change_points, statistical
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.result.comparison_rows import Compared
from engine.run_comparison.result.detail import Detail
from engine.run_comparison.runs.runs import Run, Runs, one_per_file
from engine.run_comparison.tables import CHANGE_POINTS, GROUPS, METRICS, MISSING, RUNS

MAX_FINDINGS = 200
"""Findings told one by one; the rest is a number in the overall finding."""


VARYING = ("verdict", "matched", "runs_needed", "effect", "upstream_matched", "disagree")
"""Columns of the metrics table that a threshold changes."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What of the tables no threshold changes: sorted, with the place of each sorted row in the columns it came from.
    ``run_places``: side (0 left, 1 right, -1 none) and place on it of each row of the runs table."""

    metrics: pl.DataFrame
    order: NDArray[np.uint32]
    missing: pl.DataFrame
    change_points: pl.DataFrame
    runs: pl.DataFrame
    run_places: tuple[NDArray[np.int64], NDArray[np.int64]]


def fixed_tables(runs: Runs, left: Sequence[Run], right: Sequence[Run], compared: Compared, listed: RunList) -> Fixed:
    """Tables of ``compared``; those of another threshold differ from them in ``VARYING`` and the runs' influence.
    ``listed``: what earlier calls found out about the runs."""
    frame = _weighed(_no_nan(METRICS.frame(compared.columns))).with_row_index(_PLACE)
    metrics = METRICS.sorted(frame)
    order = metrics.get_column(_PLACE).to_numpy()
    metrics = metrics.drop(_PLACE)
    runs_table, run_places = _runs_table(runs, left, right, compared, listed)
    return Fixed(
        metrics, order, _missing_table(metrics), _change_table(compared, metrics), runs_table, run_places
    )  # fmt: skip


def _varied(fixed: Fixed, compared: Compared) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Metrics and runs of ``fixed`` with what ``compared`` says of its own threshold."""
    given = [name for name in VARYING if name in compared.columns]
    fresh = pl.DataFrame([_column(name, compared.columns[name]) for name in given])[fixed.order]
    return fixed.metrics.with_columns(fresh.get_columns()), fixed.runs.with_columns(_influence(fixed, compared))


def _column(name: str, values: Any) -> pl.Series:
    return pl.Series(name, values, dtype=METRICS.schema[name])


def _influence(fixed: Fixed, compared: Compared) -> pl.Series:
    sides, places = fixed.run_places
    found = np.full(sides.size, np.nan)
    for side, scores in enumerate(compared.scores or ()):
        found[sides == side] = scores.influence[places[sides == side]]
    return pl.Series("influence", found).fill_nan(None)


_PLACE = "place before sorting"


def build_result(
    inputs: Inputs,
    parameters: ComparisonParameters,
    chosen: tuple[tuple[Run, ...], tuple[Run, ...], tuple[str, ...], tuple[str, ...], str],
    runs: Runs,
    compared: Compared,
    problems: Sequence[Problem],
    fixed: Fixed,
    words_of: Callable[[Sequence[str]], str],
) -> Result:
    """The result object that all front ends show. ``fixed``: the tables as they are for any threshold; ``words_of``:
    the patterns of a side as a text."""
    left, right, left_patterns, right_patterns, side_note = chosen
    metrics, runs_table = _varied(fixed, compared)
    tables = {
        "metrics": metrics,
        "runs": runs_table,
        "missing": fixed.missing,
        "change_points": fixed.change_points,
        "groups": group(metrics, parameters.group_by),
    }
    words = Counter(compress(compared.columns["verdict"], compared.counted.tolist()))
    matched = int((compared.matched & compared.counted).sum())
    total = int(compared.counted.sum())
    for_worse = (pl.col("effect") == "worse") & (pl.col("verdict") == statistical.DIFFERENT)
    worse = metrics.filter(for_worse & ~pl.col("pooled"))
    summary: dict[str, Any] = {
        "mode": parameters.mode,
        "scheme": parameters.scheme if parameters.mode == "upstream" else None,
        "threshold": parameters.threshold,
        "left": words_of(left_patterns),
        "right": words_of(right_patterns),
        "runs_left": len(left),
        "runs_right": len(right),
        "matched": matched,
        "mismatched": total - matched,
        "total": total,
        "share": compared.share,
        "share_low": _finite(compared.interval[0]) if compared.interval else None,
        "share_high": _finite(compared.interval[1]) if compared.interval else None,
        "pass": compared.passed,
        "verdict": compared.verdict,
        "missing": tables["missing"].height,
        "different": words.get("different", 0),
        "equivalent": words.get("equivalent", 0),
        "not_enough_data": words.get("not enough data", 0),
        "worse": worse.height,
        "change_points": tables["change_points"].height,
        "bad_runs": int(tables["runs"].get_column("bad").fill_null(False).sum()),
        **compared.extra,
    }
    notes = [side_note] if side_note else []
    notes += [_selection_note(parameters, left, right), *compared.notes]
    axis = compared.axis or change_points.time_axis(left, right)
    upper = parameters.upper if parameters.mode == "design" else 1.0 / max(parameters.threshold, 1e-9)
    return Result(
        view="run-comparison",
        summary=summary,
        tables=tables,
        headline=_headline(summary, parameters),
        findings=_findings(summary, metrics, parameters),
        notes=tuple(notes),
        problems=one_per_file((*problems, *runs.bad_names, *compared.problems)),
        newest_ms=inputs.newest_ms,
        detail=Detail(
            compared.samples,
            left,
            right,
            axis,
            compared.changes,
            parameters.threshold,
            upper,
            parameters.alpha,
            left_patterns,
            right_patterns,
        ),
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _weighed(frame: pl.DataFrame) -> pl.DataFrame:
    """With ``evidence``: how far the ratio is from 1, weighed by how sure that is where a q says so. Missing: none."""
    size = pl.col("ratio").log().abs().clip(0.0, 50.0)
    sure = pl.when(pl.col("q_value").is_null()).then(1.0).otherwise(-pl.col("q_value").clip(1e-300, 1.0).log10())
    known = pl.col("ratio").is_not_null() & (pl.col("ratio") > 0)
    return frame.with_columns(pl.when(known).then(size * sure + 0.0).otherwise(None).alias("evidence"))


def _no_nan(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


def _selection_note(parameters: ComparisonParameters, left: Sequence[Run], right: Sequence[Run]) -> str:
    failed = sum(1 for run in (*left, *right) if run.ci and not run.success)
    odd = f"; {failed} of them did not finish with SUCCESS" if failed else ""
    return f"{len(left)} runs on the left and {len(right)} on the right (select {parameters.select}){odd}."


class RunList:
    """What the runs table says of each run itself, kept from one look to the next: a run that came costs one row."""

    def __init__(self) -> None:
        """No runs yet."""
        self._runs: dict[int, Run] = {}
        self._frame = pl.DataFrame()

    def frame(self, runs: Runs) -> tuple[list[Run], pl.DataFrame]:
        """The runs in the order of the frame's rows, and the frame."""
        fresh = [run for run in runs.runs if self._runs.get(id(run)) is not run]
        if not self._runs or len(self._runs) + len(fresh) != len(runs.runs):
            fresh, self._runs, self._frame = list(runs.runs), {}, pl.DataFrame()
        if fresh or not self._frame.width:
            columns: dict[str, list[Any]] = {
                "job": [run.job for run in fresh],
                "run": [run.name for run in fresh],
                "number": [run.number for run in fresh],
                "time_ms": [run.time_ms for run in fresh],
                "result": [run.state for run in fresh],
                "files": [len(run.files) for run in fresh],
                "values": [run.values for run in fresh],
            }
            rows = pl.DataFrame([pl.Series(name, of, dtype=RUNS.schema[name]) for name, of in columns.items()])
            self._frame = self._frame.vstack(rows) if self._frame.width else rows
            self._runs.update((id(run), run) for run in fresh)
        return list(self._runs.values()), self._frame


_SIDES = pl.Series(["left", "right", "both", ""])


def _runs_table(
    runs: Runs, left: Sequence[Run], right: Sequence[Run], compared: Compared, listed: RunList
) -> tuple[pl.DataFrame, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The runs table, and the side and place of each of its rows."""
    rows, frame = listed.frame(runs)
    row_of = {id(run): row for row, run in enumerate(rows)}
    words = np.full(len(rows), 3)
    sides, places = np.full(len(rows), -1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for side, chosen in ((1, right), (0, left)):
        at = np.array([row_of[id(run)] for run in chosen], dtype=np.int64)
        words[at] = np.where(words[at] == 1 - side, 2, side)
        sides[at], places[at] = side, np.arange(at.size)
    on = sides >= 0
    columns: dict[str, Any] = {name: frame.get_column(name) for name in frame.columns}
    columns["side"] = _SIDES.gather(words)
    columns["order"] = pl.Series(places).set(pl.Series(~on), None)
    columns["problems"] = [run.problems for run in rows]
    if compared.scores is not None:
        for name in ("influence", "badness", "outliers"):
            told = np.full(sides.size, np.nan)
            for side, scores in enumerate(compared.scores):
                told[sides == side] = getattr(scores, name)[places[sides == side]]
            columns[name] = told
        bad = np.zeros(sides.size, dtype=bool)
        for side, scores in enumerate(compared.scores):
            bad[sides == side] = scores.bad[places[sides == side]]
        columns["bad"] = pl.Series(bad).set(pl.Series(~on), None)
    table = RUNS.sorted(_no_nan(RUNS.frame(columns)).with_row_index(_PLACE))
    order = table.get_column(_PLACE).to_numpy()
    return table.drop(_PLACE), (sides[order], places[order])


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


def _change_table(compared: Compared, metrics: pl.DataFrame) -> pl.DataFrame:
    axis = compared.axis
    if axis is None or not compared.changes:
        return CHANGE_POINTS.empty()
    names = ("test", "verb", "resource", "subresource", "scope", "bucket", "unit", "metric")
    wanted = pl.Series("row", [found.metric for found in compared.changes], dtype=pl.Int64)
    named = {
        row[0]: row[1:]
        for row in metrics.filter(pl.col("row").is_in(wanted.implode())).select("row", *names).iter_rows()
    }
    columns: dict[str, list[Any]] = defaultdict(list)
    words = ("left", "right")
    for found in compared.changes:
        for point, position in zip(found.points, found.positions, strict=True):
            run = axis.runs[position]
            for name, value in zip(names, named[found.metric], strict=True):
                columns[name].append(value)
            columns["index"].append(position)
            columns["job"].append(run.job)
            columns["run"].append(run.name)
            columns["time_ms"].append(run.time_ms)
            columns["mean_before"].append(point.mean_before)
            columns["mean_after"].append(point.mean_after)
            columns["change"].append(point.relative_change if np.isfinite(point.relative_change) else None)
            columns["p_value"].append(point.p_value)
            here, before = int(axis.sides[position]), int(axis.sides[max(position - 1, 0)])
            columns["inside"].append(words[here] if here == before else "between")
    return CHANGE_POINTS.sorted(CHANGE_POINTS.frame(columns))


def group(metrics: pl.DataFrame, by: str) -> pl.DataFrame:
    """Verdicts by one of the labels, groups with most differences first: a shared cause shows as a group."""
    verdict = pl.col("verdict")
    return GROUPS.sorted(
        GROUPS.frame(
            metrics.filter(~pl.col("pooled"))
            .group_by(pl.col(by).alias("group"), maintain_order=True)
            .agg(
                pl.len().cast(pl.Int64).alias("metrics"),
                (verdict == "different").sum().cast(pl.Int64).alias("different"),
                ((pl.col("effect") == "worse") & (verdict == "different")).sum().cast(pl.Int64).alias("worse"),
                (verdict == "equivalent").sum().cast(pl.Int64).alias("equivalent"),
                (verdict == "not enough data").sum().cast(pl.Int64).alias("not_enough_data"),
                (verdict == "missing").sum().cast(pl.Int64).alias("missing"),
                pl.col("matched").filter(verdict != "missing").mean().alias("share"),
                pl.col("ratio").filter(pl.col("ratio").is_finite()).median().alias("ratio"),
            )
            .with_columns(pl.lit(by).alias("by"))
        )
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


def _headline(summary: dict[str, Any], parameters: ComparisonParameters) -> tuple[Headline, ...]:
    level: Level = "ok" if summary["pass"] else ("severe" if summary["pass"] is False else "low")
    interval = ""
    if summary["share_low"] is not None:
        interval = f"{_percent(summary['share_low'])} to {_percent(summary['share_high'])} over resampled runs; "
    basis = f"{interval}{summary['runs_left']} against {summary['runs_right']} runs"
    shown = [
        Headline("Verdict", str(summary["verdict"]), f"passes from {_percent(parameters.pass_share)}", level),
        Headline("Matched", f"{summary['matched']} of {summary['total']} ({_percent(summary['share'])})", basis),
    ]
    if parameters.mode == "statistical":
        shown += [
            Headline("Different", str(summary["different"]), f"{summary['worse']} for the worse"),
            Headline("Equivalent", str(summary["equivalent"]), "interval inside the margin"),
            Headline("Not enough data", str(summary["not_enough_data"])),
        ]
    elif parameters.mode == "design" and summary.get("similarity") is not None:
        shown.append(Headline("Similarity", f"{summary['similarity']:.2f}", "mean over the compared metrics"))
    shown.append(Headline("Missing", str(summary["missing"]), "on one side only"))
    return tuple(shown)


def _findings(summary: dict[str, Any], metrics: pl.DataFrame, parameters: ComparisonParameters) -> tuple[Finding, ...]:
    share = f"{summary['matched']} of {summary['total']} metrics matched ({_percent(summary['share'])})"
    if summary["share_low"] is not None:
        share += f", {_percent(summary['share_low'])} to {_percent(summary['share_high'])} over resampled runs"
    needed = f"; {_percent(parameters.pass_share)} are needed"
    level: Level = "ok" if summary["pass"] else ("severe" if summary["pass"] is False else "moderate")
    found = [Finding(level, "comparison", f"{summary['verdict']}: {share}{needed}")]
    picked = metrics.filter((pl.col("verdict") == "different") & ~pl.col("pooled") & (pl.col("n_left") > 0))
    columns = ("test", "verb", "resource", "subresource", "scope", "bucket", "ratio", "ratio_low", "ratio_high")
    more = ("q_value", "p_value", "effect", "mean_left", "mean_right", "unit", "n_left", "n_right")
    by_size = picked.sort((pl.col("ratio").log().abs()).fill_null(0.0), descending=True, maintain_order=True)
    for row in by_size.head(MAX_FINDINGS).select(*columns, *more).iter_rows(named=True):
        subject = " ".join(str(row[name]) for name in columns[:6] if row[name])
        text = f"{row['mean_left']:.6g} against {row['mean_right']:.6g} {row['unit']}".rstrip()
        if row["ratio"] is not None:
            side = "right/left" if parameters.mode == "statistical" else "left/right"
            text += f", ratio {side} {row['ratio']:.3g}"
        if row["ratio_low"] is not None:
            text += f" [{row['ratio_low']:.3g}, {row['ratio_high']:.3g}]"
        if row["q_value"] is not None:
            text += f", q {row['q_value']:.2g}"
        elif row["p_value"] is not None:
            text += f", p {row['p_value']:.2g}"
        text += f", n {row['n_left']} and {row['n_right']}"
        if row["effect"]:
            text += f", {row['effect']}"
        found.append(Finding("low", subject, text))
    return tuple(found)
