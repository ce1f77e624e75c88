"""Compare two samples by ranks, many pairs of samples at once: distances, tests, and the shift between them.

Every function takes matrices: row ``i`` of ``left`` [k, n1] is compared with row ``i`` of ``right`` [k, n2]. The shift and its
distribution-free interval follow Hodges and Lehmann (1963).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BLOCK = 200_000  # values merged at a time, so that a block and its temporaries stay in the second-level cache

_WORTH_SEARCHING = 120
"""Size of the smaller sample from which searching sorted rows one by one is faster than sorting both together."""

EXACT_PAIRS = 2_500  # largest n1 * n2 for which Mann-Whitney's null distribution is counted exactly (50 against 50)

EXACT_TIED = 30  # largest n1 + n2 for which the distribution given the ties is counted exactly


class Merged(msgspec.Struct, frozen=True):
    """Results of merging both samples, per row.

    ``distance``: largest gap of the two empirical distribution functions. ``u_left``: pairs in which the left value is
    larger, ties half. ``tie_term``: sum of t^3 - t over groups of equal values. ``tied``: whether any value is.
    """

    n_left: int
    n_right: int
    distance: Floats
    u_left: Floats
    tie_term: Floats

    @property
    def tied(self) -> NDArray[np.bool_]:
        """Whether some value of a row occurs twice."""
        return np.asarray(self.tie_term > 0)

    @property
    def cliffs_delta(self) -> Floats:
        """P(left > right) - P(left < right), between -1 and 1."""
        return 2.0 * self.u_left / (self.n_left * self.n_right) - 1.0


def merge(left: Floats, right: Floats) -> Merged:
    """Merge finite samples row by row. O(k n log n); no scipy."""
    k, n1 = left.shape
    n2 = right.shape[1]
    distance, u_left, tie_term = np.zeros(k), np.zeros(k), np.zeros(k)
    if n1 and n2:
        step = max(1, _BLOCK // (n1 + n2))
        for start in range(0, k, step):
            rows = slice(start, start + step)
            distance[rows], u_left[rows], tie_term[rows] = _merge_block(left[rows], right[rows])
    return Merged(n1, n2, distance, u_left, tie_term)


def merge_sorted(left: Floats, right: Floats) -> Merged:
    """Merge samples whose rows are sorted; same result as ``merge`` without sorting both together.

    Rows with ties and small samples go through ``merge``.
    """
    k, n1 = left.shape
    n2 = right.shape[1]
    if min(n1, n2) < _WORTH_SEARCHING:
        return merge(left, right)
    distance, u_left, tie_term = np.zeros(k), np.zeros(k), np.zeros(k)
    step = max(1, _BLOCK // (n1 + n2))
    before, upto = np.arange(n1) / n1, np.arange(1, n1 + 1) / n1
    for start in range(0, k, step):
        rows = slice(start, start + step)
        x, y = left[rows], right[rows]
        at = np.empty(x.shape, dtype=np.int64)
        for row in range(len(x)):
            at[row] = y[row].searchsorted(x[row])
        tied = (x[:, 1:] == x[:, :-1]).any(axis=1) | (y[:, 1:] == y[:, :-1]).any(axis=1)
        tied |= (np.take(y, np.minimum(at, n2 - 1) + (np.arange(len(x)) * n2)[:, None]) == x).any(axis=1)
        u_left[rows] = at.sum(axis=1)
        # Between two left values the gap only grows or shrinks: it is largest at one of them or just before.
        share = at / n2
        distance[rows] = np.maximum(np.abs(upto - share).max(axis=1), np.abs(before - share).max(axis=1))
        if tied.any():
            again = np.flatnonzero(tied)
            distance[start + again], u_left[start + again], tie_term[start + again] = _merge_block(x[again], y[again])
    return Merged(n1, n2, distance, u_left, tie_term)


def _merge_block(left: Floats, right: Floats) -> tuple[Floats, Floats, Floats]:
    n1, n2 = left.shape[1], right.shape[1]
    n = n1 + n2
    both = np.concatenate([left, right], axis=1) + 0.0  # + 0.0 turns -0.0 into 0.0
    if both.size and both.min() >= 0:
        # Non-negative doubles order like their bits; the sign bit is free, so the side rides in the lowest bit.
        keys = both.view(np.uint64) << np.uint64(1)
        keys[:, n1:] |= np.uint64(1)
        keys.sort(axis=1)
        is_right = (keys & np.uint64(1)).astype(np.int64)
        keys >>= np.uint64(1)
        last = np.ones(both.shape, dtype=bool)
        np.not_equal(keys[:, 1:], keys[:, :-1], out=last[:, :-1])
    else:
        order = np.argsort(both, axis=1, kind="stable")
        is_right = (order >= n1).astype(np.int64)
        values = np.take_along_axis(both, order, axis=1)
        last = np.ones(both.shape, dtype=bool)
        np.not_equal(values[:, 1:], values[:, :-1], out=last[:, :-1])
    seen_right = np.cumsum(is_right, axis=1)
    gap = np.abs((np.arange(1, n + 1) - seen_right) / n1 - seen_right / n2)
    gap[~last] = 0.0
    distance = gap.max(axis=1)
    if last.all():
        # Without ties a left value beats the right values seen before it.
        return distance, (seen_right * (1 - is_right)).sum(axis=1).astype(np.float64), np.zeros(len(both))
    place = np.arange(n)
    end = np.where(last, place, n)
    end = np.minimum.accumulate(end[:, ::-1], axis=1)[:, ::-1]
    first = np.ones(both.shape, dtype=bool)
    first[:, 1:] = last[:, :-1]
    start = np.maximum.accumulate(np.where(first, place, 0), axis=1)
    rank_left = (((start + end) / 2.0 + 1.0) * (1 - is_right)).sum(axis=1)
    size = (end - start + 1).astype(np.float64)
    return distance, rank_left - n1 * (n1 + 1) / 2.0, np.where(last, size**3 - size, 0.0).sum(axis=1)


@lru_cache(maxsize=512)
def u_distribution(n1: int, n2: int) -> Floats:
    """Return P(U <= u) for u = 0 .. n1 n2 without ties, by Mann and Whitney's recurrence (1947). Read-only array."""
    if n1 > n2:
        return u_distribution(n2, n1)
    # counts[j][u]: arrangements of i left among j right values; grown one left value at a time.
    counts = [np.ones(1) for _ in range(n2 + 1)]
    for i in range(1, n1 + 1):
        grown = [np.ones(1)]
        for j in range(1, n2 + 1):
            total = np.zeros(i * j + 1)
            total[: grown[j - 1].size] += grown[j - 1]
            total[j : j + counts[j].size] += counts[j]
            grown.append(total)
        counts = grown
    chances = np.cumsum(counts[n2]) / math.comb(n1 + n2, n1)
    chances.setflags(write=False)
    return chances


