"""Samples of many metrics kept in order while runs arrive, and where the values of one side lie among the other's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.samples import Added, Samples, Side
from engine.stats.pairs import count_below
from engine.stats.ranks import merge

Numbers = NDArray[np.int64]

WORTH = 2_500
"""Pairs of values of a metric from which it is followed; fewer are looked at anew each time."""

BLOCK = 32_768
"""Values looked at together: they stay in the cache."""

RAW, BELOW, UPTO = 0, 1, 2
"""Planes of the left samples: values, and how many right ones lie below each, or not above it. Right samples have the
first only."""

_SPARSE = 4
"""Followed samples lie in matrices: they may be at most so many times as large as the samples."""

_ORDERED = 150_000
"""Values of a side put in order in one piece of work ahead."""


class Ordered:
    """The samples of many metrics, sorted. Values only ever come."""

    planes = 3, 1
    """Planes of the left and of the right samples: [metrics, planes, values], infinite behind the last."""

    def __init__(self, samples: Samples, wanted: NDArray[np.bool_]) -> None:
        """Follow those metrics of ``samples`` that are ``wanted`` and large enough; ``build`` does it."""
        left, right = samples.left, samples.right
        metrics = np.flatnonzero(wanted & (left.sizes * right.sizes >= WORTH))
        for side in (left, right):
            dense = side.sizes[metrics].max(initial=0) * metrics.size <= _SPARSE * side.sizes[metrics].sum()
            metrics = metrics if dense else metrics[:0]
        self.samples = samples
        self.metrics = metrics
        self.row = np.full(samples.count, -1, dtype=np.int64)
        self.row[metrics] = np.arange(metrics.size)
        self.n1, self.n2 = left.sizes[metrics], right.sizes[metrics]
        self.u, self.ties = np.zeros(metrics.size), np.zeros(metrics.size)
        self.left, self.right = self._empty(self.n1, self.planes[0]), self._empty(self.n2, self.planes[1])
        self._built = 0

    @staticmethod
    def _empty(sizes: Numbers, planes: int) -> Floats:
        most = int(sizes.max(initial=0))
        return np.full((sizes.size, planes, most + max(most // 4, 16)), np.inf)

    @property
    def largest(self) -> int:
        """Values of the largest sample."""
        return int(max(self.n1.max(initial=0), self.n2.max(initial=0)))

    @property
    def ready(self) -> bool:
        """Whether all samples are in order."""
        return self._built == self.metrics.size

    def build(self) -> None:
        """Put the samples of some more metrics in order."""
        stop = min(self._built + max(1, _ORDERED // max(self.largest, 1)), self.metrics.size)
        rows, self._built = np.arange(self._built, stop), stop
        for own, side in ((self.left, self.samples.left), (self.right, self.samples.right)):
            self._order(own, side, rows)
        for group, n1, n2 in self.shapes(rows):
            x, y = self.left[group, RAW, :n1], self.right[group, RAW, :n2]
            merged = merge(x, y)
            self.u[group], self.ties[group] = merged.u_left, merged.tie_term
            for row, one, other in zip(group.tolist(), x, y, strict=True):
                self.left[row, BELOW, :n1] = other.searchsorted(one)
                self.left[row, UPTO, :n1] = other.searchsorted(one, side="right")

    def _order(self, own: Floats, side: Side, rows: Numbers) -> None:
        sizes = side.sizes[self.metrics[rows]]
        for size in np.unique(sizes).tolist():
            some = rows[sizes == size]
            own[some, RAW, :size] = np.sort(side.rows(self.metrics[some], size), axis=1)

    def shapes(self, rows: Numbers) -> Iterator[tuple[Numbers, int, int]]:
        """Rows by their sample sizes."""
        if not rows.size:
            return
        joint = self.n1[rows] * (int(self.n2.max()) + 1) + self.n2[rows]
        order = np.argsort(joint, kind="stable")
        for group in np.split(rows[order], np.flatnonzero(np.diff(joint[order])) + 1):
            yield group, int(self.n1[group[0]]), int(self.n2[group[0]])

    def take_in(self, samples: Samples) -> NDArray[np.bool_] | None:
        """Put in the runs that ``samples`` have and those known have not; the metrics they touch. None if that is not how
        ``samples`` came about."""
        left, right = samples.left.since(self.samples.left), samples.right.since(self.samples.right)
        if left is None or right is None:
            return None
        touched = np.zeros(samples.count, dtype=bool)
        for runs, is_left in ((left, True), (right, False)):
            for run in runs:
                touched[run.metrics] = True
                self._put(run, left=is_left)
        self.samples = samples
        return touched

    def _put(self, run: Added, *, left: bool) -> None:
        """One run's values, one of each metric at a time."""
        first = np.searchsorted(run.metrics, run.metrics)
        layer = np.arange(run.metrics.size) - first
        for number in range(int(layer.max(initial=-1)) + 1):
            some = layer == number
            rows, values = self.row[run.metrics[some]], run.values[some]
            self._insert(rows[rows >= 0], values[rows >= 0], left=left)

    def _insert(self, rows: Numbers, values: Floats, *, left: bool) -> Numbers:
        """One value into each of some samples; where each was put."""
        own, other = (self.left, self.right) if left else (self.right, self.left)
        n_own, n_other = (self.n1, self.n2) if left else (self.n2, self.n1)
        if int(n_own[rows].max(initial=0)) == own.shape[2]:
            more = np.full((*own.shape[:2], max(own.shape[2] // 4, 16)), np.inf)
            own = np.concatenate([own, more], axis=2)
            if left:
                self.left = own
            else:
                self.right = own
        sizes, others = n_own[rows], n_other[rows]
        below = count_below(own[:, RAW], rows, sizes, values)
        upto = count_below(own[:, RAW], rows, sizes, values, equal=True)
        other_below = count_below(other[:, RAW], rows, others, values)
        other_upto = count_below(other[:, RAW], rows, others, values, equal=True)
        half = (other_upto - other_below) / 2.0
        self.u[rows] += other_below + half if left else others - other_upto + half
        same = (upto - below + other_upto - other_below).astype(np.float64)
        self.ties[rows] += 3.0 * same * (same + 1.0)
        for row, at, n in zip(rows.tolist(), upto.tolist(), sizes.tolist(), strict=True):
            planes = own[row]
            planes[:, at + 1 : n + 1] = planes[:, at:n]
        own[rows, RAW, upto] = values
        if left:
            own[rows, BELOW, upto], own[rows, UPTO, upto] = other_below, other_upto
        else:
            places = zip(rows.tolist(), other_below.tolist(), other_upto.tolist(), others.tolist(), strict=True)
            for row, first, behind, n in places:
                other[row, BELOW : UPTO + 1, behind:n] += 1.0
                if first < behind:
                    other[row, UPTO, first:behind] += 1.0
        n_own[rows] += 1
        return upto

    def some(self, rows: Numbers, n1: int, n2: int) -> tuple[Floats, Floats]:
        """Samples of rows of equal sizes, [rows, planes, values], without a copy where these are all rows."""
        left, right = (block if rows.size == len(block) else block[rows] for block in (self.left, self.right))
        return left[:, :, :n1], right[:, :, :n2]


class Distances:
    """Kolmogorov and Smirnov's distances of one comparison from one look to the next."""

    def __init__(self) -> None:
        """Nothing known yet."""
        self._ordered: Ordered | None = None
        self._last: tuple[Samples, Floats] | None = None

    def of(self, samples: Samples) -> Floats:
        """The largest gap of the two empirical distribution functions of each metric, as ``merge`` has it; NaN where a side
        is empty. Once ``ahead`` has been at work, runs that are newer than all others cost their own values, and the
        gaps of the metrics they hold."""
        last, ordered = self._last, self._ordered
        if last is not None and last[0].left is samples.left and last[0].right is samples.right:
            return last[1]
        self._last = self._ordered = None
        touched = ordered.take_in(samples) if ordered is not None and ordered.ready else None
        if touched is None or ordered is None or last is None:
            found = _plain(samples, np.ones(samples.count, dtype=bool))
        else:
            self._ordered = ordered
            followed = touched & (ordered.row >= 0)
            found = np.where(touched & ~followed, _plain(samples, touched & ~followed), last[1])
            for rows, n1, n2 in ordered.shapes(ordered.row[followed]):
                found[ordered.metrics[rows]] = _distances(ordered, rows, n1, n2)
        self._last = samples, found
        return found

    def ahead(self) -> bool:
        """A piece of the work that makes the next arrival cheap. False if there is none."""
        if self._last is None or (self._ordered is not None and self._ordered.ready):
            return False
        if self._ordered is None:
            self._ordered = Ordered(self._last[0], np.ones(self._last[0].count, dtype=bool))
        self._ordered.build()
        return True


def _plain(samples: Samples, wanted: NDArray[np.bool_]) -> Floats:
    found = np.full(samples.count, np.nan)
    for metrics, n1, n2 in samples.shapes():
        metrics = metrics[wanted[metrics]]
        if n1 and n2 and metrics.size:
            found[metrics] = merge(samples.left.rows(metrics, n1), samples.right.rows(metrics, n2)).distance
    return found


def _distances(ordered: Ordered, rows: Numbers, n1: int, n2: int) -> Floats:
    left, _ = ordered.some(rows, n1, n2)
    before, upto = np.arange(n1) / n1, np.arange(1, n1 + 1) / n1
    found = np.empty(rows.size)
    for some in blocks(rows.size, n1):
        # Between two left values the gap only grows or shrinks: it is largest at one of them or just before.
        share = left[some, BELOW] / n2
        found[some] = np.maximum((upto - share).max(axis=1), (share - before).max(axis=1))
    tied = np.flatnonzero(ordered.ties[rows] > 0)
    for some in blocks(tied.size, n1):
        part = left[tied[some]]
        first, last = groups(part[:, RAW])
        behind = np.where(last, np.abs(upto - part[:, UPTO] / n2), 0.0)
        ahead = np.where(first, np.abs(before - part[:, BELOW] / n2), 0.0)
        found[tied[some]] = np.maximum(behind.max(axis=1), ahead.max(axis=1))
    return found


def groups(rows: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which values of sorted rows are the first, and which the last, of their equals."""
    differ = rows[:, 1:] != rows[:, :-1]
    edge = np.ones((len(rows), 1), dtype=bool)
    return np.concatenate([edge, differ], axis=1), np.concatenate([differ, edge], axis=1)


def blocks(count: int, width: int) -> Iterator[slice]:
    """Rows of so many values that stay in the cache."""
    step = max(1, BLOCK // width)
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))
