"""Pool the values of the runs of each side into samples by metric, the newest run first.

Units are converted (docs/models/run-comparison.md, Metrics).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.core.incremental import Memo, Partials
from engine.run_comparison.runs.measurements import Codes, Floats, Ints, Measurements, MetricKey, canonical_unit
from engine.run_comparison.runs.runs import Run

Places = NDArray[np.int32]


class Side:
    """Samples of one side; immutable.

    Values of metric ``i`` are ``values[offsets[i]:offsets[i + 1]]``; ``runs`` holds the place of the run that each value
    is from, 0 for the newest of ``n_runs``; ``sizes`` is the number of values per metric.
    """

    def __init__(self, values: Floats, runs: Places, offsets: Ints, n_runs: int) -> None:
        self.values, self.runs, self.offsets, self.n_runs = values, runs, offsets, n_runs
        self.sizes: Ints = np.diff(offsets)

    @property
    def count(self) -> int:
        """Number of metrics."""
        return int(self.sizes.size)

    @cached_property
    def single(self) -> bool:
        """Whether every metric has exactly one value of every run: the samples are one matrix [metrics, runs]."""
        shape = self.count, self.n_runs
        if not self.count or self.runs.size != self.count * self.n_runs or (self.sizes != self.n_runs).any():
            return False
        return bool((self.runs.reshape(shape) == np.arange(self.n_runs, dtype=np.int32)).all())

    @cached_property
    def means(self) -> Floats:
        """Mean of each sample; NaN if empty."""
        means = np.full(self.count, np.nan)
        for metrics, size in self.by_size():
            means[metrics] = self.rows(metrics, size).sum(axis=1) / size
        return means

    @cached_property
    def medians(self) -> Floats:
        """Median of each sample; NaN if empty."""
        medians = np.full(self.count, np.nan)
        for metrics, size in self.by_size():
            middle = np.sort(self.rows(metrics, size), axis=1)[:, (size - 1) // 2 : size // 2 + 1]
            medians[metrics] = middle.sum(axis=1) / middle.shape[1]
        return medians

    @cached_property
    def runs_behind(self) -> Ints:
        """Number of runs that each sample has values of."""
        # Values of a metric are ordered by run: a run begins where the place or the metric changes.
        begins = np.ones(self.runs.size + 1, dtype=np.int64)
        begins[1:-1] = self.runs[1:] != self.runs[:-1]
        begins[self.offsets[:-1]] = 1
        runs_until = np.concatenate([[0], np.cumsum(begins[:-1])])
        return runs_until[self.offsets[1:]] - runs_until[self.offsets[:-1]]

    def by_size(self) -> Iterator[tuple[Ints, int]]:
        """Yield the metrics that have values, grouped by how many."""
        for size in np.unique(self.sizes[self.sizes > 0]).tolist():
            yield np.flatnonzero(self.sizes == size), size

    def of(self, metric: int) -> Floats:
        """Return the sample of one metric."""
        return self.values[self.offsets[metric] : self.offsets[metric + 1]]

    def rows(self, metrics: Ints, size: int) -> Floats:
        """Return the samples of ``metrics`` (rising), each of ``size`` values, as a read-only matrix."""
        if metrics.size == self.count:
            return self.values.reshape(self.count, size)
        return self.values[self.offsets[metrics][:, None] + np.arange(size)]

    def run_means(self, metrics: Ints) -> Floats:
        """Return the mean of each of ``metrics`` in each run, newest first: [metrics, runs]; NaN if a run has no value."""
        if self.single:
            return self.rows(metrics, self.n_runs)
        at = np.concatenate(
            [np.arange(self.offsets[m], self.offsets[m + 1]) for m in metrics] or [np.zeros(0, np.int64)]
        )
        cells = np.repeat(np.arange(metrics.size), self.sizes[metrics]) * self.n_runs + self.runs[at]
        return cell_means(cells, self.values[at], (metrics.size, self.n_runs))

    def take(self, metrics: Ints) -> Side:
        """Return the side with only ``metrics``, in their order."""
        sizes = self.sizes[metrics]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        at = np.repeat(self.offsets[metrics] - offsets[:-1], sizes) + np.arange(int(offsets[-1]))
        return Side(self.values[at], self.runs[at], offsets, self.n_runs)

    def followed_by(self, other: Side) -> Side:
        """Return the metrics of this side followed by those of ``other``."""
        values, runs = np.concatenate([self.values, other.values]), np.concatenate([self.runs, other.runs])
        return Side(values, runs, np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]]), self.n_runs)


@np.errstate(divide="ignore", invalid="ignore")
def cell_means(cells: Ints, values: Floats, shape: tuple[int, int]) -> Floats:
    """Return the mean of the ``values`` in each cell of a matrix, summed in order; NaN for empty cells.

    ``cells``: number of the cell of each value, row by row.
    """
    total = shape[0] * shape[1]
    sums = np.bincount(cells, weights=values, minlength=total)
    counts = np.bincount(cells, minlength=total)
    return np.asarray(np.where(counts > 0, sums / counts, np.nan).reshape(shape))


class Samples(msgspec.Struct, frozen=True, eq=False):
    """Both sides over the same metrics."""

    left: Side
    right: Side

    @property
    def count(self) -> int:
        """Number of metrics."""
        return self.left.count

    def shapes(self) -> Iterator[tuple[Ints, int, int]]:
        """Yield the metrics grouped by their two sample sizes: numbers (rising), n left, n right."""
        n1, n2 = self.left.sizes, self.right.sizes
        if not n1.size:
            return
        joint = n1 * (int(n2.max()) + 1) + n2
        order = np.argsort(joint, kind="stable")
        for metrics in np.split(order, np.flatnonzero(np.diff(joint[order])) + 1):
            yield metrics, int(n1[metrics[0]]), int(n2[metrics[0]])


def pool(parts: Sequence[tuple[int, Ints, Floats]], metrics: int, n_runs: int) -> Side:
    """Return one side made of ``parts`` in sample order: place of the run, metric of each value, values."""
    if not parts:
        return Side(np.zeros(0), np.zeros(0, dtype=np.int32), np.zeros(metrics + 1, dtype=np.int64), n_runs)
    which = np.concatenate([metric for _, metric, _ in parts])
    values = np.concatenate([value for _, _, value in parts])
    runs = np.repeat(np.array([run for run, _, _ in parts], dtype=np.int32), [m.size for _, m, _ in parts])
    # 16-bit keys are sorted by counting, ten times faster than 64-bit ones.
    order = np.argsort(which.astype(np.uint16) if metrics < 65_536 else which, kind="stable")
    offsets = np.zeros(metrics + 1, dtype=np.int64)
    np.cumsum(np.bincount(which, minlength=metrics), out=offsets[1:])
    return Side(values[order], runs[order], offsets, n_runs)


Key = TypeVar("Key", bound=tuple[str, ...])


class RunValues(msgspec.Struct, frozen=True, eq=False):
    """Values of one run in sample order, with the metric number of each.

    ``links``: every pair of metric number and series code in the run as ``number << 32 | code``, sorted, including
    values that are left out.
    """

    metrics: Ints
    values: Floats
    links: Ints

    @classmethod
    def of(cls, metrics: Ints, codes: Codes, values: Floats, taken: NDArray[np.bool_]) -> RunValues:
        """Return the values that are ``taken``, and the links of all."""
        return cls(metrics[taken], values[taken], np.unique(metrics << 32 | codes))

    def has_link(self, metric: int, code: int) -> bool:
        """Whether the run holds the series ``code`` of ``metric``."""
        link = metric << 32 | code
        at = int(np.searchsorted(self.links, link))
        return at < self.links.size and int(self.links[at]) == link


class Pool(msgspec.Struct, Generic[Key], frozen=True, eq=False):
    """Samples of both sides: keys of the metrics in order, and codes of the series behind each of them.

    ``numbers``: the number of each metric in the runs' values. A pool of the same runs stays the same object, so that it
    can be a key.
    """

    keys: tuple[Key, ...]
    samples: Samples
    codes: tuple[frozenset[int], ...]
    numbers: Ints


def values_of_runs(
    name: str, runs: Sequence[Run], read: Callable[[Run], RunValues], choices: Hashable, memo: Memo
) -> list[RunValues]:
    """Return what ``read`` gives for each of ``runs``; only runs that are new to the memo under ``name`` are read."""
    parts: Partials[Run, RunValues] = memo.state(name, Partials)
    parts.update(dict.fromkeys(runs), lambda new: {run: read(run) for run in new}, key=choices)
    return [parts[run] for run in runs]


def pool_runs(
    name: str, left: Sequence[RunValues], right: Sequence[RunValues], keys: Sequence[Key], memo: Memo
) -> Pool[Key]:
    """Return the samples of both sides, their runs the newest first. ``keys[number]``: the key of a metric number.

    Metrics are in the order of their keys, so that a pool does not depend on the order in which runs arrived. ``name`` of
    the pool: a side whose runs and metrics did not change since the last call stays the same object.
    """
    used = np.zeros(len(keys), dtype=bool)
    for part in (*left, *right):
        used[part.metrics] = True
    order = memo.value(f"{name}, order", np.flatnonzero(used).tobytes(), lambda: _key_order(used, keys))
    sides = [
        memo.value(f"{name}, {word}", (tuple(parts), order), partial(_pool_side, parts, order))
        for word, parts in (("left", left), ("right", right))
    ]
    # Most runs hold the same series: process equal arrays of links once.
    links = {part.links.tobytes(): part.links for part in (*left, *right)}
    codes = memo.value(f"{name}, codes", (order, frozenset(links)), lambda: _codes_by_metric(links.values(), order))
    return Pool(order.keys, Samples(*sides), codes, order.numbers)


class _Order(msgspec.Struct, Generic[Key], frozen=True, eq=False):
    """Metrics of a pool in the order of their keys: keys, numbers in the runs' values, and the row of each number."""

    keys: tuple[Key, ...]
    numbers: Ints
    row_of: Ints


