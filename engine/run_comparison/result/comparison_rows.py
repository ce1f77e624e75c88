"""Bring the answers of the three modes into one shape: columns and names of the metrics table, samples, the verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.core.incremental import Memo
from engine.core.reading import Problem
from engine.run_comparison import perf_tests
from engine.run_comparison.insight import along_runs, statistical
from engine.run_comparison.insight.along_runs import Axis, Changes, MetricChanges, RunScores
from engine.run_comparison.insight.statistical import Evidence, as_ratio, gather, matching
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.perf_tests import BenchmarkKey
from engine.run_comparison.reading.series import REQUEST, Direction, Series
from engine.run_comparison.runs.measurements import Floats, Ints, Measurements, MetricKey, directions_of, own_name
from engine.run_comparison.runs.runs import Runs
from engine.run_comparison.runs.samples import Pool, Samples, UnitAwarePool
from engine.run_comparison.runs.selection import Sides
from engine.run_comparison.words import NAMING


class RowNames(msgspec.Struct, frozen=True, eq=False):
    """Names of rows, and their relation to the benchmark tool's keys.

    ``columns``: text columns of the metrics table. ``directions``: ``lower`` or ``higher`` per row. The first ``metrics``
    rows are metrics; the rest are the tool's pools of several metrics, whose rows in its own pool are ``pools``.
    ``key_of``: the tool's key of each row, -1 without one.
    """

    columns: dict[str, pl.Series]
    directions: list[str]
    metrics: int
    pools: Ints
    key_of: Ints


def name_metrics(
    pooled: Pool[MetricKey],
    pool: Pool[BenchmarkKey],
    measurements: Measurements,
    stated: Sequence[Direction],
    rules: Sequence[str],
    *,
    with_pools: bool,
) -> RowNames:
    """Name metrics as the benchmark tool does if one of its keys holds that metric alone, else as their report does.

    ``stated``, ``rules``: directions from files and from the operator. ``with_pools``: append a row for each key of the tool
    that pools several metrics.
    """
    row_of = {key: row for row, key in enumerate(pooled.keys)}
    table = measurements.table
    key_of = np.full(len(pooled.keys), -1, dtype=np.int64)
    members_of: list[list[int]] = []
    keys_of_row: dict[int, set[int]] = defaultdict(set)
    for number, codes in enumerate(pool.codes):
        metrics = (table.keys[table.key_of[code]] for code in codes)
        members = sorted({row_of[metric] for metric in metrics if metric in row_of})
        members_of.append(members)
        for row in members:
            key_of[row] = number
            keys_of_row[row].add(number)
    names: list[tuple[str, ...]] = []
    for row, key in enumerate(pooled.keys):
        number = int(key_of[row])
        alone = number >= 0 and len(members_of[number]) == 1 and len(keys_of_row[row]) == 1
        names.append(pool.keys[number] if alone else own_name(key))
    pools = [number for number, members in enumerate(members_of) if with_pools and len(members) > 1]
    firsts = [_first_series(measurements, pool.codes[number]) for number in pools]
    of_pools = [
        MetricKey(*first[:6], "", pool.keys[number].bucket, first.unit)
        for number, first in zip(pools, firsts, strict=True)
    ]
    keys = [*pooled.keys, *of_pools]
    names += [pool.keys[number] for number in pools]
    directions = directions_of(keys, stated, rules)
    rows = np.array(pools, dtype=np.int64)
    return RowNames(
        _columns(names, keys, directions), directions, len(pooled.keys), rows, np.concatenate([key_of, rows])
    )


def name_keys(pool: Pool[BenchmarkKey], measurements: Measurements, rules: Sequence[str]) -> RowNames:
    """Name the benchmark tool's keys. ``rules``: the operator's directions."""
    firsts = [_first_series(measurements, codes) for codes in pool.codes]
    keys = [MetricKey(*series[:6], "", series.bucket, series.unit) for series in firsts]
    directions = directions_of([MetricKey(*series[:8], series.unit) for series in firsts], (), rules)
    numbers = np.arange(len(keys))
    return RowNames(_columns(pool.keys, keys, directions), directions, len(keys), numbers[:0], numbers)


def _first_series(measurements: Measurements, codes: Iterable[int]) -> Series:
    """Return the first series of a key by name, independent of the order of arrival."""
    return min(measurements.table.series[code] for code in codes)


def _columns(
    names: Sequence[tuple[str, ...]], keys: Sequence[MetricKey], directions: list[str]
) -> dict[str, pl.Series]:
    columns = {name: [row[i] for row in names] for i, name in enumerate(NAMING)}
    columns |= {name: [getattr(key, name) for key in keys] for name in ("unit", "kind", "metric")}
    columns["direction"] = directions
    return {name: pl.Series(name, values, dtype=pl.String) for name, values in columns.items()}


class Comparison(msgspec.Struct, frozen=True):
    """An answer in the shape shared by all modes.

    ``columns``: columns of the metrics table by name. ``samples``: samples by the ``row`` column. ``counted``,
    ``matched``: per row of the columns. ``share``: matched share of the counted metrics, with its ``interval``. ``changes``
    are along ``axis``, those of ``by_job`` along the runs of one job each. ``untold``: counted metrics that look worse, with
    fewer values than any test needs.
    """

    columns: dict[str, Any]
    samples: Samples
    counted: NDArray[np.bool_]
    matched: NDArray[np.bool_]
    verdict: str
    passed: bool | None
    share: float | None
    interval: tuple[float, float] | None = None
    scores: tuple[RunScores, RunScores] | None = None
    axis: Axis | None = None
    changes: tuple[MetricChanges, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    by_job: tuple[tuple[str, Axis, tuple[MetricChanges, ...]], ...] = ()
    untold: int = 0


def _base_columns(names: RowNames, samples: Samples, mute: Sequence[str]) -> dict[str, Any]:
    rows = np.arange(samples.count)
    return {
        **names.columns,
        "n_left": samples.left.sizes,
        "n_right": samples.right.sizes,
        "runs_left": samples.left.runs_behind,
        "runs_right": samples.right.runs_behind,
        "mean_left": samples.left.means,
        "mean_right": samples.right.means,
        "row": rows,
        "pooled": rows >= names.metrics,
        "muted": matching(names.columns, mute),
    }


def _take(columns: dict[str, Any], rows: Ints) -> dict[str, Any]:
    """Return some rows of the columns."""
    return {
        name: values[rows] if isinstance(values, (pl.Series, np.ndarray)) else [values[row] for row in rows]
        for name, values in columns.items()
    }


def _words(compared: NDArray[np.bool_], matched: NDArray[np.bool_]) -> list[str]:
    """Return the verdict of each row in a mode that only matches or mismatches."""
    return [
        (statistical.EQUIVALENT if same else statistical.DIFFERENT) if both else statistical.MISSING
        for both, same in zip(compared.tolist(), matched.tolist(), strict=True)
    ]


def _effects_of_means(
    left: Floats,
    right: Floats,
    mismatched: NDArray[np.bool_],
    names: RowNames,
    samples: Samples,
    parameters: ComparisonParameters,
) -> list[str]:
    """Return the effects in a mode that compares means: mismatched, and different by enough to count."""
    least = statistical.least_sizes(names.columns, parameters)
    large = statistical.is_large(np.where(left == 0, np.nan, right / left), samples, least)
    return statistical.effects(right - left, mismatched & large, samples, names.columns["unit"], names.directions)


def _share(matched: NDArray[np.bool_], counted: NDArray[np.bool_]) -> float | None:
    return float((matched & counted).sum()) / int(counted.sum()) if counted.any() else None


def benchmark_comparison(
    pool: Pool[BenchmarkKey], measurements: Measurements, parameters: ComparisonParameters, memo: Memo
) -> Comparison:
    """Compare as perf-tests' benchmark tool does, over its own keys.

    Share and PASS follow the published description, since the tool has no such rule.
    """
    answer, left, right = perf_tests.compare(
        pool, parameters.scheme, parameters.threshold, parameters.min_average, memo
    )
    names = memo.value(
        "names of benchmark keys",
        (pool.keys, pool.codes, parameters.direction),
        lambda: name_keys(pool, measurements, parameters.direction),
    )
    columns = _base_columns(names, pool.samples, parameters.mute)
    counted = ~columns["muted"]
    columns |= {
        "mean_left": left.mean,
        "mean_right": right.mean,
        "ratio": answer.ratio,
        "p_value": answer.p_value,
        "matched": answer.matched,
        "upstream_matched": answer.matched,
        "verdict": _words((left.n > 0) & (right.n > 0), answer.matched),
        "effect": _effects_of_means(left.mean, right.mean, ~answer.matched, names, pool.samples, parameters),
    }
    share = _share(answer.matched, counted)
    verdict, passed = perf_tests.passes(share, parameters.pass_share)
    notes = (
        "As perf-tests' benchmark tool: APIResponsiveness_ and PodStartupLatency_ files only; a metric that one side lacks "
        "is matched, as in the tool; the pass rule is the published description's, the tool has none.",
    )
    return Comparison(columns, pool.samples, counted, answer.matched, verdict, passed, share, notes=notes)


def published_comparison(
    pooled: UnitAwarePool,
    pool: Pool[BenchmarkKey],
    measurements: Measurements,
    parameters: ComparisonParameters,
    memo: Memo,
) -> Comparison:
    """Compare as the published description does, over its metric set."""
    part = perf_tests.metric_set(pooled.keys, parameters.percentiles, parameters.kinds)
    answer = perf_tests.compare_published(
        pooled.keys, pooled.samples, part, parameters.similarity, parameters.threshold, parameters.upper
    )
    names = memo.value(
        "names of published metrics",
        (pooled.keys, pool.keys, pool.codes, parameters.direction),
        lambda: name_metrics(pooled, pool, measurements, (), parameters.direction, with_pools=False),
    )
    columns = _base_columns(names, pooled.samples, parameters.mute)
    mismatched = answer.compared & ~answer.matched
    lacking = part & ~answer.compared
    columns |= {
        "mean_left": np.where(lacking, columns["mean_left"], answer.mean_left),
        "mean_right": np.where(lacking, columns["mean_right"], answer.mean_right),
        "ratio": answer.ratio,
        "similarity": answer.similarity,
        "matched": answer.matched,
        "verdict": _words(answer.compared, answer.matched),
        "effect": _effects_of_means(answer.mean_left, answer.mean_right, mismatched, names, pooled.samples, parameters),
    }
    rows = np.flatnonzero(part)
    counted = answer.compared & ~columns["muted"]
    share = _share(answer.matched, counted)
    verdict, passed = perf_tests.passes(share, parameters.pass_share)
    similarity = float(answer.similarity[answer.compared].mean()) if counted.any() else None
    notes = (
        f"Published mode: percentiles {', '.join(parameters.percentiles)}; values below 50 ms (API) and 1 s (pod startup) "
        f"count as that; matched from {parameters.threshold:g} to {parameters.upper:g}.",
    )
    return Comparison(
        _take(columns, rows), pooled.samples, counted[rows], answer.matched[rows], verdict, passed, share,
        notes=notes, extra={"similarity": similarity}, problems=_mixed_units(pooled, part),
    )  # fmt: skip


def _mixed_units(pooled: UnitAwarePool, part: NDArray[np.bool_]) -> tuple[Problem, ...]:
    """Return one problem per file that writes metrics in a different unit."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for metric in pooled.mixed:
        if part[metric.row]:
            key = pooled.keys[metric.row]
            name = " ".join(word for word in own_name(key)[1:] if word)
            written = " and ".join(unit or "no unit" for unit in metric.units)
            reasons[metric.path].append(f"{name}: written in {written}, converted to {key.unit}")
    return tuple(
        Problem.at(path, "mixed-units", "; ".join(each[:3]), count=len(each)) for path, each in reasons.items()
    )


