"""Pooling values into samples: per metric the values of the left and of the right runs, newest run first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.chunks import Codes, Floats, Measurements
from engine.run_comparison.units import canonical


class MetricKey(NamedTuple):
    """What a metric is outside upstream mode: a series with its unit converted."""

    kind: str
    report: str
    verb: str
    resource: str
    subresource: str
    scope: str
    metric: str
    bucket: str
    unit: str


@dataclass(frozen=True, slots=True)
class Side:
    """Samples of one side: values of metric ``i`` are ``values[offsets[i]:offsets[i + 1]]``, ``runs`` the place of the
    run (0 is the newest) each value is from, ``n_runs`` how many runs the side has."""

    values: Floats
    runs: NDArray[np.int32]
    offsets: NDArray[np.int64]
    n_runs: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Values per metric."""
        return np.diff(self.offsets)

    def of(self, metric: int) -> Floats:
        """The sample of one metric."""
        return self.values[self.offsets[metric] : self.offsets[metric + 1]]

    def runs_of(self, metric: int) -> NDArray[np.int32]:
        """Run places of the sample of one metric."""
        return self.runs[self.offsets[metric] : self.offsets[metric + 1]]

    def rows(self, metrics: NDArray[np.int64], size: int) -> Floats:
        """Samples of metrics (in order) that all have ``size`` values, as a matrix; not to be written to."""
        first = int(self.offsets[metrics[0]]) if metrics.size else 0
        if metrics.size and int(self.offsets[metrics[-1]]) - first == (metrics.size - 1) * size:
            whole: Floats = self.values[first : first + metrics.size * size].reshape(metrics.size, size)
            return whole
        found: Floats = self.values[self.offsets[metrics][:, None] + np.arange(size)]
        return found

    @property
    def single(self) -> bool:
        """Whether every metric has exactly one value of every run: its samples are one matrix [metrics, runs]."""
        metrics = self.offsets.size - 1
        if not metrics or self.runs.size != metrics * self.n_runs or bool((self.sizes != self.n_runs).any()):
            return False
        return bool((self.runs.reshape(metrics, self.n_runs) == np.arange(self.n_runs, dtype=np.int32)).all())


@dataclass(frozen=True, slots=True)
class Samples:
    """Both sides over the same metrics."""

    left: Side
    right: Side

    @property
    def count(self) -> int:
        """Number of metrics."""
        return self.left.offsets.size - 1

    def shapes(self) -> Iterator[tuple[NDArray[np.int64], int, int]]:
        """Metrics grouped by their two sample sizes: indices, n left, n right."""
        n1, n2 = self.left.sizes, self.right.sizes
        if not n1.size:
            return
        span = int(n2.max()) + 1
        joint = n1 * span + n2
        order = np.argsort(joint, kind="stable")
        edges = np.flatnonzero(np.diff(joint[order])) + 1
        for group in np.split(order, edges):
            yield group, int(n1[group[0]]), int(n2[group[0]])


def pool(parts: Sequence[tuple[int, NDArray[np.int64], Floats]], metrics: int, n_runs: int) -> Side:
    """One side from ``parts`` in sample order: (place of the run, metric of each value or -1, value)."""
    if not parts:
        return Side(np.zeros(0), np.zeros(0, dtype=np.int32), np.zeros(metrics + 1, dtype=np.int64), n_runs)
    which = np.concatenate([metric for _, metric, _ in parts])
    values = np.concatenate([value for _, _, value in parts])
    runs = np.repeat(np.array([run for run, _, _ in parts], dtype=np.int32), [m.size for _, m, _ in parts])
    kept = which >= 0
    if not kept.all():
        which, values, runs = which[kept], values[kept], runs[kept]
    # 16-bit keys are sorted by counting, ten times faster than 64-bit ones.
    order = np.argsort(which.astype(np.uint16) if metrics < 65_536 else which, kind="stable")
    offsets = np.zeros(metrics + 1, dtype=np.int64)
    np.cumsum(np.bincount(which, minlength=metrics), out=offsets[1:])
    return Side(values[order], runs[order], offsets, n_runs)


@dataclass(frozen=True, slots=True)
class Pooled:
    """Samples by honest metric key, and what was noticed: metrics written in several units, with these units and one
    file (as job/run/path) that holds the rarer one."""

    keys: tuple[MetricKey, ...]
    samples: Samples
    mixed: tuple[tuple[int, tuple[str, ...], str], ...]


def metric_keys(measurements: Measurements) -> tuple[list[MetricKey], Codes, Floats]:
    """Keys over all series, the key number of each series code, and the factor into the canonical unit. Kept with the
    measurements: only series that are new since the last call are looked at."""
    table = measurements.keyed
    if table is None:
        table = measurements.keyed = ({}, [], np.zeros(0, dtype=np.int32), np.ones(0))
    numbers, keys, which, factors = table
    fresh = measurements.series[which.size :]
    if fresh:
        more, scale = [], []
        for series in fresh:
            unit = canonical(series.unit)
            key = MetricKey(*series[:7], unit.name if series.bucket == series.unit else series.bucket, unit.name)
            if key not in numbers:
                numbers[key] = len(keys)
                keys.append(key)
            more.append(numbers[key])
            scale.append(unit.factor)
        which = np.concatenate([which, np.array(more, dtype=np.int32)])
        factors = np.concatenate([factors, np.array(scale)])
        measurements.keyed = (numbers, keys, which, factors)
    return keys, which, factors


def medians_by_run(side: Side) -> Side:
    """One value per metric and run: the median of that run's values."""
    metrics = side.offsets.size - 1
    which = np.repeat(np.arange(metrics), side.sizes)
    order = np.lexsort((side.values, side.runs, which))
    joint = which[order] * max(side.n_runs, 1) + side.runs[order]
    if not joint.size:
        return side
    starts = np.flatnonzero(np.concatenate([[True], np.diff(joint) > 0]))
    sizes = np.diff(np.concatenate([starts, [joint.size]]))
    values = side.values[order]
    medians = (values[starts + (sizes - 1) // 2] + values[starts + sizes // 2]) / 2.0
    offsets = np.zeros(metrics + 1, dtype=np.int64)
    np.cumsum(np.bincount(which[order][starts], minlength=metrics), out=offsets[1:])
    return Side(medians, side.runs[order][starts], offsets, side.n_runs)