@lru_cache(maxsize=4096)
def _tied_distribution(n1: int, sizes: tuple[int, ...]) -> Floats:
    """Return P(2 R <= s) of the left rank sum R given groups of ``sizes`` equal values (Streitberg and Röhmel 1986)."""
    scores: list[int] = []
    before = 0
    for size in sizes:
        scores += [2 * before + size + 1] * size
        before += size
    top = sum(sorted(scores)[-n1:])
    ways = np.zeros((n1 + 1, top + 1))
    ways[0, 0] = 1.0
    for taken, score in enumerate(scores):
        upto = min(taken + 1, n1)
        ways[1 : upto + 1, score:] += ways[0:upto, : top + 1 - score].copy()
    chances = np.cumsum(ways[n1]) / math.comb(len(scores), n1)
    chances.setflags(write=False)
    return chances


def _normal_sf(z: Floats) -> Floats:
    from engine.stats.compiled import ndtr

    return np.asarray(ndtr(-z), dtype=np.float64)


class Tails(msgspec.Struct, frozen=True):
    """One-sided p-values per row: ``below`` = P(U <= u), ``above`` = P(U >= u) under equal distributions."""

    below: Floats
    above: Floats

    @property
    def two_sided(self) -> Floats:
        """Twice the smaller tail, at most 1."""
        return np.minimum(1.0, 2.0 * np.minimum(self.below, self.above))