class _Rows(msgspec.Struct, frozen=True, eq=False):
    """Rows of the statistical answer: all metrics, then the benchmark tool's pools of several metrics.

    The pools are shown for comparison and never counted. ``names.pools``: their rows in the tool's pool.
    """

    names: RowNames
    samples: Samples
    pools: Samples
    pool_evidence: Evidence


def _statistical_rows(
    pooled: UnitAwarePool,
    pool: Pool[BenchmarkKey],
    measurements: Measurements,
    runs: Runs,
    parameters: ComparisonParameters,
    memo: Memo,
    check: Callable[[], None],
) -> _Rows:
    with_pools = not parameters.kinds
    names = memo.value(
        "names of metrics",
        (pooled.keys, pool.keys, pool.codes, with_pools, runs.directions, parameters.direction),
        lambda: name_metrics(pooled, pool, measurements, runs.directions, parameters.direction, with_pools=with_pools),
    )

    def make() -> _Rows:
        left, right = pool.samples.left.take(names.pools), pool.samples.right.take(names.pools)
        pools = Samples(left, right)
        both = Samples(pooled.samples.left.followed_by(left), pooled.samples.right.followed_by(right))
        return _Rows(names, both, pools, gather(pools, parameters.alpha, check))

    return memo.value("rows", (pooled, pool, names, parameters.alpha), make)


