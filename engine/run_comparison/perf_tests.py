"""Pool, compare and print as perf-tests' benchmark tool does (files and metric keys, schemes avg and ks, six tables); and
compare as the published description of the comparison does (cutoffs, ratio of means, similarity scores).

See docs/models/run-comparison.md, The benchmark tool, and The published description.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.core.incremental import Memo
from engine.run_comparison.reading.clusterloader import BENCHMARK_TOOL_PREFIXES
from engine.run_comparison.reading.metric_kinds import BY_NAME
from engine.run_comparison.reading.series import Series
from engine.run_comparison.runs.measurements import Codes, Floats, Ints, Measurements, MetricKey
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Pool, RunValues, Samples, Side, pool_runs, values_of_runs
from engine.stats.ranks import merge

_UNKNOWN = -1  # number of a series that no file of its test has held yet


class BenchmarkKey(NamedTuple):
    """Metric key of the benchmark tool (``MetricKey`` there)."""

    test: str
    verb: str
    resource: str
    subresource: str
    scope: str
    bucket: str


def file_rank(rest: str) -> int | None:
    """Return 0 for an API file, 1 for a pod startup file, None for files the tool does not read; ``rest``: path in the run."""
    return next(
        (rank for rank, prefix in enumerate(BENCHMARK_TOOL_PREFIXES) if rest.startswith(f"artifacts/{prefix}")), None
    )


def test_name(job: str, run: str, rest: str) -> str | None:
    """Return the last but one piece of the whole path split at ``_``; None (file skipped) with fewer than three pieces."""
    pieces = f"logs/{job}/{run}/{rest}".split("_")
    return pieces[-2] if len(pieces) >= 3 else None


def has_readable_report(run: Run) -> bool:
    """Whether the tool reads any report of ``run``, even one without values."""
    reports = [rest for rest, chunk in run.chunks if not chunk.refused and chunk.run is None]
    return any(_test_of(run, rest) is not None for rest in (*reports, *run.upstream.empty))


def _test_of(run: Run, rest: str) -> str | None:
    """Return the test of a file that the tool reads, else None; ``rest``: path in the run."""
    return None if file_rank(rest) is None else test_name(run.job_path[-1] if run.job_path else "", run.name, rest)


class KeyTable:
    """Numbers of the benchmark tool's keys; a key keeps its number. ``keys``: their numbers, rising."""

    def __init__(self) -> None:
        self.keys: dict[BenchmarkKey, int] = {}
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
            key = BenchmarkKey(
                test, "Pod-Startup" if pods else one.verb, one.resource, one.subresource, one.scope, one.bucket
            )
            numbers[code] = self.keys.setdefault(key, len(self.keys))
        return numbers[codes]


def pool_as_benchmark_tool(
    measurements: Measurements, left: tuple[Run, ...], right: tuple[Run, ...], min_count: int, memo: Memo
) -> Pool[BenchmarkKey]:
    """Return the samples by the benchmark tool's keys. Null counts as 0, as Go's decoder has it."""

    def make() -> Pool[BenchmarkKey]:
        table = memo.state("benchmark keys", KeyTable)
        values = partial(_values_of_run, table=table, series=measurements.table.series, min_count=min_count)
        parts = values_of_runs("values by benchmark key", (*left, *right), values, min_count, memo)
        return pool_runs("benchmark pool", parts[: len(left)], parts[len(left) :], tuple(table.keys), memo)

    return memo.value("benchmark pool", (left, right, min_count), make)


def _values_of_run(run: Run, table: KeyTable, series: list[Series], min_count: int) -> RunValues:
    """Return the values of a run's files in the tool's order."""
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


_BLOCK = 32_768  # values summed at a time, so that they stay in the cache


class Moments(msgspec.Struct, frozen=True):
    """The tool's statistics of one side, per metric; NaN for empty samples."""

    side: Side
    mean: Floats

    @property
    def n(self) -> Ints:
        """Number of values of each metric."""
        return self.side.sizes

    @property
    def deviation(self) -> Floats:
        """Population standard deviation from E[x^2] - mean^2; NaN if rounding makes that negative."""
        return np.asarray(np.sqrt(_means_in_order(self.side, squared=True) - self.mean**2))

    @property
    def maximum(self) -> Floats:
        """The largest value, not below 0."""
        maxima = np.full(self.side.count, np.nan)
        for metrics, size in self.side.by_size():
            maxima[metrics] = np.maximum(self.side.rows(metrics, size).max(axis=1), 0.0)
        return maxima