def _key_order(used: NDArray[np.bool_], keys: Sequence[Key]) -> _Order[Key]:
    numbers = sorted(np.flatnonzero(used).tolist(), key=keys.__getitem__)
    row_of = np.full(len(keys), -1, dtype=np.int64)
    row_of[numbers] = np.arange(len(numbers))
    return _Order(tuple(keys[number] for number in numbers), np.array(numbers, dtype=np.int64), row_of)


def _codes_by_metric(links: Iterable[Ints], order: _Order[Key]) -> tuple[frozenset[int], ...]:
    """Return the series codes behind each metric that has values."""
    codes: list[set[int]] = [set() for _ in order.keys]
    for each in links:
        # A metric number beyond the table was added later and has no values.
        known = each[each >> 32 < order.row_of.size]
        for row, code in zip(order.row_of[known >> 32].tolist(), (known & 0xFFFFFFFF).tolist(), strict=True):
            if row >= 0:
                codes[row].add(code)
    return tuple(map(frozenset, codes))


def _pool_side(parts: Sequence[RunValues], order: _Order[Key]) -> Side:
    count, n_runs = len(order.keys), len(parts)
    metrics = parts[0].metrics if parts else order.numbers
    rows = order.row_of[metrics]
    each_once = np.array_equal(np.sort(rows), np.arange(count))
    if parts and each_once and all(np.array_equal(part.metrics, metrics) for part in parts):
        # Every run has every metric once, in the same order: the samples form a matrix.
        values = np.stack([part.values for part in parts], axis=1)[np.argsort(rows)].ravel()
        return Side(values, np.tile(np.arange(n_runs, dtype=np.int32), count), np.arange(count + 1) * n_runs, n_runs)
    return pool([(place, order.row_of[part.metrics], part.values) for place, part in enumerate(parts)], count, n_runs)