def statistical_comparison(
    pooled: UnitAwarePool,
    pool: Pool[BenchmarkKey],
    measurements: Measurements,
    runs: Runs,
    sides: Sides,
    parameters: ComparisonParameters,
    memo: Memo,
    check: Callable[[], None],
    progress: Callable[[float, str], None],
) -> Comparison:
    """Compare by tests, intervals, resampling of whole runs and change points."""
    several = min(len(sides.left), len(sides.right)) > 1
    part = np.array(
        [
            (not parameters.kinds or key.kind in parameters.kinds) and not (several and key.bucket == REQUEST)
            for key in pooled.keys
        ],
        dtype=bool,
    )
    progress(0.2, "tests and intervals")
    evidence = memo.value(
        "evidence", (pooled, parameters.alpha), lambda: gather(pooled.samples, parameters.alpha, check)
    )
    progress(0.6, "resampling runs")
    rows = _statistical_rows(pooled, pool, measurements, runs, parameters, memo, check)
    counted = part & ~matching(rows.names.columns, parameters.mute)[: len(part)]
    resamples = along_runs.resample(pooled.samples, evidence, counted, parameters.draws, parameters.seed, memo, check)
    progress(0.8, "change points")
    axis = along_runs.time_axis(sides.left, sides.right)
    changes = along_runs.find_changes(pooled.samples, axis, part, parameters, memo, check)
    by_job = tuple(
        (
            job,
            of_job,
            along_runs.find_changes(pooled.samples, of_job, part, parameters, memo, check, along=job).metrics,
        )
        for job, of_job in along_runs.axes_by_job(axis).items()
    )
    check()
    scores = along_runs.score_runs(resamples, evidence, statistical.usable_margin(parameters.threshold))
    benchmark, _, _ = perf_tests.compare(pool, parameters.scheme, parameters.threshold, parameters.min_average, memo)
    answer = _judge(rows, pooled, part, counted, evidence, resamples, scores, axis, changes, benchmark, parameters)
    return msgspec.structs.replace(answer, by_job=by_job)