def _means_in_order(side: Side, *, squared: bool = False) -> Floats:
    """Return means of values (or of their squares), summed from the newest run to the oldest as in the tool's loop."""
    means = np.full(side.count, np.nan)
    for metrics, size in side.by_size():
        rows = side.rows(metrics, size)
        step = max(1, _BLOCK // size)
        total = np.empty(len(rows))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            # Reducing the transposed block adds row by row; sum() along a row would add in pairs.
            turned = np.ascontiguousarray(rows[block].T)
            if squared:
                turned = turned * turned
            total[block] = np.cumsum(turned)[-1] if turned.shape[1] == 1 else np.add.reduce(turned, axis=0)
        means[metrics] = total / size
    return means


def moments(samples: Samples) -> tuple[Moments, Moments]:
    """Return the tool's statistics of both sides."""
    return (
        Moments(samples.left, _means_in_order(samples.left)),
        Moments(samples.right, _means_in_order(samples.right)),
    )


def ks_distances(samples: Samples) -> Floats:
    """Return the largest gap between the empirical distribution functions of each metric; NaN if a side is empty."""
    distances = np.full(samples.count, np.nan)
    for metrics, n1, n2 in samples.shapes():
        if n1 and n2:
            distances[metrics] = merge(samples.left.rows(metrics, n1), samples.right.rows(metrics, n2)).distance
    return distances


def go_ks_p(distance: Floats, n1: int, n2: int) -> Floats:
    """Return go-onlinestats' p-value: Kolmogorov's limit without a small-sample term, two series joined at z = 1.18."""
    z = distance * math.sqrt(n1 * n2 / (n1 + n2)) if n1 and n2 else np.full(distance.shape, np.nan)
    y = np.exp(-1.23370055013616983 / (z * z))
    small = 1.0 - 2.25675833419102515 * np.sqrt(-np.log(y)) * (y + y**9 + y**25 + y**49)
    x = np.exp(-2.0 * z * z)
    return np.where(z == 0, 1.0, np.where(z < 1.18, small, 2.0 * (x - x**4 + x**9)))


class Answer(msgspec.Struct, frozen=True):
    """A scheme's answer per metric. ``ratio`` and ``p_value`` are NaN if the scheme does not fill them."""

    matched: NDArray[np.bool_]
    ratio: Floats
    p_value: Floats


def compare(
    pool: Pool[BenchmarkKey], scheme: str, threshold: float, min_average: float, memo: Memo
) -> tuple[Answer, Moments, Moments]:
    """Return the answer of ``scheme`` (``avg`` or ``ks``), and the statistics of both sides."""
    left, right = memo.value("benchmark moments", pool, lambda: moments(pool.samples))
    ratio, p = np.full(pool.samples.count, np.nan), np.full(pool.samples.count, np.nan)
    if scheme == "ks":  # KS-Test: the ratio is never filled, as in the tool
        distances = memo.value("benchmark distances", pool, lambda: ks_distances(pool.samples))
        for metrics, n1, n2 in pool.samples.shapes():
            p[metrics] = go_ks_p(distances[metrics], n1, n2)
        matched = p >= threshold
    else:  # Avg-Test
        ratio = left.mean / right.mean
        matched = (ratio >= threshold) & (ratio <= np.divide(1.0, threshold))
    excused = (left.n == 0) | (right.n == 0) | ((left.mean < min_average) & (right.mean < min_average))
    return Answer(matched | excused, ratio, p), left, right


PRINTED = ("Perc99", "Perc90", "Perc50")  # percentiles that the tool prints, in its order

HEADER = ("E2E TEST", "VERB", "RESOURCE", "SUBRESOURCE", "SCOPE", "PERCENTILE", "COMMENTS")


class Row(NamedTuple):
    """One line of the output."""

    key: BenchmarkKey
    matched: bool
    ratio: float
    p_value: float
    mean_left: float
    mean_right: float
    n_left: int
    n_right: int


def _comments(row: Row, scheme: str) -> tuple[str, ...]:
    """Return the last column: what the scheme says of a metric."""
    counts = f"N1={row.n_left}", f"N2={row.n_right}"
    if scheme == "ks":
        return f"Pvalue={go_fixed(row.p_value, 4)}", "", *counts
    means = f"AvgL(ms)={go_fixed(row.mean_left, 2)}", f"AvgR(ms)={go_fixed(row.mean_right, 2)}"
    return f"AvgL/R={go_fixed(row.ratio, 2)}", *means, *counts


def go_fixed(value: float | None, digits: int) -> str:
    """Format a number as Go's ``%.<digits>f`` does; None as NaN."""
    if value is None or math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.{digits}f}"


