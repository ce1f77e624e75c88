"""Pooling values into samples: per metric the values of the left and of the right runs, newest run first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.runs.measurements import Codes, Floats, Measurements
from engine.run_comparison.runs.metric_units import canonical

T = TypeVar("T")


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


_REMEMBERED = 64
"""Arrivals after which it is no longer known what came since."""


@dataclass(frozen=True, slots=True, eq=False)
class Added:
    """What one run brought that was put before the others of a side: metric of each value (rising), and the values in
    sample order."""

    metrics: NDArray[np.int64]
    values: Floats


class _Line:
    """What a side and those grown from it share: the memory, and what the last steps added (``first``: how many steps
    are forgotten)."""

    def __init__(self) -> None:
        self.first = 0
        self.added: list[Added] = []

    @property
    def steps(self) -> int:
        return self.first + len(self.added)

    def add(self, added: Added) -> None:
        self.added.append(added)
        if len(self.added) > _REMEMBERED:
            del self.added[0]
            self.first += 1


class Side:
    """Samples of one side, never changed: the values of each metric by run, the newest run first.

    ``n_runs``: how many runs the side has; the place of a run is 0 for the newest. A side can grow by a run that is
    newer than all others in time proportional to that run: in front of each sample there is room in the memory, and
    older sides never look at it.
    """

    __slots__ = (
        "_ages", "_behind", "_flat", "_line", "_made", "_packed", "_serial", "_starts", "n_runs", "single", "sizes"
    )  # fmt: skip

    def __init__(self, values: Floats, runs: NDArray[np.int32], offsets: NDArray[np.int64], n_runs: int) -> None:
        """Values of metric ``i`` are ``values[offsets[i]:offsets[i + 1]]``; ``runs``: the place of the run each is from."""
        sizes = np.diff(offsets)
        metrics = sizes.size
        single = bool(metrics and runs.size == metrics * n_runs and (sizes == n_runs).all())
        single = single and bool((runs.reshape(metrics, n_runs) == np.arange(n_runs, dtype=np.int32)).all())
        ages = None if single else (n_runs - 1 - runs).astype(np.int32)
        self._set(values, ages, offsets[:-1], sizes, n_runs, _Line(), 0, (values, runs, offsets))

    def _set(
        self,
        flat: Floats,
        ages: NDArray[np.int32] | None,
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        n_runs: int,
        line: _Line,
        serial: int,
        packed: tuple[Floats, NDArray[np.int32], NDArray[np.int64]] | None = None,
    ) -> None:
        self._flat, self._ages, self._starts, self._line, self._serial = flat, ages, starts, line, serial
        self.sizes: NDArray[np.int64] = sizes
        """Values per metric."""
        self.n_runs = n_runs
        self.single = ages is None
        """Whether every metric has exactly one value of every run: its samples are one matrix [metrics, runs]."""
        self._packed = packed
        self._made: dict[str, Any] = {}
        self._behind: NDArray[np.int64] | None = sizes if ages is None else None

    def once(self, name: str, make: Callable[[Side], T]) -> T:
        """What ``make`` says of this side, asked once."""
        if name not in self._made:
            self._made[name] = make(self)
        found: T = self._made[name]
        return found

    @property
    def means(self) -> Floats:
        """Mean of each sample; NaN where it is empty."""
        return self.once("means", lambda side: side._sum() / np.where(side.sizes > 0, side.sizes, np.nan))

    def by_size(self) -> Iterator[tuple[NDArray[np.int64], int]]:
        """Metrics that have values, by how many."""
        for size in np.unique(self.sizes[self.sizes > 0]).tolist():
            yield np.flatnonzero(self.sizes == size), size

    def _sum(self) -> Floats:
        sizes, flat = self.sizes, self._flat
        if not sizes.size:
            return np.zeros(0)
        if sizes[0] and (sizes == sizes[0]).all():
            return np.asarray(self.rows(np.arange(sizes.size), int(sizes[0])).sum(axis=1))
        ends = self._starts + sizes
        if int(ends.max()) >= flat.size:
            flat = np.concatenate([flat, [0.0]])
        return np.asarray(np.add.reduceat(flat, np.stack([self._starts, ends], axis=1).ravel())[::2])

    @property
    def behind(self) -> NDArray[np.int64]:
        """From how many runs each sample is."""
        if self._behind is None:
            # Values of a metric are in the order of their runs: a run begins where the place or the metric is another.
            _, runs, offsets = self._pack()
            begins = np.ones(runs.size + 1, dtype=np.int64)
            begins[1:-1] = runs[1:] != runs[:-1]
            begins[offsets[:-1]] = 1
            upto = np.concatenate([[0], np.cumsum(begins[:-1])])
            self._behind = upto[offsets[1:]] - upto[offsets[:-1]]
        return self._behind

    @property
    def count(self) -> int:
        """Number of metrics."""
        return int(self.sizes.size)

    @property
    def values(self) -> Floats:
        """The samples of all metrics behind one another."""
        return self._pack()[0]

    @property
    def runs(self) -> NDArray[np.int32]:
        """The place of the run that each of ``values`` is from."""
        return self._pack()[1]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where in ``values`` the sample of each metric begins, and the end of the last."""
        return self._pack()[2]

    def _pack(self) -> tuple[Floats, NDArray[np.int32], NDArray[np.int64]]:
        if self._packed is None:
            offsets = np.concatenate([[0], np.cumsum(self.sizes)])
            total = int(offsets[-1])
            at = np.repeat(self._starts - offsets[:-1], self.sizes) + np.arange(total)
            if self._ages is None:
                places = np.tile(np.arange(self.n_runs, dtype=np.int32), self.count)
            else:
                places = (self.n_runs - 1 - self._ages[at]).astype(np.int32)
            self._packed = self._flat[at], places, offsets
        return self._packed

    def of(self, metric: int) -> Floats:
        """The sample of one metric."""
        start = int(self._starts[metric])
        return self._flat[start : start + int(self.sizes[metric])]

    def runs_of(self, metric: int) -> NDArray[np.int32]:
        """Run places of the sample of one metric."""
        if self._ages is None:
            return np.arange(self.n_runs, dtype=np.int32)
        start = int(self._starts[metric])
        found: NDArray[np.int32] = self.n_runs - 1 - self._ages[start : start + int(self.sizes[metric])]
        return found

    def rows(self, metrics: NDArray[np.int64], size: int) -> Floats:
        """Samples of metrics (in order) that all have ``size`` values, as a matrix; not to be written to."""
        starts = self._starts[metrics]
        if metrics.size and size:
            step = int(starts[1] - starts[0]) if metrics.size > 1 else size
            if step >= size and (metrics.size < 3 or bool((np.diff(starts) == step).all())):
                bytes_ = self._flat.itemsize
                whole: Floats = np.lib.stride_tricks.as_strided(
                    self._flat[int(starts[0]) :], (metrics.size, size), (step * bytes_, bytes_), writeable=False
                )
                return whole
        found: Floats = self._flat[starts[:, None] + np.arange(size)]
        return found

    def ages_of(self, metrics: NDArray[np.int64], size: int) -> NDArray[np.int32]:
        """For ``rows``: which run each value is from, counted from the oldest, 0."""
        if self._ages is None:
            ages = np.arange(self.n_runs - 1, -1, -1, dtype=np.int32)
            return np.broadcast_to(ages, (metrics.size, size))
        found: NDArray[np.int32] = self._ages[self._starts[metrics][:, None] + np.arange(size)]
        return found

    def grown(self, added: Added) -> Side:
        """This side with one more run, newer than all others."""
        more = np.bincount(added.metrics, minlength=self.count)
        single = self._ages is None and bool((more == 1).all())
        if self._serial != self._line.steps or (self._ages is None) != single or bool((more > self._room()).any()):
            return self._moved(more, single).grown(added)
        starts = self._starts - more
        first = np.cumsum(more) - more
        at = starts[added.metrics] + np.arange(added.metrics.size) - first[added.metrics]
        self._flat[at] = added.values
        if self._ages is not None:
            self._ages[at] = self.n_runs
        self._line.add(added)
        side = Side.__new__(Side)
        side._set(self._flat, self._ages, starts, self.sizes + more, self.n_runs + 1, self._line, self._serial + 1)
        if self._behind is not None and self._ages is not None:
            side._behind = self._behind + (more > 0)
        return side

    def _room(self) -> NDArray[np.int64]:
        """Free places in front of each sample."""
        ends = np.concatenate([[0], (self._starts + self.sizes)[:-1]])
        found: NDArray[np.int64] = self._starts - ends
        return found

    def _moved(self, more: NDArray[np.int64], single: bool) -> Side:
        """The same samples with new room in front of each: a quarter of its size, at least 16 values. Copies everything,
        so that it happens the more rarely the more there is."""
        room = np.maximum(self.sizes // 4, 16) + more
        ends = np.cumsum(room + self.sizes)
        starts = ends - self.sizes
        total = int(self.sizes.sum())
        within = np.arange(total) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        to = np.repeat(starts, self.sizes) + within
        at = np.repeat(self._starts, self.sizes) + within
        flat = np.empty(int(ends[-1]) + 1 if ends.size else 1)
        flat[to] = self._flat[at]
        ages = None
        if not single:
            ages = np.empty(flat.size, dtype=np.int32)
            if self._ages is None:
                ages[to] = self.n_runs - 1 - within
            else:
                ages[to] = self._ages[at]
        side = Side.__new__(Side)
        side._set(flat, ages, starts, self.sizes, self.n_runs, self._line, self._serial)
        side._behind = self._behind
        if self._serial != self._line.steps:
            side._line, side._serial = _Line(), 0
        return side

    def since(self, older: Side) -> tuple[Added, ...] | None:
        """What was added to ``older`` to make this side, run by run; None if that is not how it came about."""
        line = self._line
        if older._line is not line or not line.first <= older._serial <= self._serial:
            return None
        return tuple(line.added[older._serial - line.first : self._serial - line.first])


class Joined(Side):
    """Some metrics of one side behind all of another, without a copy of either."""

    __slots__ = ("_first", "_rows", "_second")

    def __init__(self, first: Side | None, second: Side, rows: NDArray[np.int64]) -> None:
        """``rows``: the metrics of ``second``."""
        nobody = np.zeros(0, dtype=np.int32)
        first = Side(np.zeros(0), nobody, np.zeros(1, dtype=np.int64), second.n_runs) if first is None else first
        sizes = np.concatenate([first.sizes, second.sizes[rows]])
        nothing = np.zeros(0, dtype=np.int64)
        self._set(np.zeros(0), np.zeros(0, dtype=np.int32), nothing, sizes, first.n_runs, _Line(), 0)
        self._first, self._second, self._rows = first, second, rows
        self._made["means"] = np.concatenate([first.means, second.means[rows]])
        self._behind = np.concatenate([first.behind, second.behind[rows]])

    def _at(self, metric: int) -> tuple[Side, int]:
        beyond = metric - self._first.count
        return (self._first, metric) if beyond < 0 else (self._second, int(self._rows[beyond]))

    def of(self, metric: int) -> Floats:
        """The sample of one metric."""
        side, row = self._at(metric)
        return side.of(row)

    def runs_of(self, metric: int) -> NDArray[np.int32]:
        """Run places of the sample of one metric."""
        side, row = self._at(metric)
        return side.runs_of(row)

    def _pack(self) -> tuple[Floats, NDArray[np.int32], NDArray[np.int64]]:
        if self._packed is None:
            offsets = np.concatenate([[0], np.cumsum(self.sizes)])
            values = np.concatenate([*(self.of(i) for i in range(self.count)), np.zeros(0)])
            runs = np.concatenate([*(self.runs_of(i) for i in range(self.count)), np.zeros(0, dtype=np.int32)])
            self._packed = values, runs, offsets
        return self._packed


@dataclass(frozen=True, slots=True)
class Samples:
    """Both sides over the same metrics."""

    left: Side
    right: Side

    @property
    def count(self) -> int:
        """Number of metrics."""
        return self.left.count

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


def medians(metrics: NDArray[np.int64], values: Floats) -> tuple[NDArray[np.int64], Floats]:
    """One value for each of the ``metrics`` that occur among one run's ``values``: the median."""
    order = np.lexsort((values, metrics))
    metrics, values = metrics[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], metrics[1:] != metrics[:-1]])[: metrics.size])
    sizes = np.diff(np.concatenate([starts, [metrics.size]]))
    return metrics[starts], (values[starts + (sizes - 1) // 2] + values[starts + sizes // 2]) / 2.0
