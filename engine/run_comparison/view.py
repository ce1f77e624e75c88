"""The run comparison: from measured values and parameters to a result, in one of three modes.

``docs/models/run-comparison.md`` describes the rules of each mode.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.core.exports import Suite
from engine.core.parameters import Parameters
from engine.core.reading import FileKind
from engine.core.tables import Table
from engine.core.view import Context, Inputs, Level, NoInput, Result
from engine.run_comparison.parameters import ComparisonParameters, parse_now
from engine.run_comparison.perf_tests import (
    BenchmarkKey,
    Row,
    has_readable_report,
    pool_as_benchmark_tool,
    printed,
)
from engine.run_comparison.reading import benchmark_tools, clusterloader, json_tools, load_tools, text_tools
from engine.run_comparison.result.comparison_rows import (
    Comparison,
    benchmark_comparison,
    published_comparison,
    statistical_comparison,
)
from engine.run_comparison.result.detail import junit_suite
from engine.run_comparison.result.result_tables import GAUGES, build_result
from engine.run_comparison.runs.measurements import Measurements, read_measurements
from engine.run_comparison.runs.runs import Runs, argument_of_runs, find_runs, name_problems, unread_by_upstream
from engine.run_comparison.runs.samples import pool_by_unit
from engine.run_comparison.runs.selection import Sides, choose_sides
from engine.run_comparison.tables import CHANGE_POINTS, GROUPS, METRICS, MISSING, RUNS

READERS: tuple[FileKind, ...] = (
    clusterloader.RunMetadata(),
    clusterloader.ClusterLoaderReport(),
    clusterloader.BuildLog(),
    text_tools.CsvSeries(),
    *json_tools.READERS,
    text_tools.GoBenchmark(),
    *benchmark_tools.READERS,
    *load_tools.READERS,
    *text_tools.READERS,
)
"""Every reader that recognises a file reads it; the order is that of the page of formats."""


class RunComparison:
    """Compare two groups of runs: whether they are similar enough, and whether anything regressed."""

    name = "run-comparison"
    title = "Run comparison"
    gauges = GAUGES
    kinds: tuple[FileKind, ...] = READERS
    parameters: type[Parameters] = ComparisonParameters
    tables: tuple[Table, ...] = (METRICS, RUNS, MISSING, CHANGE_POINTS, GROUPS)
    fail_on: Level = "moderate"

    @np.errstate(all="ignore")  # samples may hold 0 and 1e308: overflows and missing ratios become null, not warnings
    def compute(self, inputs: Inputs, parameters: ComparisonParameters, context: Context) -> Result:
        """Compare the two sides in the chosen mode: turn files into runs, runs into sides, sides into samples, samples into an
        answer, the answer into tables. Raises NoInput if a side has no runs or no values.

        The memo keys each step by the objects it was made from: a run whose files did not change stays the same object,
        and so do the sides, their samples and everything derived from them.
        """
        memo = context.memo
        most = parameters.max_runs
        measurements = read_measurements(inputs, memo, most)
        context.check()
        key = (inputs.version, most)
        runs = memo.value("runs", key, lambda: find_runs(inputs, measurements, memo, most, context.memory))
        if context.at_ms is not None:
            at_ms, all_runs = context.at_ms, runs
            runs = memo.value("runs until", (all_runs, at_ms), lambda: all_runs.until(at_ms))
        problems, problems_of_run = name_problems(inputs.problems, inputs.files, runs)
        sides = self._sides(inputs, runs, measurements, parameters, context)
        if parameters.mode == "upstream":
            jobs = {run.job_path for run in (*sides.left, *sides.right)}
            problems += unread_by_upstream(run for run in runs.runs if run.job_path in jobs)
        context.check()
        comparison = self._compare(runs, sides, measurements, parameters, context)
        return build_result(inputs, parameters, sides, runs, comparison, problems, problems_of_run)

    def _sides(
        self,
        inputs: Inputs,
        runs: Runs,
        measurements: Measurements,
        parameters: ComparisonParameters,
        context: Context,
    ) -> Sides:
        now_ms = parse_now(parameters.now) if parameters.now else (context.at_ms or context.now_ms)
        choices = (
            parameters.left, parameters.right, parameters.select, parameters.mode == "upstream",
            parameters.include_failed, now_ms if parameters.select.startswith("last-n-hours") else None,
        )  # fmt: skip
        return context.memo.value(
            "sides",
            (runs, choices, inputs.roots),
            lambda: choose_sides(runs, parameters, now_ms, measurements, argument_of_runs(inputs, runs)),
        )

    def _compare(
        self,
        runs: Runs,
        sides: Sides,
        measurements: Measurements,
        parameters: ComparisonParameters,
        context: Context,
    ) -> Comparison:
        memo = context.memo
        pool = pool_as_benchmark_tool(measurements, sides.left, sides.right, parameters.min_count, memo)
        if parameters.mode == "upstream":
            for word, side in (("left", sides.left), ("right", sides.right)):
                if not any(has_readable_report(run) for run in side):
                    raise NoInput(
                        f"no report that the benchmark tool can read on the {word} side (artifacts/APIResponsiveness_* "
                        "and artifacts/PodStartupLatency_* of runs that finished with SUCCESS)"
                    )
            return benchmark_comparison(pool, measurements, parameters, memo)
        pooled = pool_by_unit(
            measurements, sides.left, sides.right, parameters.min_count, parameters.sample == "run", memo
        )
        for word, samples in (("left", pooled.samples.left), ("right", pooled.samples.right)):
            if not samples.sizes.any():
                raise NoInput(f"no metrics on the {word} side")
        if parameters.mode == "published":
            return published_comparison(pooled, pool, measurements, parameters, memo)
        return statistical_comparison(
            pooled, pool, measurements, runs, sides, parameters, memo, context.check, context.progress
        )

    def junit(self, result: Result, parameters: ComparisonParameters, failing: Level) -> Suite:
        """Return a JUnit test suite with a case per metric (``check --junit FILE``), that fails as ``check`` does."""
        return junit_suite(result, parameters, failing)

    def upstream(self, result: Result, parameters: ComparisonParameters) -> str | None:
        """Return the six tables as perf-tests' benchmark tool prints them, None in another mode than upstream."""
        if parameters.mode != "upstream":
            return None
        names = ("test", "verb", "resource", "subresource", "scope", "bucket", "matched")
        means = ("ratio", "p_value", "mean_left", "mean_right")
        frame = result.tables["metrics"].with_columns(pl.col(means).fill_null(float("nan")))
        rows = [
            Row(BenchmarkKey(*row[:6]), *row[6:])
            for row in frame.select(*names, *means, "n_left", "n_right").iter_rows()
        ]
        return printed(rows, parameters.scheme)


VIEW = RunComparison()
