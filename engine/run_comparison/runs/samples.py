"""Samples of both sides: per metric the values of the left and of the right runs, the newest run first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.runs.measurements import Floats, Ints

Places = NDArray[np.int32]


class Side:
    """Samples of one side, never changed.

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
        """Mean of each sample; NaN where it is empty."""
        means = np.full(self.count, np.nan)
        for metrics, size in self.by_size():
            means[metrics] = self.rows(metrics, size).sum(axis=1) / size
        return means

    @cached_property
    def medians(self) -> Floats:
        """Median of each sample; NaN where it is empty."""
        medians = np.full(self.count, np.nan)
        for metrics, size in self.by_size():
            middle = np.sort(self.rows(metrics, size), axis=1)[:, (size - 1) // 2 : size // 2 + 1]
            medians[metrics] = middle.sum(axis=1) / middle.shape[1]
        return medians

    @cached_property
    def runs_behind(self) -> Ints:
        """Number of runs that each sample has values of."""
        # Values of a metric are in the order of their runs: a run begins where the place or the metric changes.
        begins = np.ones(self.runs.size + 1, dtype=np.int64)
        begins[1:-1] = self.runs[1:] != self.runs[:-1]
        begins[self.offsets[:-1]] = 1
        runs_until = np.concatenate([[0], np.cumsum(begins[:-1])])
        behind: Ints = runs_until[self.offsets[1:]] - runs_until[self.offsets[:-1]]
        return behind

    def by_size(self) -> Iterator[tuple[Ints, int]]:
        """Yield the metrics that have values, grouped by how many."""
        for size in np.unique(self.sizes[self.sizes > 0]).tolist():
            yield np.flatnonzero(self.sizes == size), size

    def of(self, metric: int) -> Floats:
        """Return the sample of one metric."""
        return self.values[self.offsets[metric] : self.offsets[metric + 1]]

    def rows(self, metrics: Ints, size: int) -> Floats:
        """Return the samples of ``metrics`` (rising), which all have ``size`` values, as a matrix that is not to be changed."""
        if metrics.size == self.count:
            return self.values.reshape(self.count, size)
        rows: Floats = self.values[self.offsets[metrics][:, None] + np.arange(size)]
        return rows

    def run_means(self, metrics: Ints) -> Floats:
        """Return the mean of each of ``metrics`` in each run, the newest first: [metrics, runs]; NaN where it has none."""
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
        """Return the metrics of this side and, behind them, those of ``other``."""
        offsets = np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]])
        values, runs = np.concatenate([self.values, other.values]), np.concatenate([self.runs, other.runs])
        return Side(values, runs, offsets, self.n_runs)


def cell_means(cells: Ints, values: Floats, shape: tuple[int, int]) -> Floats:
    """Return the mean of the ``values`` in each cell of a matrix, added in their order; NaN where there is none.

    ``cells``: number of the cell of each value, row by row.
    """
    total = shape[0] * shape[1]
    sums = np.bincount(cells, weights=values, minlength=total)
    counts = np.bincount(cells, minlength=total)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(counts > 0, sums / counts, np.nan).reshape(shape))


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
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
        edges = np.flatnonzero(np.diff(joint[order])) + 1
        for metrics in np.split(order, edges):
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
