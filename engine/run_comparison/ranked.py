"""Evidence that grows: sorted samples, ranks and windows of differences of each metric, so that one more run costs its own
values and not those of all runs before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.chunks import Floats
from engine.run_comparison.evidence import Evidence, gap_p_values, gather, squares
from engine.run_comparison.samples import Added, Samples, Side
from engine.stats.pairs import PairWindows, count_below
from engine.stats.ranks import Merged, critical_rank, mann_whitney, merge
from engine.stats.shift import hodges_lehmann

Numbers = NDArray[np.int64]

_WORTH = 2_500
"""Pairs of values of a metric from which it is followed; fewer are looked at anew each time."""

_SPARSE = 4
"""Followed samples lie in matrices: they may be at most so many times as large as the samples."""

_FEW = 8
"""One in so many windows may be made anew at once; with more, all shifts are found the plain way."""

_PIECE = 900
"""Windows made in one piece of work ahead: about a tenth of a second."""

_ORDERED = 300_000
"""Values of a side put in order in one piece of work ahead."""

_BLOCK = 32_768
"""Values looked at together: they stay in the cache."""

_RAW, _CHANGED, _CROSSED = 0, 1, 2
_GROUPS = 3
"""Wanted differences: the middle one or two, and the ends of the interval."""


class Ranked:
    """The samples of many metrics, sorted, with all that their tests need. Values only ever come."""

    def __init__(
        self, samples: Samples, evidence: Evidence, alpha: float, only: NDArray[np.bool_] | None = None
    ) -> None:
        """Follow the metrics of ``samples`` (or those ``only``), whose ``evidence`` at ``alpha`` is known."""
        self._wanted = np.ones(samples.count, dtype=bool) if only is None else only
        self.samples, self.evidence, self.alpha = samples, evidence, alpha
        left, right = samples.left, samples.right
        worth = evidence.compared & (left.sizes * right.sizes >= _WORTH) & np.isfinite(evidence.low)
        metrics = np.flatnonzero(worth)
        for side in (left, right):
            dense = side.sizes[metrics].max(initial=0) * metrics.size <= _SPARSE * side.sizes[metrics].sum()
            metrics = metrics if dense else metrics[:0]
        self._metrics = metrics
        self._row = np.full(samples.count, -1, dtype=np.int64)
        self._row[metrics] = np.arange(metrics.size)
        self._logarithmic = evidence.logarithmic[metrics]
        self._n1, self._n2 = left.sizes[metrics], right.sizes[metrics]
        self._u, self._ties = np.zeros(metrics.size), np.zeros(metrics.size)
        self._squares = np.zeros((2, metrics.size))
        largest = int(max(self._n1.max(initial=0), self._n2.max(initial=0)))
        self._windows = PairWindows(metrics.size, _GROUPS, largest)
        self._left, self._right = self._empty(self._n1, 3), self._empty(self._n2, 2)
        self._built = 0

    @staticmethod
    def _empty(sizes: Numbers, planes: int) -> Floats:
        most = int(sizes.max(initial=0))
        return np.full((sizes.size, planes, most + max(most // 4, 16)), np.inf)

    @property
    def ready(self) -> bool:
        """Whether all samples are in order."""
        return self._built == self._metrics.size

    def build(self) -> None:
        """Put the samples of some more metrics in order."""
        largest = max(int(self._n1.max(initial=1)), int(self._n2.max(initial=1)))
        stop = min(self._built + max(1, _ORDERED // largest), self._metrics.size)
        rows, self._built = np.arange(self._built, stop), stop
        for own, side in ((self._left, self.samples.left), (self._right, self.samples.right)):
            self._order(own, side, rows)
        for group, n1, n2 in self._shapes(rows):
            x, y = self._left[group][:, :, :n1], self._right[group][:, :, :n2]
            merged = merge(x[:, _RAW], y[:, _RAW])
            self._u[group], self._ties[group] = merged.u_left, merged.tie_term
            self._squares[0, group], self._squares[1, group] = squares(x[:, _CHANGED]), squares(y[:, _CHANGED])
            for row, one, other in zip(group.tolist(), x[:, _RAW], y[:, _RAW], strict=True):
                self._left[row, _CROSSED, :n1] = other.searchsorted(one)

    def _order(self, own: Floats, side: Side, rows: Numbers) -> None:
        """Samples sorted, as they are and transformed: [metrics, planes, values], infinite behind the last."""
        sizes = side.sizes[self._metrics[rows]]
        for size in np.unique(sizes).tolist():
            some = rows[sizes == size]
            values = np.sort(side.rows(self._metrics[some], size), axis=1)
            own[some, _RAW, :size] = values
            own[some, _CHANGED, :size] = self._transformed(some, values)

    def _transformed(self, rows: Numbers, values: Floats) -> Floats:
        logarithmic = self._logarithmic[rows].reshape(-1, *(1,) * (values.ndim - 1))
        return np.where(logarithmic, np.log(np.where(logarithmic, values, 1.0)), values)

    def _shapes(self, rows: Numbers) -> Iterator[tuple[Numbers, int, int]]:
        """Rows by their sample sizes."""
        if not rows.size:
            return
        joint = self._n1[rows] * (int(self._n2.max()) + 1) + self._n2[rows]
        order = np.argsort(joint, kind="stable")
        for group in np.split(rows[order], np.flatnonzero(np.diff(joint[order])) + 1):
            yield group, int(self._n1[group[0]]), int(self._n2[group[0]])

    # -- arrivals ------------------------------------------------------------------------------------------------------

    def follow(self, samples: Samples, check: Callable[[], None]) -> Evidence | None:
        """The evidence of ``samples`` if they are those known with runs added, else None. Of no use any more if that is
        broken off."""
        left, right = samples.left.since(self.samples.left), samples.right.since(self.samples.right)
        if left is None or right is None:
            return None
        if not left and not right:
            return self.evidence
        touched = np.zeros(samples.count, dtype=bool)
        for runs, is_left in ((left, True), (right, False)):
            for run in runs:
                touched[run.metrics] = True
                self._put(run, left=is_left)
        followed = touched & (self._row >= 0)
        rest = touched & ~followed & self._wanted & (samples.left.sizes > 0) & (samples.right.sizes > 0)
        found = self._told(self._row[followed], check)
        if rest.any():
            found = found.with_rows(rest, gather(samples, self.alpha, check, rest))
        self.samples, self.evidence = samples, found
        return found

    @property
    def worn(self) -> bool:
        """Whether so much has changed that it is better to begin anew."""
        sizes = self.samples.left.sizes * self.samples.right.sizes
        lost = np.count_nonzero((sizes >= 2 * _WORTH) & (self._row < 0) & self.evidence.compared)
        largest = max(int(self._n1.max(initial=0)), int(self._n2.max(initial=0)))
        return bool(8 * lost > self.samples.count or largest > 2 * self._windows.size)

    def _put(self, run: Added, *, left: bool) -> None:
        """One run's values, one of each metric at a time."""
        first = np.searchsorted(run.metrics, run.metrics)
        layer = np.arange(run.metrics.size) - first
        for number in range(int(layer.max(initial=-1)) + 1):
            some = layer == number
            rows, values = self._row[run.metrics[some]], run.values[some]
            odd = rows[(rows >= 0) & (values <= 0)]
            self._forget(odd[self._logarithmic[odd]])  # from now on that metric has no ratio
            rows = self._row[run.metrics[some]]
            self._insert(rows[rows >= 0], values[rows >= 0], left=left)

    def _forget(self, rows: Numbers) -> None:
        self._row[self._metrics[rows]] = -1

    def _insert(self, rows: Numbers, values: Floats, *, left: bool) -> None:
        own, other = (self._left, self._right) if left else (self._right, self._left)
        n_own, n_other = (self._n1, self._n2) if left else (self._n2, self._n1)
        if int(n_own[rows].max(initial=0)) == own.shape[2]:
            more = np.full((*own.shape[:2], max(own.shape[2] // 4, 16)), np.inf)
            own = np.concatenate([own, more], axis=2)
            if left:
                self._left = own
            else:
                self._right = own
        changed = self._transformed(rows, values)
        self._windows.add(rows, changed, other[:, _CHANGED], n_other, left=left)
        sizes, others = n_own[rows], n_other[rows]
        below = count_below(own[:, _RAW], rows, sizes, values)
        upto = count_below(own[:, _RAW], rows, sizes, values, equal=True)
        other_below = count_below(other[:, _RAW], rows, others, values)
        other_upto = count_below(other[:, _RAW], rows, others, values, equal=True)
        half = (other_upto - other_below) / 2.0
        self._u[rows] += other_below + half if left else others - other_upto + half
        same = (upto - below + other_upto - other_below).astype(np.float64)
        self._ties[rows] += 3.0 * same * (same + 1.0)
        for row, at, n in zip(rows.tolist(), upto.tolist(), sizes.tolist(), strict=True):
            planes = own[row]
            planes[:, at + 1 : n + 1] = planes[:, at:n]
        own[rows, _RAW, upto], own[rows, _CHANGED, upto] = values, changed
        if left:
            own[rows, _CROSSED, upto] = other_below
        else:
            for row, at, n in zip(rows.tolist(), other_upto.tolist(), others.tolist(), strict=True):
                other[row, _CROSSED, at:n] += 1.0
        n_own[rows] += 1
        self._square(rows, left=left)

    def _square(self, rows: Numbers, *, left: bool) -> None:
        """Squared distances from the mean, of samples that changed."""
        own, sizes = (self._left, self._n1) if left else (self._right, self._n2)
        for size in np.unique(sizes[rows]).tolist():
            alike = rows[sizes[rows] == size]
            step = max(1, _BLOCK // size)
            for start in range(0, alike.size, step):
                some = alike[start : start + step]
                self._squares[0 if left else 1, some] = squares(own[some, _CHANGED, :size])

    # -- telling -------------------------------------------------------------------------------------------------------

    def _told(self, rows: Numbers, check: Callable[[], None]) -> Evidence:
        """The evidence with that of ``rows`` made anew from what is kept."""
        new = {name: np.array(getattr(self.evidence, name)) for name in Evidence.__slots__}
        for group, n1, n2 in self._shapes(rows):
            metrics = self._metrics[group]
            x, y = _some(self._left, group)[:, :, :n1], _some(self._right, group)[:, :, :n2]
            ties, u = self._ties[group], self._u[group]
            gap = _gaps(x[:, _CROSSED], n2)
            tied = np.flatnonzero(ties > 0)
            if tied.size:
                gap[tied] = np.rint(merge(x[tied, _RAW], y[tied, _RAW]).distance * n1 * n2)
            merged = Merged(n1, n2, gap / (n1 * n2), u, ties)
            new["p_value"][metrics] = mann_whitney(x[:, _RAW], y[:, _RAW], merged).two_sided
            new["spread_p"][metrics] = gap_p_values(gap, n1, n2)
            new["cliffs_delta"][metrics] = merged.cliffs_delta
            new["base"][metrics] = np.abs((x[:, _RAW, (n1 - 1) // 2] + x[:, _RAW, n1 // 2]) / 2.0)
            new["deviation"][metrics] = np.sqrt(self._squares[:, group].sum(axis=0) / (n1 + n2 - 2))
            for name, values in zip(("shift", "low", "high"), self._shifts(group, x, y, check), strict=True):
                new[name][metrics] = values
        return Evidence(**new)

    def _ranks(self, n1: int, n2: int) -> tuple[Numbers, Numbers]:
        """The first and last rank of each wanted group of differences."""
        pairs, c = n1 * n2, critical_rank(n1, n2, self.alpha)
        return np.array([(pairs - 1) // 2, c - 1, pairs - c]), np.array([pairs // 2, c - 1, pairs - c])

    def _shifts(self, group: Numbers, x: Floats, y: Floats, check: Callable[[], None]) -> tuple[Floats, Floats, Floats]:
        """Estimate and interval of the shift of rows of equal sizes."""
        n1, n2 = x.shape[2], y.shape[2]
        firsts, lasts = self._ranks(n1, n2)
        ends = np.stack([x[:, _CHANGED, 0], x[:, _CHANGED, -1], y[:, _CHANGED, 0], y[:, _CHANGED, -1]])
        scale = np.abs(ends).max(axis=0)
        first, last = np.tile(firsts, (group.size, 1)), np.tile(lasts, (group.size, 1))
        one, other, sure = self._windows.find(group, first, last, scale)
        unsure = ~sure
        if unsure.any() and _FEW * np.count_nonzero(unsure) <= sure.size:
            for at, wanted in np.argwhere(unsure).tolist():
                row = int(group[at])
                self._make(row, wanted, x[at, _CHANGED], y[at, _CHANGED])
            rows = np.flatnonzero(unsure.any(axis=1))
            one[rows], other[rows], sure[rows] = self._windows.find(group[rows], first[rows], last[rows], scale[rows])
        estimate, low, high = (one[:, 0] + other[:, 0]) / 2.0, one[:, 1], one[:, 2]
        plain = np.flatnonzero(~sure.all(axis=1))
        if plain.size:
            found = hodges_lehmann(x[plain, _CHANGED], y[plain, _CHANGED], self.alpha, check, ordered=True)
            estimate[plain], low[plain], high[plain] = found.estimate, found.low, found.high
        return estimate, low, high

    def _make(self, row: int, wanted: int, x: Floats, y: Floats) -> None:
        """The window of one row around one of the wanted differences, from the sorted samples."""
        metric = self._metrics[row]
        shift, low, high = (
            float(part[metric]) for part in (self.evidence.shift, self.evidence.low, self.evidence.high)
        )
        firsts, lasts = self._ranks(x.size, y.size)
        spacing = (high - low) / max(int(lasts[2] - firsts[1]), 1)
        guess = (shift, low, high)[wanted]
        self._windows.make(row, wanted, x, y, int(firsts[wanted]), int(lasts[wanted]), guess, spacing)

    # -- ahead ---------------------------------------------------------------------------------------------------------

    def ahead(self) -> bool:
        """Make some of the windows that are lacking, of what was told last. False if there is nothing to do."""
        rows = self._row[self._row >= 0]
        lacking = rows[self._windows.lacking(rows).any(axis=1)]
        for row in lacking[: _PIECE // _GROUPS].tolist():
            x, y = self._left[row, _CHANGED, : self._n1[row]], self._right[row, _CHANGED, : self._n2[row]]
            for wanted in np.flatnonzero(self._windows.lacking(np.array([row]))[0]).tolist():
                self._make(row, wanted, x, y)
        return lacking.size > 0


def _some(block: Floats, rows: Numbers) -> Floats:
    """Rows of a matrix, without a copy where they are all."""
    return block if rows.size == len(block) else block[rows]


def _gaps(crossed: Floats, n2: int) -> Floats:
    """Largest gap of two empirical distribution functions times n1 n2, from how many right values lie below each left
    one; without ties."""
    n1 = crossed.shape[1]
    risen = np.arange(1.0, n1 + 1.0) * n2
    found = np.empty(len(crossed))
    step = max(1, _BLOCK // n1)
    for start in range(0, len(crossed), step):
        apart = risen - n1 * crossed[start : start + step]
        # After a left value the gap is this, just before it n2 less.
        found[start : start + step] = np.maximum(apart.max(axis=1), n2 - apart.min(axis=1))
    return found


class Tracker:
    """The evidence of one comparison from one look to the next."""

    def __init__(self) -> None:
        """Nothing known yet."""
        self._ranked: Ranked | None = None
        self._last: tuple[Samples, Evidence, float] | None = None
        self._only: NDArray[np.bool_] | None = None

    def evidence(
        self,
        samples: Samples,
        alpha: float,
        check: Callable[[], None] = lambda: None,
        only: NDArray[np.bool_] | None = None,
    ) -> Evidence:
        """As ``gather`` has it. Once ``ahead`` has been at work, runs that are newer than all others cost their own
        values. ``only``: metrics to look at."""
        ranked, self._ranked, self._last = self._ranked, None, None
        found = None
        before, self._only = self._only, only
        same = before is only or (before is not None and only is not None and np.array_equal(before, only))
        if ranked is not None and ranked.ready and ranked.alpha == alpha and same:
            found = ranked.follow(samples, check)
        if found is not None and ranked is not None and not ranked.worn:
            self._ranked = ranked
        elif found is None:
            found = gather(samples, alpha, check, only)
        self._last = samples, found, alpha
        return found

    def ahead(self) -> bool:
        """A piece of the work that makes the next arrival cheap. False if there is none."""
        if self._last is None:
            return False
        if self._ranked is None:
            samples, evidence, alpha = self._last
            self._ranked = Ranked(samples, evidence, alpha, self._only)
        if not self._ranked.ready:
            self._ranked.build()
            return True
        return self._ranked.ahead()