def _judge(
    rows: _Rows,
    pooled: UnitAwarePool,
    part: NDArray[np.bool_],
    taken: NDArray[np.bool_],
    evidence: Evidence,
    resamples: along_runs.Resamples,
    scores: tuple[RunScores, RunScores],
    axis: Axis,
    changes: Changes,
    benchmark: perf_tests.Answer,
    parameters: ComparisonParameters,
) -> Comparison:
    """Return the answer for one threshold: verdicts of all rows, the matched share and its interval.

    ``part``: metrics that are shown; ``taken``: shown metrics that count.
    """
    margin = statistical.usable_margin(parameters.threshold)
    pools = rows.pools.count
    ratio = np.concatenate([as_ratio(each, each.shift) for each in (evidence, rows.pool_evidence)])
    large = statistical.is_large(ratio, rows.samples, statistical.least_sizes(rows.names.columns, parameters))
    metrics = len(part)
    parts = tuple(
        (each, statistical.decide(each, samples, margin, parameters.alpha, counted, is_large))
        for each, samples, counted, is_large in (
            (evidence, pooled.samples, taken, large[:metrics]),
            (rows.pool_evidence, rows.pools, np.ones(pools, dtype=bool), large[metrics:]),
        )
    )
    words, changed, inside, needed, untold = (
        np.concatenate([getattr(verdicts, name) for _, verdicts in parts])
        for name in ("words", "changed", "inside", "runs_needed", "untold")
    )
    compared = np.concatenate([each.compared for each, _ in parts])
    moved = np.concatenate([each.shift for each, _ in parts])
    real, would = (
        statistical.effects(moved, large & those, rows.samples, rows.names.columns["unit"], rows.names.directions)
        for those in (changed, compared)
    )
    has_key = rows.names.key_of >= 0
    benchmark_matched = (
        has_key & benchmark.matched[np.where(has_key, rows.names.key_of, 0)] if has_key.any() else has_key
    )
    disagree = words == np.where(benchmark_matched, statistical.DIFFERENT, statistical.EQUIVALENT)
    columns = _base_columns(rows.names, rows.samples, parameters.mute) | {
        "median_left": rows.samples.left.medians,
        "median_right": rows.samples.right.medians,
        "ratio": ratio,
        "ratio_low": np.concatenate([as_ratio(each, each.low) for each, _ in parts]),
        "ratio_high": np.concatenate([as_ratio(each, each.high) for each, _ in parts]),
        **{
            name: np.concatenate([getattr(each, name) for each, _ in parts])
            for name in ("p_value", "spread_p", "cliffs_delta")
        },
        **{
            name: np.concatenate([getattr(verdicts, name) for _, verdicts in parts]) for name in ("q_value", "spread_q")
        },
        "verdict": words.tolist(),
        "changed": changed & compared,
        "matched": inside,
        "runs_needed": statistical.in_runs(needed, rows.samples),
        "effect": real,
        "upstream_matched": _where_known(benchmark_matched, has_key),
        "disagree": _where_known(disagree, has_key),
    }
    shown = np.concatenate([np.flatnonzero(part), np.arange(len(pooled.keys), rows.samples.count)])
    counted = np.concatenate([(taken & evidence.compared)[part], np.zeros(pools, dtype=bool)])
    matched = inside[shown]
    total = int(counted.sum())
    share = _share(matched, counted)
    low, high = along_runs.share_interval(resamples, evidence, margin, 1.0 - 2.0 * parameters.alpha, share or 0.0)
    different = int(((words == statistical.DIFFERENT)[shown] & counted).sum())
    verdict, passed = statistical.overall(share, (low, high), rows.samples, parameters.pass_share, different)
    notes = [
        f"Worse and better: q ≤ {parameters.alpha:g} and changed by {100 * parameters.worse_by:g}% or more (worse-by). "
        f"Ratio right/left (Hodges-Lehmann: the median of all pairwise ratios) with its {1 - 2 * parameters.alpha:.0%} interval; "
        f"equivalent if the interval lies within {margin:g} to {1 / margin:.3g}, different if q ≤ {parameters.alpha:g}.",
    ]
    fewest = statistical.fewest_values(parameters.alpha)
    values = np.minimum(rows.samples.left.sizes, rows.samples.right.sizes)
    untold = ((np.array(would) == "worse") & untold)[shown] & counted
    if total and int(values.max()) < fewest:
        alpha = f"{parameters.alpha:g}"
        notes.insert(0, f"With fewer than {fewest} values on each side no metric can be different at alpha {alpha}.")
    if 0 < changes.searched < total:
        notes.append(f"Change points were looked for in the {changes.searched} metrics that drift most, of {total}.")
    if pools:
        notes.append(
            f"{pools} rows are the benchmark tool's pools of several metrics: shown for comparison, never counted."
        )
    return Comparison(
        _take(columns, shown), rows.samples, counted, matched, verdict, passed, share, (low, high), scores, axis,
        changes.metrics, tuple(notes), _mixed_units(pooled, part), untold=int(untold.sum()),
    )  # fmt: skip


def _where_known(values: NDArray[np.bool_], known: NDArray[np.bool_]) -> list[bool | None]:
    return [value if is_known else None for value, is_known in zip(values.tolist(), known.tolist(), strict=True)]
