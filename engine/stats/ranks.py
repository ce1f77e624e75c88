"""Compute rank statistics of two samples, many pairs of samples at once: Kolmogorov-Smirnov distance, Mann-Whitney U, ties.

Every function takes matrices: row ``i`` of ``left`` [k, n1] is compared with row ``i`` of ``right`` [k, n2].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BLOCK = 200_000
"""Values merged at a time, so that a block and its temporaries stay in the second-level cache."""

_WORTH_SEARCHING = 120
"""Values of the smaller sample from which searching sorted rows one by one is quicker than sorting both together."""

EXACT_PAIRS = 2_500
"""Largest n1 * n2 for which Mann-Whitney's null distribution is counted exactly (50 against 50)."""

EXACT_TIED = 30
"""Largest n1 + n2 for which the distribution given the ties is counted exactly."""


@dataclass(frozen=True, slots=True)
class Merged:
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
    """Merge samples whose rows are sorted: the numbers of ``merge``, without sorting both together.

    Rows with equal values, and samples too small for it to pay, go through ``merge``.
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
        behind = np.minimum(at, n2 - 1) + (np.arange(len(x)) * n2)[:, None]
        tied |= (np.take(y, behind) == x).any(axis=1)
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
    seen_left = np.arange(1, n + 1) - seen_right
    gap = np.abs(seen_left / n1 - seen_right / n2)
    gap[~last] = 0.0
    distance = gap.max(axis=1)
    if last.all():
        # Without ties a left value beats the right values seen before it.
        u_left = (seen_right * (1 - is_right)).sum(axis=1).astype(np.float64)
        return distance, u_left, np.zeros(len(both))
    place = np.arange(n)
    end = np.where(last, place, n)
    end = np.minimum.accumulate(end[:, ::-1], axis=1)[:, ::-1]
    first = np.ones(both.shape, dtype=bool)
    first[:, 1:] = last[:, :-1]
    start = np.maximum.accumulate(np.where(first, place, 0), axis=1)
    rank = (start + end) / 2.0 + 1.0
    rank_left = (rank * (1 - is_right)).sum(axis=1)
    size = (end - start + 1).astype(np.float64)
    tie_term = np.where(last, size**3 - size, 0.0).sum(axis=1)
    return distance, rank_left - n1 * (n1 + 1) / 2.0, tie_term


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
    from scipy.special import ndtr

    return np.asarray(ndtr(-z), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Tails:
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
        variance = pairs / 12.0 * (n + 1 - merged.tie_term[rest] / (n * (n - 1)))
        spread = np.sqrt(np.maximum(variance, 0.0))
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
    from scipy.special import ndtri

    c = pairs / 2.0 + float(ndtri(alpha)) * math.sqrt(pairs * (n1 + n2 + 1) / 12.0)
    return max(0, math.floor(c + 0.5))
