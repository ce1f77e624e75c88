"""Find change points of a series by E-divisive with means (Matteson and James 2014) as Apache Otava applies it.

Sliding windows, Student's t instead of permutations, then merging from the weakest point (Hunter, Fleming et al. 2023;
docs/models/run-comparison.md, Change points).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.stats.ranks import Floats


class ChangePoint(msgspec.Struct, frozen=True):
    """First point (``index``) of a new regime; means and p are of the regimes beside it when it was last judged."""

    index: int
    p_value: float
    mean_before: float
    mean_after: float

    @property
    def relative_change(self) -> float:
        """Mean after / mean before - 1; infinite from zero."""
        return _relative(self.mean_before, self.mean_after)

    @property
    def magnitude(self) -> float:
        """The larger of the forward and backward relative change."""
        return max(abs(_relative(self.mean_before, self.mean_after)), abs(_relative(self.mean_after, self.mean_before)))


def _relative(before: float, after: float) -> float:
    return 0.0 if before == after else math.inf if before == 0 else after / before - 1.0


def best_split(series: Floats) -> tuple[int, float]:
    """Return the (tau, Q) that maximises the energy statistic over all tau and kappa: X = series[:tau], Y = series[tau:kappa].

    Segments of one point are allowed (their inner distance is 0). (0, -inf) for fewer than two points.
    """
    n = series.size
    if n < 2:
        return 0, -math.inf
    for_cross, for_x, for_y = _coefficients(n)
    total = np.zeros((n + 1, n + 1))
    inner = total[1:, 1:]
    np.abs(np.subtract.outer(series, series), out=inner)
    np.cumsum(inner, axis=0, out=inner)
    np.cumsum(inner, axis=1, out=inner)
    diagonal = total.diagonal()
    # upto - at_tau: between X and Y; diagonal - 2 upto + at_tau: twice inside Y; at_tau: twice inside X.
    q = total[1:n, 2:] * (for_cross + for_y)
    q -= diagonal[1:n, None] * (for_cross + for_x + for_y / 2.0)
    q -= diagonal[None, 2:] * (for_y / 2.0)
    at = int(np.argmax(q + _beyond(n)))
    return at // (n - 1) + 1, float(q.ravel()[at])


@lru_cache(maxsize=256)
def _coefficients(n: int) -> tuple[Floats, Floats, Floats]:
    """Return factors of Q for every tau (rows, from 1) and kappa (columns, from 2).

    Of the sum between X and Y, of twice the sum inside X, of the sum inside Y.
    """
    tau = np.arange(1, n)[:, None]
    size_x = tau.astype(np.float64)
    size_y = np.maximum(np.arange(2, n + 1)[None, :] - tau, 1).astype(np.float64)
    both = size_x + size_y
    return (
        2.0 / both,
        size_y / (both * np.maximum(size_x - 1.0, 1.0)),
        2.0 * size_x / (both * np.maximum(size_y - 1.0, 1.0)),
    )


@lru_cache(maxsize=256)
def _beyond(n: int) -> Floats:
    """Return -inf where kappa does not lie behind tau, else 0."""
    return np.where(np.arange(2, n + 1)[None, :] <= np.arange(1, n)[:, None], -np.inf, 0.0)


def student_p(left: Floats, right: Floats) -> float:
    """Return two-sided p of Student's t with pooled variance from population standard deviations, as Otava computes it."""
    n1, n2 = left.size, right.size
    freedom = n1 + n2 - 2
    if freedom <= 0 or not (n1 and n2):
        return 1.0
    mean1, mean2 = float(left.sum()) / n1, float(right.sum()) / n2
    apart1, apart2 = left - mean1, right - mean2
    squares1, squares2 = float(apart1 @ apart1), float(apart2 @ apart2)
    spread = math.sqrt((((n1 - 1) / n1 * squares1 + (n2 - 1) / n2 * squares2) / freedom) * (1.0 / n1 + 1.0 / n2))
    if spread == 0:
        return 1.0 if mean1 == mean2 else 0.0
    from engine.stats.compiled import stdtr

    return float(2.0 * stdtr(freedom, -abs(mean1 - mean2) / spread))


@lru_cache(maxsize=8192)
def _splits_of_window(values: bytes, limit: float) -> list[int]:
    """Return the splits of one window (bytes of its values), divided until the best remaining one is not significant.

    Cached: only the last windows of a growing series change.
    """
    series = np.frombuffer(values)
    ends = [0, series.size]
    best: dict[tuple[int, int], tuple[int, float]] = {}
    while True:
        chosen: tuple[float, int, int, int] | None = None
        for start, end in pairwise(ends):
            if (start, end) not in best:
                tau, q = best_split(series[start:end])
                best[start, end] = (start + tau, q)
            tau, q = best[start, end]
            if q > -math.inf and (chosen is None or q > chosen[0]):
                chosen = (q, start, tau, end)
        if chosen is None:
            return ends[1:-1]
        _, start, tau, end = chosen
        if not student_p(series[start:tau], series[tau:end]) <= limit:
            return ends[1:-1]
        ends = sorted([*ends, tau])


