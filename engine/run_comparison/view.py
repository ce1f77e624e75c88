"""The run comparison view: inputs and parameters to a result, in one of three modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.inputs import Inputs
from engine.parameters import Parameters
from engine.reading import FileKind
from engine.result import Level, Result
from engine.run_comparison.insight import change_points, influence, resampling
from engine.run_comparison.insight.ranked import Tracker
from engine.run_comparison.insight.unit_aware_pooling import pool_honest
from engine.run_comparison.parameters import ComparisonParameters, parse_now
from engine.run_comparison.perf_tests import comparison, published
from engine.run_comparison.perf_tests.comparison import Pool, UpstreamKeeper, pool_upstream
from engine.run_comparison.reading.kinds import READERS
from engine.run_comparison.result.comparison_rows import (
    Compared,
    Names,
    design_compared,
    prepare,
    statistical_compared,
    upstream_compared,
    usable_margin,
)
from engine.run_comparison.result.detail import Detail
from engine.run_comparison.result.junit import junit
from engine.run_comparison.result.result_tables import Fixed, RunList, build_result, fixed_tables
from engine.run_comparison.runs.layout import Place
from engine.run_comparison.runs.measurements import Measurements, measurements
from engine.run_comparison.runs.pooling import Keeper
from engine.run_comparison.runs.runs import Run, RunBook, Runs, name_problems
from engine.run_comparison.runs.samples import Pooled, Samples, metric_keys
from engine.run_comparison.runs.selection import in_words, parse_rule, pick, shorten, usual_sides
from engine.run_comparison.tables import CHANGE_POINTS, GROUPS, METRICS, MISSING, RUNS
from engine.tables import Table
from engine.view import Context, NoInput


@dataclass(frozen=True, slots=True)
class Chosen:
    """The sides, and what to tell about how they came about."""

    left: tuple[Run, ...]
    right: tuple[Run, ...]
    left_patterns: tuple[str, ...]
    right_patterns: tuple[str, ...]
    note: str


def choose_sides(
    runs: Runs, parameters: ComparisonParameters, now_ms: int, found: Measurements, series: JobSeries
) -> Chosen:
    """Runs of both sides. Raises NoInput if a side stays empty, saying what there is."""
    rule = parse_rule(parameters.select)
    strict = parameters.mode == "upstream"
    left, right, note = parameters.left, parameters.right, ""
    if not left or not right:
        usual_left, usual_right, note = usual_sides(runs, series.of(runs, found))
        left, right = left or usual_left, right or usual_right
        if parameters.left or parameters.right:
            note = ""
    blocked = {problem.path.partition("/")[0] for problem in runs.bad_names} if strict else set()
    picked = []
    for word, patterns in (("left", left), ("right", right)):
        side = pick(patterns, runs, rule, now_ms, strict=strict, failed=parameters.include_failed)
        if strict and any(run.job in blocked for run in side):
            raise NoInput(f"{word}: a run folder that is not called by a number makes upstream's listing fail")
        picked.append(tuple(side))
    if not picked[0] or not picked[1]:
        jobs = sorted({run.job for run in runs.runs})
        empty = "left" if not picked[0] else "right"
        there = f"jobs: {', '.join(jobs[:8])}{' …' if len(jobs) > 8 else ''}" if jobs else "no runs found"
        asked = ", ".join(left if empty == "left" else right) or "nothing chosen"
        raise NoInput(f"no runs on the {empty} side ({asked}; select {parameters.select}); {there}")
    return Chosen(picked[0], picked[1], left, right, note)


def _kinds_only(pooled: Pooled, kinds: tuple[str, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if not kinds:
        return np.ones(len(pooled.keys), dtype=bool)
    return np.array([key.kind in kinds for key in pooled.keys], dtype=bool)


class RunComparison:
    """Two groups of runs: similar enough, and did anything regress."""

    name = "run-comparison"
    title = "Run comparison"
    kinds: tuple[FileKind, ...] = READERS
    parameters: type[Parameters] = ComparisonParameters
    tables: tuple[Table, ...] = (METRICS, RUNS, MISSING, CHANGE_POINTS, GROUPS)
    fail_on: Level = "moderate"

    def compute(self, inputs: Inputs, parameters: ComparisonParameters, context: Context) -> Result:
        """The comparison in the chosen mode. Raises NoInput without metrics on a side."""
        # Samples may hold 0 and 1e308: what overflows or has no ratio ends as null, not as a warning on a terminal.
        with np.errstate(all="ignore"):
            return self._compute(inputs, parameters, context)

    def _compute(self, inputs: Inputs, parameters: ComparisonParameters, context: Context) -> Result:
        memo = context.memo
        found = measurements(inputs, memo)
        context.check()
        runs, places = _runs(inputs, found, memo)
        kept_upstream = memo.setdefault("upstream parts", UpstreamKeeper())
        kept_honest = memo.setdefault("honest parts", Keeper())
        if context.at_ms is not None:
            seen = tuple(run for run in runs.runs if run.time_ms is None or run.time_ms <= context.at_ms)
            runs = Runs(seen, runs.directions, runs.bad_names)
        problems = name_problems([*inputs.problems], inputs.files, places, _fresh(runs))
        now_ms = parse_now(parameters.now) if parameters.now else (context.at_ms or context.now_ms)
        wish = (
            inputs.version, context.at_ms, parameters.left, parameters.right, parameters.select, parameters.mode == "upstream",
            parameters.include_failed, now_ms if parameters.select.startswith("last-n-hours") else 0,
        )  # fmt: skip
        chosen = _kept(
            memo,
            "sides",
            wish,
            lambda: choose_sides(runs, parameters, now_ms, found, memo.setdefault("job series", JobSeries())),
        )
        context.check()
        keys = (inputs.version, tuple(r.key for r in chosen.left), tuple(r.key for r in chosen.right))
        pool = _kept(
            memo,
            "upstream",
            (keys, parameters.min_count),
            lambda: pool_upstream(found, chosen.left, chosen.right, places, parameters.min_count, kept_upstream),
        )
        if parameters.mode == "upstream":
            _both_sides(pool.samples)
            compared = upstream_compared(pool, found, parameters, memo.setdefault("names", Names()))
        else:
            pooled_key = (keys, parameters.min_count, parameters.sample)
            by_run = parameters.sample == "run"
            pooled = _kept(
                memo,
                "honest",
                pooled_key,
                lambda: pool_honest(
                    found, chosen.left, chosen.right, places, parameters.min_count, by_run, kept_honest
                ),
            )
            _both_sides(pooled.samples)
            if parameters.mode == "design":
                part = published.chosen(pooled.keys, parameters.percentiles, parameters.kinds)
                compared = design_compared(pooled, pool, found, part, parameters, memo.setdefault("names", Names()))
            else:
                part = _kinds_only(pooled, parameters.kinds)
                compared = self._statistical(pooled, pool, found, part, chosen, runs, parameters, context, pooled_key)
        # Only the statistical answer keeps its tables over thresholds; the other modes' are theirs alone.
        fixed_key = (
            (keys, context.at_ms, *_all_but_thresholds(parameters)) if parameters.mode == "statistical" else None
        )
        listed = memo.setdefault("run list", RunList())

        def tables() -> Fixed:
            return fixed_tables(runs, chosen.left, chosen.right, compared, listed)

        fixed = tables() if fixed_key is None else _kept(memo, "fixed tables", fixed_key, tables)

        def words_of(patterns: Sequence[str]) -> str:
            strict, failed = parameters.mode == "upstream", parameters.include_failed
            texts = memo.setdefault("side words", {})
            key = (inputs.version, context.at_ms, strict, failed)
            if texts.get("of") != key:
                texts.clear()
                texts["of"] = key
            patterns = tuple(patterns)
            if patterns not in texts:
                texts[patterns] = in_words(shorten(patterns, runs, strict=strict, failed=failed))
            found: str = texts[patterns]
            return found

        return build_result(
            inputs, parameters, chosen_view(chosen), runs, compared, problems, fixed, words_of
        )  # fmt: skip

    def _statistical(
        self,
        pooled: Pooled,
        pool: Pool,
        found: Measurements,
        part: np.ndarray[Any, np.dtype[np.bool_]],
        chosen: Chosen,
        runs: Runs,
        parameters: ComparisonParameters,
        context: Context,
        key: Any,
    ) -> Compared:
        memo = context.memo
        context.progress(0.2, "tests and intervals")
        evidence_key = (key, parameters.alpha)
        evidence = _kept(
            memo,
            "evidence",
            evidence_key,
            lambda: memo.setdefault("tracker", Tracker()).evidence(pooled.samples, parameters.alpha, context.check),
        )
        context.progress(0.6, "resampling runs")
        overall_key = (key, parameters.kinds, parameters.draws, parameters.seed)
        overall = _kept(
            memo,
            "overall",
            overall_key,
            lambda: resampling.resample(
                pooled.samples,
                evidence,
                part,
                parameters.draws,
                parameters.seed,
                context.check,
                memo.setdefault("draws", {}),
            ),
        )
        context.progress(0.8, "change points")
        axis = change_points.time_axis(chosen.left, chosen.right)
        change_key = (
            key, parameters.kinds, parameters.change_limit, parameters.change_window, parameters.change_p,
            parameters.change_magnitude,
        )  # fmt: skip
        changes = _kept(
            memo,
            "changes",
            change_key,
            lambda: change_points.find(
                pooled.samples,
                axis,
                part,
                limit=parameters.change_limit,
                window=parameters.change_window,
                max_p_value=parameters.change_p,
                min_magnitude=parameters.change_magnitude,
                check=context.check,
                trail=memo.setdefault("trail", change_points.Trail()),
            ),
        )
        context.check()
        scores = influence.score_runs(overall, evidence, usable_margin(parameters.threshold))
        prepared = _kept(
            memo,
            "prepared",
            (key, parameters.kinds, parameters.alpha, parameters.direction),
            lambda: prepare(
                pooled,
                pool,
                found,
                part,
                runs,
                parameters,
                memo.setdefault("pools tracker", Tracker()),
                memo.setdefault("names", Names()),
                context.check,
            ),
        )
        return statistical_compared(
            prepared,
            pooled,
            pool,
            part,
            evidence,
            overall,
            scores,
            axis,
            changes,
            parameters,
            memo.setdefault("names", Names()),
        )

    def prepare(self, inputs: Inputs, context: Context) -> bool:
        """Make the next run that arrives cheap: order all samples and find the differences that intervals rest on, piece by
        piece. Only ranks need that, and only of many runs."""
        memo = context.memo
        trackers = [memo[name] for name in ("tracker", "pools tracker") if name in memo]
        if "names" in memo:
            trackers.append(memo["names"].distances)
        with np.errstate(all="ignore"):
            return any(tracker.ahead() for tracker in trackers)

    def junit(self, result: Result, parameters: ComparisonParameters) -> str:
        """JUnit XML with a test case per metric (``check --junit FILE``)."""
        return junit(result)

    def upstream(self, result: Result, parameters: ComparisonParameters) -> str | None:
        """The six tables as upstream prints them; only upstream mode has them."""
        if parameters.mode != "upstream":
            return None
        frame = result.tables["metrics"]
        names = ("test", "verb", "resource", "subresource", "scope", "bucket")
        numbers = ("matched", "ratio", "p_value", "mean_left", "mean_right", "n_left", "n_right")
        rows = [
            comparison.Row(
                comparison.UpstreamKey(*row[:6]),
                row[6],
                *(_or_nan(row[7]), _or_nan(row[8]), _or_nan(row[9]), _or_nan(row[10])),
                row[11],
                row[12],
            )
            for row in frame.select(*names, *numbers).iter_rows()
        ]
        return comparison.printed(rows, parameters.scheme)


def chosen_view(chosen: Chosen) -> tuple[tuple[Run, ...], tuple[Run, ...], tuple[str, ...], tuple[str, ...], str]:
    """The sides as plain values for the presentation."""
    return chosen.left, chosen.right, chosen.left_patterns, chosen.right_patterns, chosen.note


def _both_sides(samples: Samples) -> None:
    """Raise NoInput where a side has no values at all: upstream ends with an error there as well."""
    for word, side in (("left", samples.left), ("right", samples.right)):
        if not side.sizes.any():
            raise NoInput(f"no metrics on the {word} side")


def _kept(memo: dict[Any, Any], name: str, key: Any, make: Any) -> Any:
    """The value of ``name`` for ``key``: kept between computations, one at a time."""
    found = memo.get(name)
    if found is None or found[0] != key:
        found = memo[name] = (key, make())
    return found[1]


def _runs(inputs: Inputs, found: Measurements, memo: dict[Any, Any]) -> tuple[Runs, Mapping[int, Place]]:
    book: RunBook = memo.setdefault("book", RunBook())

    def make() -> Runs:
        runs = book.update(inputs, found)
        known = {run.key: run for run in runs.runs}
        for keeper in ("upstream parts", "honest parts"):
            if keeper in memo:
                memo[keeper].forget(known)
        return runs

    runs: Runs = _kept(memo, "runs", inputs.version, make)
    return runs, book.places


class JobSeries:
    """Which series each job has, kept from one look to the next: runs that came cost their own series. Series of one name
    and another unit count as one thing only after conversion."""

    def __init__(self) -> None:
        """Nothing known yet."""
        self._known: dict[tuple[str, ...], tuple[dict[int, Run], frozenset[int]]] = {}

    def of(self, runs: Runs, found: Measurements) -> dict[tuple[str, ...], frozenset[int]]:
        """The numbers of the metric keys of each job."""
        _, which, _ = metric_keys(found)
        told = {}
        for path, listed in runs.jobs.items():
            known, series = self._known.get(path, ({}, frozenset()))
            fresh = [run for run in listed if known.get(id(run)) is not run]
            if len(known) + len(fresh) != len(listed):
                fresh, known, series = listed, {}, frozenset()
            codes = [chunk.codes for run in fresh for chunk in run.chunks]
            if codes:
                held = np.zeros(which.size, dtype=bool)
                for part in codes:
                    held[part] = True
                series = series.union(which[np.flatnonzero(held)].tolist())
            known.update((id(run), run) for run in fresh)
            told[path] = series
            self._known[path] = known, series
        for path in self._known.keys() - told.keys():
            del self._known[path]
        return told


def _all_but_thresholds(parameters: ComparisonParameters) -> tuple[Any, ...]:
    """The choices that the fixed tables of statistical mode depend on: all but those that only move verdicts, or only
    group and word them."""
    names = (name for name in parameters.__struct_fields__ if name not in _MOVE_VERDICTS_ONLY)
    return tuple(getattr(parameters, name) for name in names)


_MOVE_VERDICTS_ONLY = {"threshold", "pass_share", "scheme", "min_average", "group_by", "upper", "similarity"}


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _fresh(runs: Runs) -> Runs:
    """Problem counts are counted anew for each result."""
    for run in runs.runs:
        run.problems = 0
    return runs


VIEW = RunComparison()
__all__ = ["VIEW", "Detail", "RunComparison"]