def medians(metrics: Ints, values: Floats) -> tuple[Ints, Floats]:
    """Return each metric among one run's ``values`` once, with the median of its values."""
    order = np.lexsort((values, metrics))
    metrics, values = metrics[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], metrics[1:] != metrics[:-1]])[: metrics.size])
    sizes = np.diff(np.concatenate([starts, [metrics.size]]))
    return metrics[starts], (values[starts + (sizes - 1) // 2] + values[starts + sizes // 2]) / 2.0


class MixedUnits(msgspec.Struct, frozen=True, eq=False):
    """A metric (row of the pool) written in several units, and one file (job/run/path) with the rarest unit."""

    row: int
    units: tuple[str, ...]
    path: str


class UnitAwarePool(Pool[MetricKey], frozen=True, eq=False):
    """Samples by metric with units converted, and the metrics written in several units."""

    mixed: tuple[MixedUnits, ...]


def pool_by_unit(
    measurements: Measurements, left: tuple[Run, ...], right: tuple[Run, ...], min_count: int, by_run: bool, memo: Memo
) -> UnitAwarePool:
    """Return the samples of all metrics. Null values and items with fewer than ``min_count`` requests are left out.

    ``by_run``: a run gives one value per metric, its median, instead of all values.
    """

    def make() -> UnitAwarePool:
        values = partial(_values_of_run, measurements=measurements, min_count=min_count, by_run=by_run)
        parts = values_of_runs("values by unit", (*left, *right), values, (min_count, by_run), memo)
        pooled = pool_runs("unit-aware pool", parts[: len(left)], parts[len(left) :], measurements.table.keys, memo)
        mixed = _mixed_units(pooled, measurements, (*left, *right), parts)
        return UnitAwarePool(pooled.keys, pooled.samples, pooled.codes, pooled.numbers, mixed)

    return memo.value("unit-aware pool", (left, right, min_count, by_run), make)


def _values_of_run(run: Run, measurements: Measurements, min_count: int, by_run: bool) -> RunValues:
    chunks = [chunk for _, chunk in run.chunks]
    codes = np.concatenate([chunk.codes for chunk in chunks] or [np.zeros(0, dtype=np.int32)])
    counts = np.concatenate([chunk.counts for chunk in chunks] or [np.zeros(0, dtype=np.int64)])
    metrics = measurements.table.key_of[codes].astype(np.int64)
    values = np.concatenate([chunk.values for chunk in chunks] or [np.zeros(0)]) * measurements.table.factors[codes]
    part = RunValues.of(metrics, codes, values, (counts >= min_count) & np.isfinite(values))
    return RunValues(*medians(part.metrics, part.values), part.links) if by_run else part


def _mixed_units(
    pooled: Pool[MetricKey], measurements: Measurements, runs: Sequence[Run], parts: Sequence[RunValues]
) -> tuple[MixedUnits, ...]:
    mixed = []
    for row, codes in enumerate(pooled.codes):
        if len(codes) < 2:
            continue
        code_of_unit = {measurements.table.series[code].unit: code for code in sorted(codes)}
        if len({canonical_unit(unit) for unit in code_of_unit}) < 2:
            continue
        number = int(pooled.numbers[row])
        holders = {
            unit: [run for run, part in zip(runs, parts, strict=True) if part.has_link(number, code)]
            for unit, code in code_of_unit.items()
        }
        rarest = min(holders, key=lambda unit: (len(holders[unit]), unit))
        run = holders[rarest][0]
        path = next(path for path, chunk in run.chunks if (chunk.codes == code_of_unit[rarest]).any())
        mixed.append(MixedUnits(row, tuple(sorted(code_of_unit)), f"{run.job}/{run.name}/{path}"))
    return tuple(mixed)