def _weak_points(series: Floats, quiet: Sequence[bool], window: int, limit: float) -> list[int]:
    """Return the splits of all windows, in order. ``quiet``: per half window, whether no split of it is significant."""
    step = max(1, window // 2)
    start, indexes = 0, set[int]()
    while start < series.size:
        splits: list[int] = []
        # A window begins at a multiple of half a window unless a split moved it.
        if start % step or not quiet[start // step]:
            splits = [start + split for split in _splits_of_window(series[start : start + window].tobytes(), limit)]
        start = max(splits[-1] if splits else 0, start + step)
        indexes.update(splits)
    return sorted(indexes)


def quiet_windows(rows: Floats, window: int, limit: float) -> NDArray[np.bool_]:
    """Return which windows of ``rows`` [k, n] have no split that reaches ``limit``: [k, windows], one per half a window.

    These windows need no distances. Doubtful ones (rounding, no spread) do not count as quiet.
    """
    from engine.stats.compiled import stdtrit

    k, n = rows.shape
    starts = range(0, n, max(1, window // 2))
    quiet = np.zeros((k, len(starts)), dtype=bool)
    for number, start in enumerate(starts):
        part = rows[:, start : start + window]
        m = part.shape[1]
        if m < 3:
            continue
        centred = part - part.mean(axis=1)[:, None]
        sums = np.cumsum(centred, axis=1)
        squares = np.cumsum(centred * centred, axis=1)
        n1 = np.arange(1.0, m)
        n2 = m - n1
        left, right = sums[:, :-1], sums[:, -1:] - sums[:, :-1]
        inner_right = squares[:, -1:] - squares[:, :-1] - right * right / n2
        pooled = ((n1 - 1) / n1 * (squares[:, :-1] - left * left / n1) + (n2 - 1) / n2 * inner_right) / (m - 2)
        apart = (left / n1 - right / n2) ** 2
        reach = float(stdtrit(m - 2, 1.0 - limit / 2.0)) ** 2 * (1.0 - 1e-6)
        surely = (apart < reach * pooled * (1.0 / n1 + 1.0 / n2)) & (pooled > 1e-7 * squares[:, -1:] / m)
        quiet[:, number] = surely.all(axis=1)
    return quiet


def change_points_of(
    rows: Floats,
    *,
    window: int = 50,
    max_p_value: float = 0.001,
    min_magnitude: float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> list[tuple[ChangePoint, ...]]:
    """Find the change points of finite series of equal length, ``rows`` [k, n], each in time order.

    Windows of ``window`` points advance by half a window; weak points pass at 10 x the p limit (2 x from 0.05 on) and
    are merged, weakest first, until every p is below ``max_p_value`` and every magnitude above ``min_magnitude``.
    ``check`` is called between rows.
    """
    if rows.shape[1] < 2:
        return [() for _ in rows]
    weak = max_p_value * 10 if max_p_value < 0.05 else max_p_value * 2 if max_p_value < 0.5 else max_p_value
    points = []
    for series, quiet in zip(rows, quiet_windows(rows, window, weak).tolist(), strict=True):
        check()
        points.append(_merged(series, _weak_points(series, quiet, window, weak), max_p_value, min_magnitude))
    return points


def _merged(series: Floats, indexes: list[int], max_p_value: float, min_magnitude: float) -> tuple[ChangePoint, ...]:
    """Drop the weakest point until all that remain are significant and large enough."""
    ends = [0, *indexes, series.size]
    points = [_point(i, series, ends) for i in indexes]
    while points:
        weakest = max(points, key=lambda p: p.p_value)
        if weakest.p_value < max_p_value:
            weakest = min(points, key=lambda p: p.magnitude)
            if weakest.magnitude > min_magnitude:
                break
        at = points.index(weakest)
        del points[at]
        ends = [0, *(p.index for p in points), series.size]
        # Like Otava, judge the two points after the dropped one again, not its neighbours on both sides: the earlier
        # neighbour keeps its old p, which decides which points survive.
        for near in points[at : at + 2]:
            points[points.index(near)] = _point(near.index, series, ends)
    return tuple(points)


def _point(index: int, series: Floats, ends: Sequence[int]) -> ChangePoint:
    """Judge the point at ``index`` between its neighbours among ``ends``."""
    start, end = max(e for e in ends if e < index), min(e for e in ends if e > index)
    left, right = series[start:index], series[index:end]
    return ChangePoint(index, student_p(left, right), float(left.mean()), float(right.mean()))