def mann_whitney(left: Floats, right: Floats, merged: Merged | None = None) -> Tails:
    """Return the tails of Mann and Whitney's U of the left sample.

    Exact without ties up to ``EXACT_PAIRS`` pairs and with ties up to ``EXACT_TIED`` values; else the normal
    approximation with tie and continuity correction, as scipy's ``mannwhitneyu`` has it. All values equal: p = 1.
    """
    merged = merge(left, right) if merged is None else merged
    n1, n2 = merged.n_left, merged.n_right
    k = len(left)
    if not (n1 and n2):
        return Tails(np.full(k, np.nan), np.full(k, np.nan))
    n, pairs = n1 + n2, n1 * n2
    u = merged.u_left
    below, above = np.ones(k), np.ones(k)
    tied = merged.tied
    exact = ~tied if pairs <= EXACT_PAIRS else np.zeros(k, dtype=bool)
    if exact.any():
        table = u_distribution(n1, n2)
        at = np.rint(u[exact]).astype(np.int64)
        below[exact] = table[at]
        above[exact] = table[pairs - at]
    rest = ~exact
    if n <= EXACT_TIED:
        for i in np.flatnonzero(tied):
            sizes = np.unique(np.concatenate([left[i], right[i]]), return_counts=True)[1]
            table = _tied_distribution(n1, tuple(sizes.tolist()))
            score = round(2 * (u[i] + n1 * (n1 + 1) / 2.0))
            below[i] = table[score]
            above[i] = 1.0 - (table[score - 1] if score else 0.0)
            rest[i] = False
    if rest.any():
        spread = np.sqrt(np.maximum(pairs / 12.0 * (n + 1 - merged.tie_term[rest] / (n * (n - 1))), 0.0))
        flat = spread == 0
        shift = u[rest] - pairs / 2.0
        safe = np.where(flat, 1.0, spread)
        above[rest] = np.where(flat, 1.0, _normal_sf((shift - 0.5) / safe))
        below[rest] = np.where(flat, 1.0, _normal_sf((-shift - 0.5) / safe))
    return Tails(np.clip(below, 0.0, 1.0), np.clip(above, 0.0, 1.0))


def critical_rank(n1: int, n2: int, alpha: float) -> int:
    """Return the largest c with P(U <= c - 1) <= alpha; 0 if the samples are too small for any bound.

    The c-th smallest and the c-th largest pairwise difference bound the shift with confidence 1 - 2 alpha.
    """
    pairs = n1 * n2
    if not pairs:
        return 0
    if pairs <= EXACT_PAIRS:
        # A tail that equals alpha exactly must count despite rounding of the cumulated probabilities.
        return int(np.searchsorted(u_distribution(n1, n2), alpha * (1 + 1e-12), side="right"))
    from engine.stats.compiled import ndtri

    return max(0, math.floor((pairs / 2.0 + float(ndtri(alpha)) * math.sqrt(pairs * (n1 + n2 + 1) / 12.0)) + 0.5))


Ints = NDArray[np.int64]

_ALL_PAIRS = 4_000  # pairs up to which all differences are formed; above, ranks are selected without forming them

_DIFFERENCES = 2_000_000  # differences formed at a time

_COARSE = 24  # quantiles of each sample from which the coarse grid of differences is made

_SLOPE = 24  # places to both sides in the coarse grid between which differences are assumed to be evenly spread

_REACH, _REACH_SHARE = 48.0, 0.3
"""Ranks by which a predicted bracket reaches beyond its target, plus a share of the root of all pairs."""

_SOME = 5  # every fifth left value is counted to estimate the rank of a guess

_MARGIN = 16  # places in the coarse grid by which the first bracket after a failed prediction reaches beyond its ranks

_FEW_DISTINCT = 2_000  # pairs of distinct values up to which pairs are counted; a metric in whole steps has few

_ROWS = 48  # rows handled at a time, so that they fit the second-level cache


class Shift(msgspec.Struct, frozen=True):
    """Right minus left per row: median of all pairwise differences, and bounds (infinite where samples are too small).

    ``low``/``high`` hold the shift with confidence 1 - 2 alpha.
    """

    estimate: Floats
    low: Floats
    high: Floats


