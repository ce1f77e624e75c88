"""Pool values as perf-tests' benchmark tool does: which files, under which metric keys.

See docs/models/run-comparison.md, The benchmark tool: files and keys (kubernetes/perf-tests, package
``benchmark/pkg/metricsfetcher/scraper``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from engine.core.incremental import Memo, Partials
from engine.run_comparison.reading.clusterloader import BENCHMARK_TOOL_PREFIXES
from engine.run_comparison.reading.series import Series
from engine.run_comparison.runs.measurements import Codes, Ints, Measurements
from engine.run_comparison.runs.pooling import Pool, RunValues, pool_runs
from engine.run_comparison.runs.runs import Run

_UNKNOWN = -1
"""Number of a series that no file of its test has held yet."""


class BenchmarkKey(NamedTuple):
    """Metric key of the benchmark tool (``MetricKey`` there)."""

    test: str
    verb: str
    resource: str
    subresource: str
    scope: str
    bucket: str


def file_rank(rest: str) -> int | None:
    """Return 0 for an API file, 1 for a pod startup file, None for one the tool does not read; ``rest``: path in the run."""
    for rank, prefix in enumerate(BENCHMARK_TOOL_PREFIXES):
        if rest.startswith(f"artifacts/{prefix}"):
            return rank
    return None


def test_name(job: str, run: str, rest: str) -> str | None:
    """Return the last but one piece of the whole path split at ``_``; None (file skipped) with fewer than three pieces."""
    pieces = f"logs/{job}/{run}/{rest}".split("_")
    return pieces[-2] if len(pieces) >= 3 else None


def has_readable_report(run: Run) -> bool:
    """Whether the tool reads any report of ``run``, be it one without values."""
    reports = [rest for rest, chunk in run.chunks if not chunk.refused and chunk.run is None]
    return any(_test_of(run, rest) is not None for rest in (*reports, *run.upstream.empty))


def _test_of(run: Run, rest: str) -> str | None:
    """Return the test's name of a file that the tool reads, None for another; ``rest``: path in the run."""
    if file_rank(rest) is None:
        return None
    return test_name(run.job_path[-1] if run.job_path else "", run.name, rest)


class KeyTable:
    """Numbers of the benchmark tool's keys; a key keeps its number. ``keys[number]``: the key."""

    def __init__(self) -> None:
        self.keys: list[BenchmarkKey] = []
        self._numbers: dict[BenchmarkKey, int] = {}
        self._of_test: dict[str, Ints] = {}

    def numbers(self, test: str, codes: Codes, series: list[Series]) -> Ints:
        """Return the key number of each series code in a file of ``test``."""
        numbers = self._of_test.get(test, np.empty(0, dtype=np.int64))
        if numbers.size < len(series):
            numbers = np.concatenate([numbers, np.full(len(series) - numbers.size, _UNKNOWN, dtype=np.int64)])
            self._of_test[test] = numbers
        for code in np.unique(codes[numbers[codes] == _UNKNOWN]).tolist():
            one = series[code]
            pods = one.metric == "pod_startup" or one.metric.startswith("pod_startup, ")
            verb = "Pod-Startup" if pods else one.verb
            key = BenchmarkKey(test, verb, one.resource, one.subresource, one.scope, one.bucket)
            if key not in self._numbers:
                self._numbers[key] = len(self.keys)
                self.keys.append(key)
            numbers[code] = self._numbers[key]
        return numbers[codes]


def pool_as_benchmark_tool(
    measurements: Measurements, left: tuple[Run, ...], right: tuple[Run, ...], min_count: int, memo: Memo
) -> Pool[BenchmarkKey]:
    """Return the samples by the benchmark tool's keys. Null counts as 0, as Go's decoder has it."""

    def make() -> Pool[BenchmarkKey]:
        table = memo.state("benchmark keys", KeyTable)
        parts: Partials[Run, RunValues] = memo.state("values by benchmark key", Partials)

        def read(runs: Collection[Run]) -> dict[Run, RunValues]:
            return {run: _values_of_run(run, table, measurements.table.series, min_count) for run in runs}

        parts.update(dict.fromkeys((*left, *right)), read, key=min_count)
        sides = [[parts[run] for run in runs] for runs in (left, right)]
        return pool_runs("benchmark pool", sides[0], sides[1], table.keys, memo)

    return memo.value("benchmark pool", (left, right, min_count), make)


def _values_of_run(run: Run, table: KeyTable, series: list[Series], min_count: int) -> RunValues:
    """Return the values of a run's files in the order in which the tool reads them."""
    ranked = []
    for rest, chunk in run.chunks:
        test = _test_of(run, rest)
        if test is not None and not chunk.refused and chunk.run is None:
            ranked.append((file_rank(rest) or 0, rest.encode("utf-8", "surrogateescape"), test, chunk))
    ranked.sort(key=lambda entry: entry[:2])
    if not ranked:
        nothing = np.zeros(0, dtype=np.int64)
        return RunValues(nothing, np.zeros(0), nothing)
    metrics = np.concatenate([table.numbers(test, chunk.codes, series) for _, _, test, chunk in ranked])
    codes, counts, values = (
        np.concatenate([getattr(chunk, name) for *_, chunk in ranked]) for name in ("codes", "counts", "values")
    )
    return RunValues.of(metrics, codes, np.where(np.isnan(values), 0.0, values), counts >= min_count)
