"""Order statistics of all pairwise differences of two samples that grow: only the differences around those that are
wanted are kept, in order, with the number of those below.

One more value makes as many differences as the other sample has values; those that fall among the kept ones are found
by bisection. The wanted ranks wander by up to half of that number with each value, so that a window of a few times the
sample's size serves many of them; a window that was left is found anew, from the samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.stats.ranks import Floats

Ints = NDArray[np.int64]

_LATE = 64
"""Differences of a window that came since it was last put in order, at most."""

_MOST = 1 << 25
"""Differences in all windows together, at most: 256 MB. With less than about three times the larger sample in each,
windows are left so often that they help little."""

_TRIES = 8
_CLOSE = 1e-12
"""A difference this near the end of its window (relative to the values) may be misplaced by rounding."""


def count_below(rows: Floats, at: Ints, sizes: Ints, limits: Floats, *, equal: bool = False) -> Ints:
    """For each of ``at`` how many of the first ``sizes`` values of that sorted row lie below its limit (``equal``: or on
    it). Bisection of all rows at a time."""
    return _bisect(rows, at, sizes, np.zeros(limits.shape), limits, equal)


def _bisect(rows: Floats, at: Ints, sizes: Ints, shifts: Floats, limits: Floats, equal: bool) -> Ints:
    """As ``count_below`` for the values plus ``shifts``."""
    low, high = np.zeros(at.size, dtype=np.int64), sizes.copy()
    flat, width = rows, rows.shape[1]
    for _ in range(int(sizes.max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        values = flat[at, np.minimum(middle, width - 1)] + shifts
        less = (values <= limits) if equal else (values < limits)
        open_ = low < high
        up = less & open_
        low, high = np.where(up, middle + 1, low), np.where(up | ~open_, high, middle)
    return low


class PairWindows:
    """Windows around ``groups`` ranks of the differences y - x of ``count`` pairs of sorted samples."""

    def __init__(self, count: int, groups: int, size: int) -> None:
        """No window is known yet. ``size``: of the larger sample."""
        self.groups = groups
        self.size = size
        windows = count * groups
        self.width = max(256, min(4 * size, _MOST // max(windows, 1)))
        self._main = np.empty((windows, self.width))
        self._late = np.full((windows, _LATE), np.inf)
        self._places = np.full((windows, _LATE), np.iinfo(np.int32).max // 2, dtype=np.int32)
        self._held, self._fresh, self._below = (np.zeros(windows, dtype=np.int64) for _ in range(3))
        self._low, self._high = np.full(windows, np.nan), np.full(windows, np.nan)
        self._known = np.zeros(windows, dtype=bool)
        self._hopeless = np.zeros(windows, dtype=bool)

    def add(self, pairs: Ints, values: Floats, others: Floats, sizes: Ints, *, left: bool) -> None:
        """Put one value into each of some pairs (none twice): into the left sample, or the right one. ``others``: rows of
        the other samples, sorted, of ``sizes`` values."""
        windows = (pairs[:, None] * self.groups + np.arange(self.groups)).ravel()
        pairs, values = np.repeat(pairs, self.groups), np.repeat(values, self.groups)
        some = self._known[windows]
        windows, pairs, values = windows[some], pairs[some], values[some]
        low, high, sizes = self._low[windows], self._high[windows], sizes[pairs]
        nothing = np.zeros(values.shape)
        if left:
            first = _bisect(others, pairs, sizes, nothing, values + low, False)
            last = _bisect(others, pairs, sizes, nothing, values + high, True)
            self._below[windows] += first
        else:
            last = _bisect(others, pairs, sizes, low, values, True)
            first = _bisect(others, pairs, sizes, high, values, False)
            self._below[windows] += sizes - last
        counts = np.maximum(last - first, 0)
        many = counts > _LATE
        if many.any():
            self._known[windows[many]] = False
            counts[many] = 0
        full = windows[self._fresh[windows] + counts > _LATE]
        if full.size:
            self._put_in_order(full)
        owner = np.repeat(np.arange(windows.size), counts)
        within = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
        other = others[pairs[owner], first[owner] + within]
        found = other - values[owner] if left else values[owner] - other
        rows, at = windows[owner], self._fresh[windows][owner] + within
        self._late[rows, at] = found
        self._places[rows, at] = count_below(self._main, rows, self._held[rows], found)
        self._fresh[windows] += counts
        self._late[windows] = np.sort(self._late[windows], axis=1)
        self._places[windows] = np.sort(self._places[windows], axis=1)  # places rise with the values

    def _put_in_order(self, windows: Ints) -> None:
        """Merge what came late into these windows; a window grown too wide loses its ends."""
        both = np.concatenate([self._main[windows], self._late[windows]], axis=1)
        both[:, : self.width][np.arange(self.width) >= self._held[windows][:, None]] = np.inf
        both.sort(axis=1, kind="stable")  # two sorted pieces: a merge
        held = self._held[windows] + self._fresh[windows]
        keep = np.where(held > self.width, self.width * 3 // 4, held)
        start = (held - keep) // 2
        self._main[windows] = np.take_along_axis(
            both, np.minimum(start[:, None] + np.arange(self.width), both.shape[1] - 1), axis=1
        )
        cut = np.flatnonzero(held > keep)
        ends = start[cut] + keep[cut] - 1
        self._low[windows[cut]], self._high[windows[cut]] = both[cut, start[cut]], both[cut, ends]
        self._below[windows] += start
        self._held[windows], self._fresh[windows] = keep, 0
        self._late[windows] = np.inf
        self._places[windows] = np.iinfo(np.int32).max // 2

    def find(self, pairs: Ints, first: Ints, last: Ints, scale: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """The differences of the ranks ``first`` and ``last`` (from 0, next to each other or the same; [pairs, groups]), and
        which of them are known for sure. ``scale``: the largest absolute value in each pair of samples."""
        windows = (pairs[:, None] * self.groups + np.arange(self.groups)).ravel()
        low, high = first.ravel() - self._below[windows], last.ravel() - self._below[windows]
        sure = self._known[windows] & (low >= 0) & (high < self._held[windows] + self._fresh[windows])
        one, other = (self._at(windows, np.where(sure, rank, 0)) for rank in (low, high))
        close = _CLOSE * np.repeat(scale, self.groups)
        sure &= (one - self._low[windows] > close) & (self._high[windows] - other > close)
        return one.reshape(first.shape), other.reshape(first.shape), sure.reshape(first.shape)

    def _at(self, windows: Ints, ranks: Ints) -> Floats:
        union = self._places[windows] + np.arange(_LATE, dtype=np.int32)  # rank of each late one among all
        before = (union < ranks[:, None]).sum(axis=1)
        near = np.minimum(before, _LATE - 1)
        each = np.arange(windows.size)
        late = (before < _LATE) & (union[each, near] == ranks)
        main = self._main[windows, np.clip(ranks - before, 0, self.width - 1)]
        return np.asarray(np.where(late, self._late[windows, near], main))

    def lacking(self, pairs: Ints) -> NDArray[np.bool_]:
        """Windows that are not known and may become so: [pairs, groups]."""
        windows = (pairs[:, None] * self.groups + np.arange(self.groups)).ravel()
        return np.asarray(~self._known[windows] & ~self._hopeless[windows]).reshape(-1, self.groups)

    def make(
        self, pair: int, group: int, x: Floats, y: Floats, first: int, last: int, guess: float, spacing: float
    ) -> bool:
        """Find the window of one rank anew from the sorted samples. ``guess``: where about its difference lies,
        ``spacing``: what about differences there are apart. False where too many differences are equal."""
        window = pair * self.groups + group
        half = self.width * 3 // 8
        if self._known[window]:
            low, high, held = self._low[window], self._high[window], self._held[window] + self._fresh[window]
            if np.isfinite(low) and np.isfinite(high) and held > 1:
                spacing = (high - low) / held
                guess = low + (first - self._below[window]) * spacing
        self._known[window] = False
        pairs = x.size * y.size
        for _ in range(_TRIES):
            low = guess - half * spacing if first > half else -np.inf
            high = guess + half * spacing if last + half < pairs - 1 else np.inf
            start, stop = y.searchsorted(x + low), y.searchsorted(x + high, side="right")
            below, upto = int(start.sum()), int(stop.sum())
            held = upto - below
            room = first - below >= half // 2 or low == -np.inf, upto - 1 - last >= half // 2 or high == np.inf
            if held <= self.width and all(room):
                break
            bounded = np.isfinite(low) and np.isfinite(high)
            if bounded and held > 0:
                spacing = (high - low) / held
                guess = (low + high) / 2 + ((first + last) / 2 - (below + upto) / 2) * spacing
            elif held > self.width:
                spacing /= 2.0
            else:
                spacing = spacing * 2.0 if spacing > 0 else 1e-6
        else:
            self._hopeless[window] = True
            return False
        counts = stop - start
        ends = np.cumsum(counts)
        index = np.arange(held) + np.repeat(start - (ends - counts), counts)
        inside = y[index] - np.repeat(x, counts)
        inside.sort()
        self._main[window, :held] = inside
        self._held[window], self._fresh[window], self._below[window] = held, 0, below
        self._low[window], self._high[window] = low, high
        self._late[window] = np.inf
        self._places[window] = np.iinfo(np.int32).max // 2
        self._known[window] = True
        return True