def hodges_lehmann(
    left: Floats, right: Floats, alpha: float, check: Callable[[], None] = lambda: None, *, ordered: bool = False
) -> Shift:
    """Estimate the shift of ``right`` [k, n2] against ``left`` [k, n1] (finite values), interval by Mann-Whitney critical ranks.

    O(k n log n): only the differences near those ranks are formed in large samples. ``check`` is called between pieces.
    ``ordered``: rows are sorted already.
    """
    k, n1 = left.shape
    n2 = right.shape[1]
    pairs = n1 * n2
    if not pairs:
        nothing = np.full(k, np.nan)
        return Shift(nothing, nothing.copy(), nothing.copy())
    c = critical_rank(n1, n2, alpha)
    wanted = ((pairs - 1) // 2, pairs // 2, *((c - 1, pairs - c) if c else ()))
    samples = (left, right) if ordered else (np.sort(left, axis=1), np.sort(right, axis=1))
    differences = _select_all(left, right, wanted) if pairs <= _ALL_PAIRS else _select_large(*samples, wanted, check)
    estimate = (differences[:, 0] + differences[:, 1]) / 2.0
    return (
        Shift(estimate, differences[:, 2], differences[:, 3])
        if c
        else Shift(estimate, np.full(k, -np.inf), np.full(k, np.inf))
    )


def _select_all(left: Floats, right: Floats, ranks: tuple[int, ...]) -> Floats:
    k, n1 = left.shape
    n2 = right.shape[1]
    selected = np.empty((k, len(ranks)))
    step = max(1, _DIFFERENCES // (n1 * n2))
    kth = sorted(set(ranks))
    for start in range(0, k, step):
        rows = slice(start, start + step)
        differences = (right[rows, None, :] - left[rows, :, None]).reshape(-1, n1 * n2)
        differences.partition(kth, axis=1)
        selected[rows] = differences[:, list(ranks)]
    return selected


def _select_large(x: Floats, y: Floats, ranks: tuple[int, ...], check: Callable[[], None]) -> Floats:
    """Return the differences of the given ranks of sorted samples: pairs of different values counted, or selected by rank."""
    selected = np.empty((len(x), len(ranks)))
    few = _distinct(x) * _distinct(y) <= _FEW_DISTINCT
    for row in np.flatnonzero(few).tolist():
        selected[row] = _select_counted(x[row], y[row], ranks)
    rest = np.flatnonzero(~few)
    for start in range(0, rest.size, _ROWS):
        check()
        rows = rest[start : start + _ROWS]
        selected[rows] = _select_rows(x[rows], y[rows], np.array(ranks))
    return selected


def _distinct(rows: Floats) -> Ints:
    """Return how many different values each sorted row holds."""
    return np.asarray(1 + np.count_nonzero(rows[:, 1:] != rows[:, :-1], axis=1), dtype=np.int64)


def _select_counted(x: Floats, y: Floats, ranks: tuple[int, ...]) -> Floats:
    """Return differences of the given ranks from each pair of different values and how often it occurs."""
    values, counts = [], []
    for sample in (x, y):
        starts = np.flatnonzero(np.concatenate([[True], sample[1:] != sample[:-1]]))
        values.append(sample[starts])
        counts.append(np.diff(np.concatenate([starts, [sample.size]])))
    differences = np.subtract.outer(values[1], values[0]).ravel()
    order = np.argsort(differences)
    upto = np.cumsum(np.multiply.outer(counts[1], counts[0]).ravel()[order])
    return differences[order[np.searchsorted(upto, np.array(ranks), side="right")]]


def _select_rows(x: Floats, y: Floats, ranks: Ints) -> Floats:
    """Return the differences of the given ``ranks`` of sorted samples; the first two ranks are neighbours.

    A coarse grid of quantiles guesses each difference, a fraction of the left sample estimates by how many ranks the guess
    is off, and the spacing of the grid predicts a narrow bracket. Ranks outside it are selected from widening brackets.
    """
    grid = _grid(x, y)
    size, pairs = grid.shape[1], x.shape[1] * y.shape[1]
    first, last = np.delete(ranks, 1), np.delete(ranks, 0)
    place = np.minimum(((first + 0.5) / pairs * size).astype(np.int64), size - 1)
    below, above = np.maximum(place - _SLOPE, 0), np.minimum(place + _SLOPE, size - 1)
    guess = grid[:, place]
    per_rank = (grid[:, above] - grid[:, below]) / ((above - below) * (pairs / size))
    few = max(x.shape[1] // _SOME, 1)
    needles = x[:, ((np.arange(few) + 0.5) / few * x.shape[1]).astype(np.int64)][:, None, :] + guess[:, :, None]
    smaller = np.array([right.searchsorted(row).sum(axis=1) for right, row in zip(y, needles, strict=True)])
    off = first - smaller * (x.shape[1] / few)
    reach = _REACH + _REACH_SHARE * pairs**0.5 + np.abs(off) / 8.0
    low, high = guess + (off - reach) * per_rank, guess + (off + (last - first) + reach) * per_rank
    selected, proven = _select_between(x, y, low, high, first, last)
    rest, margin = np.flatnonzero(~proven), _MARGIN
    edges = np.concatenate([np.full((len(x), 1), -np.inf), grid, np.full((len(x), 1), np.inf)], axis=1)
    while rest.size:
        low = edges[rest][:, np.maximum(place + 1 - margin, 0)]
        high = edges[rest][:, np.minimum(place + 1 + margin, size + 1)]
        selected[rest], proven = _select_between(x[rest], y[rest], low, high, first, last)
        rest, margin = rest[~proven], 4 * margin
    return selected


def _grid(x: Floats, y: Floats) -> Floats:
    """Return differences of coarse quantiles of sorted samples, sorted."""
    at = (np.arange(_COARSE) + 0.5) / _COARSE
    few_x = x[:, (at * x.shape[1]).astype(np.int64)]
    grid = (y[:, (at * y.shape[1]).astype(np.int64)][:, None, :] - few_x[:, :, None]).reshape(len(x), -1)
    grid.sort(axis=1)
    return grid


def _select_between(
    x: Floats, y: Floats, low: Floats, high: Floats, first: Ints, last: Ints
) -> tuple[Floats, NDArray[np.bool_]]:
    """Select from the differences within brackets ``low`` to ``high`` [rows, brackets].

    Returns per row the differences of rank ``first`` of each bracket, with that of rank ``last`` of the first bracket in
    second place, and whether all are proven: everything outside a bracket is then at most or at least as large.
    """
    shape = (*low.shape, x.shape[1])
    # Rounding of x + low must not leave out a difference above low, nor x + high one below high.
    extent = np.maximum(np.abs(x[:, 0]), np.abs(x[:, -1]))[:, None]
    limits = np.stack([low, high], axis=1)
    slack = np.spacing(extent[:, :, None] + np.where(np.isfinite(limits), np.abs(limits), 0.0))
    slack[:, 0] *= -1.0
    needles = x[:, None, None, :] + (limits + slack)[:, :, :, None]
    positions = np.array([right.searchsorted(row) for right, row in zip(y, needles, strict=True)])
    start, counts = positions[:, 0], positions[:, 1] - positions[:, 0]
    skipped = start.sum(axis=2)
    ends = np.cumsum(counts).reshape(shape)
    place = np.repeat(start + (np.arange(len(x)) * y.shape[1])[:, None, None] - (ends - counts), counts.ravel())
    place += np.arange(place.size)
    inside = y.ravel()[place]
    inside -= np.repeat(np.broadcast_to(x[:, None, :], shape), counts.ravel())
    stop = ends[:, :, -1]
    begin = np.concatenate([[0], stop.ravel()[:-1]]).reshape(stop.shape)
    for a, b in zip(begin.ravel().tolist(), stop.ravel().tolist(), strict=True):
        inside[a:b].sort()
    at, until = begin + first - skipped, begin + last - skipped
    found = (at >= begin) & (until < stop)
    inside = np.append(inside, np.nan)
    least, greatest = inside[np.where(found, at, -1)], inside[np.where(found, until, -1)]
    proven = np.all((least >= low) & (greatest <= high), axis=1)
    return np.concatenate([least[:, :1], greatest[:, :1], least[:, 1:]], axis=1), np.asarray(proven)