def printed(rows: Sequence[Row], scheme: str) -> str:
    """Return the six tables as one text: Perc99, Perc90 and Perc50, first mismatched, then matched.

    Rows are sorted by falling ratio, NaN last. Where the tool's order is random (equal ratios, all of KS-Test) they are
    sorted by text.
    """
    blocks = []
    for percentile in PRINTED:
        for matched in (False, True):
            picked = [row for row in rows if row.key.bucket == percentile and row.matched == matched]
            picked.sort(key=lambda row: (math.isnan(row.ratio), -row.ratio if row.ratio == row.ratio else 0.0, row.key))
            lines = [HEADER, *((*row.key, *_comments(row, scheme)) for row in picked)]
            blocks.append(f"{percentile} {'matched' if matched else 'mismatched'}: {len(picked)}\n\n{_aligned(lines)}")
    return "\n".join(blocks)


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Pad columns to their widest cell with two blanks between, and cut trailing blanks."""
    widths = [max((len(line[i]) for line in lines if i < len(line)), default=0) for i in range(max(map(len, lines)))]
    return "".join("  ".join(cell.ljust(widths[i]) for i, cell in enumerate(line)).rstrip() + "\n" for line in lines)


_PERCENTILE = re.compile(r"(?:perc|percentile|p)?[\s(_]*(\d{1,3}(?:\.\d+)?)\)?(?:th percentile)?", re.IGNORECASE)


def ratio_of_means(a: Floats, b: Floats) -> Floats:
    """Return the smaller mean over the larger one: 1 for two zero means, 0 for means of different sign."""
    ratio = np.minimum(a, b) / np.maximum(a, b)
    ratio = np.where((a < 0) & (b < 0), np.maximum(a, b) / np.minimum(a, b), ratio)
    return np.where(a == b, 1.0, np.maximum(np.nan_to_num(ratio), 0.0))


def similarity_of(measure: str, left: Floats, right: Floats) -> Floats:
    """Return how alike two samples are, 0 to 1, per row of ``left`` [k, n1] and ``right`` [k, n2].

    ``distribution``: one minus the Kolmogorov-Smirnov distance (level, spread and shape). ``overlap``: one minus the
    absolute value of Cliff's delta (1 if neither side tends to be larger).
    """
    merged = merge(left, right)
    return 1.0 - (merged.distance if measure == "distribution" else np.abs(merged.cliffs_delta))


def percentile_of(bucket: str) -> str | None:
    """Return ``"90"`` for Perc90, P90, p(90), 90 and the like, None for other buckets."""
    match = _PERCENTILE.fullmatch(bucket.strip())
    return match[1] if match else None


def metric_set(keys: Sequence[MetricKey], percentiles: Sequence[str], kinds: Sequence[str]) -> NDArray[np.bool_]:
    """Return which metrics are compared: the kinds of the published set (or the given ones) at the percentiles."""
    wanted = set(percentiles)
    return np.array(
        [
            (key.kind in kinds if kinds else key.kind in BY_NAME and BY_NAME[key.kind].published)
            and percentile_of(key.bucket) in wanted
            for key in keys
        ],
        dtype=bool,
    )


class PublishedAnswer(msgspec.Struct, frozen=True):
    """Per metric: means after the cutoff, their ratio, the similarity, and whether the ratio is within the limits.

    NaN and False if a side is empty or the metric is not in the set.
    """

    compared: NDArray[np.bool_]
    mean_left: Floats
    mean_right: Floats
    ratio: Floats
    similarity: Floats
    matched: NDArray[np.bool_]


def compare_published(
    keys: Sequence[MetricKey],
    samples: Samples,
    part: NDArray[np.bool_],
    similarity: str,
    lower: float,
    upper: float,
) -> PublishedAnswer:
    """Compare the metrics that are ``part`` of the set: match ratios of means left / right from ``lower`` to ``upper``.

    Durations below the cutoff of their kind count as the cutoff.
    """
    cutoff = np.full(samples.count, -np.inf)
    for i, key in enumerate(keys):
        kind = BY_NAME.get(key.kind)
        if kind is not None and kind.cutoff is not None and key.unit == "ms":
            cutoff[i] = kind.cutoff
    compared = part & (samples.left.sizes > 0) & (samples.right.sizes > 0)
    mean_left, mean_right = (_means(side, cutoff, compared) for side in (samples.left, samples.right))
    ratio = np.where(mean_left == mean_right, 1.0, mean_left / mean_right)
    matched = compared & (ratio >= lower) & (ratio <= upper)
    score = np.full(samples.count, np.nan)
    if similarity == "ratio":
        score[compared] = ratio_of_means(mean_left[compared], mean_right[compared])
    for metrics, n1, n2 in samples.shapes() if similarity != "ratio" else ():
        metrics = metrics[compared[metrics]]
        if metrics.size:
            lowest = cutoff[metrics][:, None]
            left, right = (
                np.maximum(side.rows(metrics, n), lowest) for side, n in ((samples.left, n1), (samples.right, n2))
            )
            score[metrics] = similarity_of(similarity, left, right)
    return PublishedAnswer(compared, mean_left, mean_right, ratio, score, matched)


def passes(share: float | None, pass_share: float) -> tuple[str, bool | None]:
    """Return the overall verdict from the share of matching metrics; None: nothing could be compared."""
    return ("undecided", None) if share is None else ("PASS", True) if share >= pass_share else ("FAIL", False)


_PUBLISHED_BLOCK = 65_536  # values handled at a time, so that they stay in the cache


def _means(side: Side, cutoff: Floats, wanted: NDArray[np.bool_]) -> Floats:
    """Return the mean of each ``wanted`` metric, values below its cutoff counting as the cutoff; else NaN."""
    means = np.full(side.count, np.nan)
    for metrics, size in side.by_size():
        metrics = metrics[wanted[metrics]]
        step = max(1, _PUBLISHED_BLOCK // size)
        for start in range(0, metrics.size, step):
            some = metrics[start : start + step]
            means[some] = np.maximum(side.rows(some, size), cutoff[some][:, None]).mean(axis=1)
    return means
