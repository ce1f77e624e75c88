"""Evidence that grows: sorted samples, ranks and windows of differences of each metric, so that one more run costs its own
values and not those of all runs before it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.insight.evidence import Evidence, gap_p_values, gather, squares
from engine.run_comparison.insight.ordered import BELOW, RAW, UPTO, WORTH, Numbers, Ordered, blocks, groups
from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.samples import Samples, Side
from engine.stats.pairs import PairWindows
from engine.stats.ranks import Merged, critical_rank, mann_whitney
from engine.stats.shift import hodges_lehmann

_FEW = 5
"""One in so many windows may be made anew at once; with more, all shifts are found the plain way."""

_PIECE = 600
"""Windows made in one piece of work ahead: less than a tenth of a second."""

_CHANGED = -1
"""The last plane of samples on both sides: transformed values."""

_GROUPS = 3
"""Wanted differences: the middle one or two, and the ends of the interval."""


class Ranked(Ordered):
    """The samples of many metrics, sorted, with all that their tests need."""

    planes = 4, 2

    def __init__(
        self, samples: Samples, evidence: Evidence, alpha: float, only: NDArray[np.bool_] | None = None
    ) -> None:
        """Follow the metrics of ``samples`` (or those ``only``), whose ``evidence`` at ``alpha`` is known."""
        super().__init__(samples, evidence.compared & np.isfinite(evidence.low))
        self._wanted = np.ones(samples.count, dtype=bool) if only is None else only
        self.evidence, self.alpha = evidence, alpha
        self._logarithmic = evidence.logarithmic[self.metrics]
        self._squares = np.zeros((2, self.metrics.size))
        self._windows = PairWindows(self.metrics.size, _GROUPS, self.largest)

    def _order(self, own: Floats, side: Side, rows: Numbers) -> None:
        super()._order(own, side, rows)
        sizes = side.sizes[self.metrics[rows]]
        for size in np.unique(sizes).tolist():
            some = rows[sizes == size]
            own[some, _CHANGED, :size] = self._transformed(some, own[some, RAW, :size])
        self._square(rows, left=own is self.left)

    def _transformed(self, rows: Numbers, values: Floats) -> Floats:
        logarithmic = self._logarithmic[rows].reshape(-1, *(1,) * (values.ndim - 1))
        return np.where(logarithmic, np.log(np.where(logarithmic, values, 1.0)), values)

    # -- arrivals ------------------------------------------------------------------------------------------------------

    def follow(self, samples: Samples) -> Evidence | None:
        """The evidence of ``samples`` if they are those known with runs added, else None. Quick, and never broken off."""
        touched = self.take_in(samples)
        if touched is None:
            return None
        followed = touched & (self.row >= 0)
        rest = touched & ~followed & self._wanted & (samples.left.sizes > 0) & (samples.right.sizes > 0)
        found = self._told(self.row[followed])
        if rest.any():
            found = found.with_rows(rest, gather(samples, self.alpha, only=rest))
        self.evidence = found
        return found

    @property
    def worn(self) -> bool:
        """Whether so much has changed that it is better to begin anew."""
        sizes = self.samples.left.sizes * self.samples.right.sizes
        lost = np.count_nonzero((sizes >= 2 * WORTH) & (self.row < 0) & self.evidence.compared)
        return bool(8 * lost > self.samples.count or self.largest > 2 * self._windows.size)

    def _insert(self, rows: Numbers, values: Floats, *, left: bool) -> Numbers:
        odd = (values <= 0) & self._logarithmic[rows]
        if odd.any():  # from now on such a metric has no ratio
            self.row[self.metrics[rows[odd]]] = -1
            rows, values = rows[~odd], values[~odd]
        changed = self._transformed(rows, values)
        others, sizes = (self.right, self.n2) if left else (self.left, self.n1)
        self._windows.add(rows, changed, others[:, _CHANGED], sizes, left=left)
        at = super()._insert(rows, values, left=left)
        (self.left if left else self.right)[rows, _CHANGED, at] = changed
        self._square(rows, left=left)
        return at

    def _square(self, rows: Numbers, *, left: bool) -> None:
        """Squared distances from the mean, of samples that changed."""
        own, sizes = (self.left, self.n1) if left else (self.right, self.n2)
        for size in np.unique(sizes[rows]).tolist():
            alike = rows[sizes[rows] == size]
            for part in blocks(alike.size, size):
                some = alike[part]
                self._squares[0 if left else 1, some] = squares(own[some, _CHANGED, :size])

    # -- telling -------------------------------------------------------------------------------------------------------

    def _told(self, rows: Numbers) -> Evidence:
        """The evidence with that of ``rows`` made anew from what is kept."""
        new = {name: np.array(getattr(self.evidence, name)) for name in Evidence.__slots__}
        for group, n1, n2 in self.shapes(rows):
            metrics = self.metrics[group]
            x, y = self.some(group, n1, n2)
            ties, u = self.ties[group], self.u[group]
            gap = _gaps(x, ties > 0, n2)
            merged = Merged(n1, n2, gap / (n1 * n2), u, ties)
            new["p_value"][metrics] = mann_whitney(x[:, RAW], y[:, RAW], merged).two_sided
            new["spread_p"][metrics] = gap_p_values(gap, n1, n2)
            new["cliffs_delta"][metrics] = merged.cliffs_delta
            new["base"][metrics] = np.abs((x[:, RAW, (n1 - 1) // 2] + x[:, RAW, n1 // 2]) / 2.0)
            new["deviation"][metrics] = np.sqrt(self._squares[:, group].sum(axis=0) / (n1 + n2 - 2))
            for name, values in zip(("shift", "low", "high"), self._shifts(group, x, y), strict=True):
                new[name][metrics] = values
        return Evidence(**new)

    def _ranks(self, n1: int, n2: int) -> tuple[Numbers, Numbers]:
        """The first and last rank of each wanted group of differences."""
        pairs, c = n1 * n2, critical_rank(n1, n2, self.alpha)
        return np.array([(pairs - 1) // 2, c - 1, pairs - c]), np.array([pairs // 2, c - 1, pairs - c])

    def _shifts(self, group: Numbers, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
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
            found = hodges_lehmann(x[plain, _CHANGED], y[plain, _CHANGED], self.alpha, ordered=True)
            estimate[plain], low[plain], high[plain] = found.estimate, found.low, found.high
        return estimate, low, high

    def _make(self, row: int, wanted: int, x: Floats, y: Floats) -> None:
        """The window of one row around one of the wanted differences, from the sorted samples."""
        metric = self.metrics[row]
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
        rows = self.row[self.row >= 0]
        lacking = rows[self._windows.lacking(rows).any(axis=1)]
        for row in lacking[: _PIECE // _GROUPS].tolist():
            x, y = self.left[row, _CHANGED, : self.n1[row]], self.right[row, _CHANGED, : self.n2[row]]
            for wanted in np.flatnonzero(self._windows.lacking(np.array([row]))[0]).tolist():
                self._make(row, wanted, x, y)
        return lacking.size > 0


def _gaps(left: Floats, tied: NDArray[np.bool_], n2: int) -> Floats:
    """Largest gap of two empirical distribution functions times n1 n2, from planes of the left samples."""
    n1 = left.shape[2]
    risen = np.arange(1.0, n1 + 1.0) * n2
    found = np.empty(len(left))
    for some in blocks(len(left), n1):
        apart = risen - n1 * left[some, BELOW]
        # After a left value the gap is this, just before it n2 less.
        found[some] = np.maximum(apart.max(axis=1), n2 - apart.min(axis=1))
    rows = np.flatnonzero(tied)
    for some in blocks(rows.size, n1):
        part = left[rows[some]]
        first, last = groups(part[:, RAW])
        behind = np.where(last, np.abs(risen - n1 * part[:, UPTO]), 0.0)
        ahead = np.where(first, np.abs(risen - n2 - n1 * part[:, BELOW]), 0.0)
        found[rows[some]] = np.maximum(behind.max(axis=1), ahead.max(axis=1))
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
            found = ranked.follow(samples)
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
